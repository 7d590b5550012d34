//! Reads the description of a Huffman code: the weights of its symbols (RFC 8878, 4.2.1).

use super::Malformed;
use super::bits::BackwardBits;
use super::table::MAX_CODE_BITS;

/// The maximum number of weights that are stored: that of the last symbol follows from the others.
const MAX_STORED: usize = 255;

/// First bytes from this on mean weights of 4 bits each. Lower ones are the length of weights that FSE compresses.
const DIRECT: u8 = 128;

/// The binary logarithms of the possible sizes of FSE tables.
const MIN_ACCURACY_LOG: u32 = 5;
const MAX_ACCURACY_LOG: u32 = 6;

const CUT: Malformed = Malformed("the Huffman code exceeds the literals");

/// The stored weights of the symbols from 0.
pub(super) struct Weights {
    weights: [u8; MAX_STORED],
    count: usize,
}

impl Weights {
    fn new() -> Self {
        Weights { weights: [0; MAX_STORED], count: 0 }
    }

    fn push(&mut self, weight: u8) -> Result<(), Malformed> {
        let next = self.weights.get_mut(self.count).ok_or(Malformed("more than 256 symbols"))?;
        *next = weight;
        self.count += 1;
        Ok(())
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.weights.get(..self.count).unwrap_or_default()
    }
}

/// Reads the weights. Returns them and the bytes that follow.
pub(super) fn read(bytes: &[u8]) -> Result<(Weights, &[u8]), Malformed> {
    let (&first, bytes) = bytes.split_first().ok_or(CUT)?;
    if first < DIRECT {
        let (compressed, rest) = bytes.split_at_checked(first.into()).ok_or(CUT)?;
        return Ok((decompress(compressed)?, rest));
    }
    let count = usize::from(first - DIRECT) + 1;
    let (packed, rest) = bytes.split_at_checked(count.div_ceil(2)).ok_or(CUT)?;
    let mut weights = Weights::new();
    for weight in packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(count) {
        weights.push(weight)?;
    }
    Ok((weights, rest))
}

/// Decompresses weights. Two states take turns, and the first one that lacks bits ends the stream.
fn decompress(bytes: &[u8]) -> Result<Weights, Malformed> {
    let (counts, accuracy_log, bytes) = read_distribution(bytes)?;
    let table = StateTable::new(&counts, accuracy_log);
    let mut bits = BackwardBits::new(bytes)?;
    let mut start = || {
        let state = bits.peek(accuracy_log);
        bits.consume(accuracy_log).map(|()| state)
    };
    let (Some(mut state), Some(mut other)) = (start(), start()) else {
        return Err(Malformed("weights without their first states"));
    };
    let mut weights = Weights::new();
    loop {
        let current = table.get(state);
        weights.push(current.weight)?;
        state = usize::from(current.base);
        if current.bits > 0 {
            state += bits.peek(current.bits.into());
        }
        if bits.consume(current.bits.into()).is_none() {
            weights.push(table.get(other).weight)?;
            return Ok(weights);
        }
        (state, other) = (other, state);
    }
}

/// The number of states of each weight. A rare weight, which has less than one, is -1 and has one state at the end.
type Counts = [i16; MAX_CODE_BITS as usize + 1];

/// Reads the distribution of the weights (RFC 8878, 4.1.1). Returns it, the logarithm of its sum, and what follows.
fn read_distribution(bytes: &[u8]) -> Result<(Counts, u32, &[u8]), Malformed> {
    let mut at = 0;
    // Returns at most 8 bits. Those beyond the end are zeros.
    let peek = |at: usize, count: u32| {
        let byte = |at| u32::from(bytes.get(at).copied().unwrap_or_default());
        (byte(at / 8) | byte(at / 8 + 1) << 8) >> (at % 8) & ((1 << count) - 1)
    };
    let accuracy_log = peek(at, 4) + MIN_ACCURACY_LOG;
    at += 4;
    if accuracy_log > MAX_ACCURACY_LOG {
        return Err(Malformed("a distribution of weights with more than 64 states"));
    }
    let mut counts = Counts::default();
    // Each count takes at least 1 of `left`, which is the sum of the other counts plus 1.
    let mut left = (1 << accuracy_log) + 1;
    let mut symbols = counts.iter_mut();
    while left > 1 {
        // Numbers up to `left` are coded: the lower ones of them in a bit less.
        let width = u32::BITS - u32::leading_zeros(left);
        let short = 1 << (width - 1);
        let saved = 2 * short - 1 - left;
        let (number, used) = match peek(at, width - 1) {
            low if low < saved => (low, width - 1),
            _ => match peek(at, width) {
                high if high >= short => (high - saved, width),
                low => (low, width),
            },
        };
        at += used as usize;
        let symbol = symbols.next().ok_or(Malformed("a weight of more than 11 bits"))?;
        *symbol = number as i16 - 1;
        left -= symbol.unsigned_abs() as u32;
        // Runs of zeros: each 3 means three more.
        let mut more = if number == 1 { 3 } else { 0 };
        while more == 3 {
            more = peek(at, 2) as usize;
            at += 2;
            let is_too_many = more > symbols.len();
            symbols.by_ref().take(more).for_each(drop);
            if is_too_many {
                return Err(Malformed("a weight of more than 11 bits"));
            }
        }
    }
    let rest = bytes.get(at.div_ceil(8)..).ok_or(CUT)?;
    Ok((counts, accuracy_log, rest))
}

/// A state of the FSE decoder: its weight, and how the next state is computed.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    weight: u8,
    bits: u8,
    base: u8,
}

struct StateTable {
    states: [State; 1 << MAX_ACCURACY_LOG],
}

impl StateTable {
    /// Distributes the weights over the states (RFC 8878, 4.1.1, "From normalized distribution to decoding tables").
    fn new(counts: &Counts, accuracy_log: u32) -> Self {
        let mut states = [State::default(); 1 << MAX_ACCURACY_LOG];
        let size = 1usize << accuracy_log;
        let mut place = |at: usize, weight: usize| {
            if let Some(state) = states.get_mut(at) {
                state.weight = weight as u8;
            }
        };
        let mut end = size;
        for (weight, _) in counts.iter().enumerate().filter(|&(_, &count)| count == -1) {
            end -= 1;
            place(end, weight);
        }
        let step = (size >> 1) + (size >> 3) + 3;
        let mut at = 0;
        for (weight, &count) in counts.iter().enumerate() {
            for _ in 0..count.max(0) {
                place(at, weight);
                at = (at + step) & (size - 1);
                while at >= end && end > 0 {
                    at = (at + step) & (size - 1);
                }
            }
        }
        // The states of a weight are numbered from its count. The number, with the bits read, becomes the next state.
        let mut numbers = counts.map(|count| u32::from(count.unsigned_abs()));
        for state in states.iter_mut().take(size) {
            if let Some(number) = numbers.get_mut(usize::from(state.weight)) {
                let bits = accuracy_log.saturating_sub(number.checked_ilog2().unwrap_or_default());
                state.bits = bits as u8;
                state.base = ((*number << bits) - size as u32) as u8;
                *number += 1;
            }
        }
        StateTable { states }
    }

    fn get(&self, state: usize) -> State {
        self.states.get(state).copied().unwrap_or_default()
    }
}
