//! Decoded tensors in memory: those that were used last.

use crate::loader::Loaded;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// What a kept tensor takes besides its bytes. Bounds the number of tensors without any.
const OVERHEAD_BYTES: u64 = 1 << 10;

/// Decoded tensors by their number in the index. Those that were not used for the longest time are dropped first.
pub(crate) struct KeptTensors<B> {
    max_bytes: u64,
    bytes: u64,
    tensors: HashMap<usize, Kept<B>>,
    /// The numbers of the tensors in the order of their uses, each with the count of uses up to then. Only the last use
    /// of a tensor counts.
    uses: VecDeque<(usize, u64)>,
    use_count: u64,
}

struct Kept<B> {
    loaded: Rc<Loaded<B>>,
    last_use: u64,
}

impl<B> KeptTensors<B> {
    pub(crate) fn new(max_bytes: u64) -> Self {
        KeptTensors { max_bytes, bytes: 0, tensors: HashMap::new(), uses: VecDeque::new(), use_count: 0 }
    }

    /// The maximum number of bytes that are kept.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.tensors.contains_key(&number)
    }

    /// Returns a tensor, which counts as a use.
    pub(crate) fn get(&mut self, number: usize) -> Option<Rc<Loaded<B>>> {
        if !self.has(number) {
            return None;
        }
        let last_use = self.next_use(number);
        let kept = self.tensors.get_mut(&number)?;
        kept.last_use = last_use;
        Some(Rc::clone(&kept.loaded))
    }

    pub(crate) fn keep(&mut self, number: usize, loaded: Rc<Loaded<B>>) {
        self.bytes += size_of(&loaded);
        let kept = Kept { loaded, last_use: self.next_use(number) };
        if let Some(replaced) = self.tensors.insert(number, kept) {
            self.bytes -= size_of(&replaced.loaded);
        }
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.uses.pop_front() else { break };
            if self.is_last_use(oldest)
                && let Some(kept) = self.tensors.remove(&oldest.0)
            {
                self.bytes -= size_of(&kept.loaded);
            }
        }
    }

    fn next_use(&mut self, number: usize) -> u64 {
        self.use_count += 1;
        self.uses.push_back((number, self.use_count));
        if self.uses.len() > 2 * self.tensors.len() + 16 {
            let mut uses = std::mem::take(&mut self.uses);
            uses.retain(|earlier| self.is_last_use(*earlier));
            uses.push_back((number, self.use_count));
            self.uses = uses;
        }
        self.use_count
    }

    fn is_last_use(&self, (number, use_count): (usize, u64)) -> bool {
        self.tensors.get(&number).is_some_and(|kept| kept.last_use == use_count)
    }
}

fn size_of<B>(loaded: &Loaded<B>) -> u64 {
    loaded.tensor.byte_length().unwrap_or(0).saturating_add(OVERHEAD_BYTES)
}
