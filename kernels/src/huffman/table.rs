//! The decoding table of a Huffman code: the symbols of the next 11 bits, up to six at once.

use super::Malformed;
use super::weights::Weights;

/// The maximum length of a code (RFC 8878, 4.2.1).
pub(super) const MAX_CODE_BITS: u32 = 11;

/// The number of entries for the next [`MAX_CODE_BITS`] bits.
pub(super) const ENTRIES: usize = 1 << MAX_CODE_BITS;

/// The symbols whose codes the next 11 bits contain completely, and never none.
///
/// ```text
/// bits  0 to  7   the length of all their codes together
/// bits  8 to 55   the symbols, the first one lowest
/// bits 61 to 63   their number
/// ```
///
/// A shift ignores all but the low 6 bits of its distance, so that the length can be used without a mask.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry(u64);

const SYMBOLS: u64 = 0x00ff_ffff_ffff_ff00;
const ONE_SYMBOL: u64 = 1 << 61;

impl Entry {
    /// The entry with `symbol` before those of `rest`, which are at most five.
    #[inline(always)]
    fn before(rest: Entry, symbol: u8, code_bits: u8) -> Entry {
        let added = ONE_SYMBOL | u64::from(symbol) << 8 | u64::from(code_bits);
        Entry(((rest.0 & SYMBOLS) << 8) + (rest.0 & !SYMBOLS) + added)
    }

    /// The distance of a shift by all codes of this entry, of which only the low 6 bits are valid.
    #[inline(always)]
    pub(super) fn shift(self) -> u32 {
        self.0 as u32
    }

    /// The symbols, followed by bytes without a meaning.
    #[inline(always)]
    pub(super) fn symbols(self) -> [u8; 8] {
        (self.0 >> 8).to_le_bytes()
    }

    /// The number of symbols.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        (self.0 >> 61) as usize
    }
}

/// The tables of a Huffman code for the next 0 to 11 bits. The one for `bits` starts at `1 << bits`, so that each is
/// made from those before it. In the smaller ones, entries may have no symbols.
#[derive(Debug)]
pub(super) struct Table {
    entries: Box<[Entry; 2 * ENTRIES]>,
    /// The lengths of the codes of all symbols. 0 if the symbol has no code.
    code_bits: [u8; 256],
}

impl Default for Table {
    fn default() -> Self {
        Table { entries: Box::new([Entry::default(); 2 * ENTRIES]), code_bits: [0; 256] }
    }
}

impl Table {
    /// The entries for the next 11 bits.
    #[inline(always)]
    pub(super) fn entries(&self) -> &[Entry; ENTRIES] {
        let (_, last) = self.entries.split_at(ENTRIES);
        match last.first_chunk() {
            Some(last) => last,
            None => &[Entry(0); ENTRIES],
        }
    }

    /// Whether each entry has one symbol, because two codes have more than 11 bits.
    pub(super) fn has_one_symbol_each(&self) -> bool {
        self.code_bits.iter().all(|&bits| bits == 0 || u32::from(bits) > MAX_CODE_BITS / 2)
    }

    /// Returns the first symbol of an entry and the length of its code.
    pub(super) fn first(&self, bits: usize) -> (u8, u32) {
        let [symbol, ..] = self.entries().get(bits).copied().unwrap_or_default().symbols();
        (symbol, self.code_bits.get(usize::from(symbol)).copied().unwrap_or_default().into())
    }

