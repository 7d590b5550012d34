//! The memory that a call takes for its tensors.

use super::{Assembly, Batch};
use crate::error::Result;
use crate::loader::schedule::planned::PlannedTensor;
use crate::loader::schedule::target::unplanned;
use crate::source::ModelSource;
use std::sync::Arc;

/// When a tensor gets memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryWait {
    /// Once the budget has it.
    UntilFree,
    /// At once: it is needed to finish a tensor that has been started.
    Never,
}

impl<S: ModelSource> Batch<S> {
    /// Waits until there is memory for a planned tensor. Does not wait if it has memory already or is no longer wanted.
    pub(crate) async fn reserve_memory(&self, slot: usize, wait: MemoryWait) -> Result<()> {
        let stores_output = self.stores_output(slot);
        let (tensor, bytes) = match self.planned_tensors.borrow().get(slot).ok_or_else(unplanned)? {
            // A caller's buffer does not count.
            Assembly { planned: PlannedTensor { into: Some(_), expansion: None, .. }, .. } => return Ok(()),
            assembly if !stores_output || assembly.has_memory() => return Ok(()),
            Assembly { planned: PlannedTensor { tensor, rows, into, conversion, expansion }, .. } => {
                let whole = || tensor.byte_length().unwrap_or_else(|| tensor.stored_length());
                let stored = || rows.as_ref().map_or_else(whole, |rows| rows.bytes.end - rows.bytes.start);
                let bytes = conversion.as_ref().map_or_else(stored, |conversion| conversion.byte_length());
                let dense =
                    expansion.as_ref().filter(|_| into.is_none()).map_or(0, |expansion| expansion.byte_length());
                let bytes = bytes.saturating_add(dense);
                // Compressed bytes that wait for a worker count too.
                let packed = tensor.components.iter().filter(|part| !part.encoding.keeps_positions());
                let waiting = packed.fold(0, |sum: u64, part| sum.saturating_add(part.range.end - part.range.start));
                let bytes = if self.pool.is_some() { bytes.saturating_add(waiting) } else { bytes };
                // One copy at a time.
                let is_tied = self.call.tied.followers(slot).len() > 0;
                let bytes = if is_tied { bytes.saturating_mul(2) } else { bytes };
                (Arc::clone(tensor), bytes)
            }
        };
        let at_once = || wait == MemoryWait::Never || self.has_started_tensor() || self.is_cancelled(slot);
        if self.call.budget.wait(bytes, at_once).await {
            self.concurrency.borrow_mut().restart();
        }
        let taken = self.call.budget.take(&tensor.name, bytes);
        if let Some(assembly) = self.planned_tensors.borrow_mut().get_mut(slot) {
            assembly.gathered().taken = Some(taken);
        }
        Ok(())
    }

    /// Whether a tensor of several components has been started. Its other components may come after the tensor that
    /// waits for memory.
    fn has_started_tensor(&self) -> bool {
        let is_amid = |assembly: &Assembly<_>| assembly.has_memory() && assembly.planned.tensor.components.len() > 1;
        self.planned_tensors.borrow().iter().any(is_amid)
    }
}