    /// Sets the code.
    pub(super) fn set(&mut self, weights: &Weights) -> Result<(), Malformed> {
        let weights = weights.as_slice();
        let max_weight = weights.iter().copied().max().unwrap_or_default();
        if u32::from(max_weight) > MAX_CODE_BITS {
            return Err(Malformed("a weight of more than 11 bits"));
        }
        // A weight is the binary logarithm of the share of a symbol, plus 1. The shares sum up to a power of two, and
        // the last symbol has what is missing.
        let share = |weight: u8| (1 << weight) >> 1;
        let sum: u32 = weights.iter().map(|&weight| share(weight)).sum();
        let max_bits = sum.checked_ilog2().ok_or(Malformed("a Huffman code with one symbol"))? + 1;
        let missing = (1 << max_bits) - sum;
        if max_bits > MAX_CODE_BITS || !missing.is_power_of_two() {
            return Err(Malformed("a Huffman code that is not complete or has more than 11 bits"));
        }
        let last = missing.ilog2() as u8 + 1;
        let all = weights.iter().copied().chain([last]);
        if all.clone().filter(|&weight| weight == 1).count() < 2 {
            return Err(Malformed("a Huffman code without two longest codes"));
        }
        self.code_bits = [0; 256];
        for (code_bits, weight) in self.code_bits.iter_mut().zip(all) {
            *code_bits = if weight == 0 { 0 } else { max_bits as u8 + 1 - weight };
        }
        self.fill();
        Ok(())
    }

    /// Makes the tables. Codes are assigned to symbols from the longest to the shortest code, then in the order of the
    /// symbols. The symbols with a code of `n` bits therefore divide a table into ranges, and the range of each is the
    /// table for `n` bits less with this symbol put before it.
    fn fill(&mut self) {
        let mut positions = [0; MAX_CODE_BITS as usize + 1];
        for &code_bits in &self.code_bits {
            if let Some(count) = positions.get_mut(usize::from(code_bits)) {
                *count += 1;
            }
        }
        let mut start = 0;
        for position in positions.iter_mut().skip(1).rev() {
            (start, *position) = (start + *position, start);
        }
        let mut sorted = [(0, 0); 256];
        for (symbol, code_bits) in (0..=u8::MAX).zip(self.code_bits).filter(|&(_, code_bits)| code_bits > 0) {
            if let Some(position) = positions.get_mut(usize::from(code_bits))
                && let Some(next) = sorted.get_mut(*position)
            {
                *next = (symbol, code_bits);
                *position += 1;
            }
        }
        let sorted = sorted.get(..start).unwrap_or_default();
        // An entry has at most six symbols: five of two bits, or one and five of one bit.
        let has_one_bit = sorted.last().is_some_and(|&(_, code_bits)| code_bits == 1);
        let max_rest_bits = if has_one_bit { 5 } else { MAX_CODE_BITS - 2 };
        for bits in (0..=max_rest_bits).chain([MAX_CODE_BITS]) {
            self.fill_one(bits, max_rest_bits, sorted);
        }
    }

    /// Makes the table for the next `bits` bits.
    fn fill_one(&mut self, bits: u32, max_rest_bits: u32, sorted: &[(u8, u8)]) {
        let fitting = sorted.partition_point(|&(_, code_bits)| u32::from(code_bits) > bits);
        let fitting = sorted.get(fitting..).unwrap_or_default();
        let size = 1 << bits;
        let taken: usize = fitting.iter().map(|&(_, code_bits)| size >> code_bits).sum();
        let Some((smaller, table)) = self.entries.split_at_mut_checked(size) else { return };
        let Some((none, mut table)) = table.get_mut(..size).and_then(|table| table.split_at_mut_checked(size - taken))
        else {
            return;
        };
        none.fill(Entry::default());
        for group in fitting.chunk_by(|(_, code_bits), (_, next)| code_bits == next) {
            let Some(&(_, code_bits)) = group.first() else { return };
            let rest_bits = bits - u32::from(code_bits);
            let Some((ranges, after)) = table.split_at_mut_checked(group.len() << rest_bits) else { return };
            table = after;
            let known_bits = rest_bits.min(max_rest_bits);
            let rests = smaller.get(1 << known_bits..2 << known_bits).unwrap_or_default();
            for (range, &(symbol, _)) in ranges.chunks_exact_mut(1 << rest_bits).zip(group) {
                if known_bits == rest_bits {
                    for (entry, rest) in range.iter_mut().zip(rests) {
                        *entry = Entry::before(*rest, symbol, code_bits);
                    }
                } else {
                    for (entries, rest) in range.chunks_exact_mut(1 << (rest_bits - known_bits)).zip(rests) {
                        entries.fill(Entry::before(*rest, symbol, code_bits));
                    }
                }
            }
        }
    }
}
