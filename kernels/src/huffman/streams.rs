//! Decodes streams of Huffman codes.
//!
//! Where a code starts is known only after the previous lookup. The lookups of four streams take turns, so that the
//! processor works on four at once: one stream after the other in each round takes 1.25 times as long. Lookups of one
//! symbol take 2.5 times as long, and of up to two symbols 1.7 times (exponents of BF16). Stores without checks of
//! bounds, which are unsafe, were not faster in V8.

use super::Malformed;
use super::bits::BackwardBits;
use super::table::{ENTRIES, Entry, MAX_CODE_BITS, Table};

/// The number of lookups between two loads of a word: the first 8 bits of a word may already be consumed.
const LOOKUPS: usize = 5;

const WORD_BYTES: usize = 8;

/// The input of a round: the word that is loaded, and the bytes before it that the next word may have.
const INPUT_BYTES: usize = 2 * WORD_BYTES - 1;

/// The output of a round. Counts have 3 bits, and each lookup writes a word.
const OUTPUT_BYTES: usize = 7 * (LOOKUPS - 1) + WORD_BYTES;

/// A stream and its output.
pub(super) struct Stream<'a> {
    /// Unless `word` is loaded, the rest of the stream.
    bits: BackwardBits<'a>,
    /// The next bits, from the highest, then a 1 and zeros. The last 8 of `bits.bytes` without those that are consumed,
    /// and with a 1 as the lowest bit: the number of zeros is that of the consumed bits. 0 if the stream is shorter.
    word: u64,
    /// The part of the output that is not written.
    decoded: &'a mut [u8],
}

impl<'a> Stream<'a> {
    pub(super) fn new(bytes: &'a [u8], decoded: &'a mut [u8]) -> Result<Self, Malformed> {
        let bits = BackwardBits::new(bytes)?;
        let word = bytes.last_chunk().map_or(0, |last| word(*last, bytes.len() * 8 - bits.left));
        Ok(Stream { bits, word, decoded })
    }

    /// Starts a round. Returns `None` near the end of the stream or the output.
    #[inline(always)]
    fn round(&mut self) -> Option<Round<'_>> {
        let input = self.bits.bytes.last_chunk()?;
        let output = self.decoded.first_chunk_mut()?;
        Some(Round { word: self.word, input, output, written: 0 })
    }

    /// Continues after a round.
    #[inline(always)]
    fn advance(&mut self, end: RoundEnd) {
        self.word = end.word;
        let bytes = self.bits.bytes;
        self.bits.bytes = bytes.get(..bytes.len().saturating_sub(end.consumed_bytes)).unwrap_or_default();
        self.decoded = std::mem::take(&mut self.decoded).get_mut(end.written..).unwrap_or_default();
    }

    /// Decodes the rest of the stream, one symbol at a time.
    fn finish(self, table: &Table) -> Result<(), Malformed> {
        let mut bits = self.bits;
        if self.word != 0 {
            bits.left = bits.bytes.len() * 8 - self.word.trailing_zeros() as usize;
        }
        for decoded in self.decoded {
            let (symbol, code_bits) = table.first(bits.peek(MAX_CODE_BITS));
            bits.consume(code_bits).ok_or(Malformed("a stream ends before its last symbol"))?;
            *decoded = symbol;
        }
        match bits.left {
            0 => Ok(()),
            _ => Err(Malformed("a stream continues after its last symbol")),
        }
    }
}

/// Loads a word of which `consumed` bits, less than 64, are consumed.
#[inline(always)]
fn word(bytes: [u8; WORD_BYTES], consumed: usize) -> u64 {
    (u64::from_le_bytes(bytes) | 1) << consumed
}

/// The lookups of a stream between two loads. The sizes of its arrays make checks of bounds unnecessary.
struct Round<'a> {
    word: u64,
    input: &'a [u8; INPUT_BYTES],
    output: &'a mut [u8; OUTPUT_BYTES],
    written: usize,
}

/// The result of a round, which does not borrow the stream.
struct RoundEnd {
    word: u64,
    consumed_bytes: usize,
    written: usize,
}

impl Round<'_> {
    /// `ONE` means that each entry has one symbol, so that the positions of symbols are known.
    #[inline(always)]
    fn look_up<const ONE: bool>(&mut self, entries: &[Entry; ENTRIES]) {
        let next = (self.word >> (u64::BITS - MAX_CODE_BITS)) as usize;
        let entry = entries.get(next).copied().unwrap_or_default();
        self.word = self.word.wrapping_shl(entry.shift());
        if ONE {
            let [symbol, ..] = entry.symbols();
            if let Some(output) = self.output.get_mut(self.written) {
                *output = symbol;
            }
            self.written += 1;
            return;
        }
        if let Some(output) = self.output.get_mut(self.written..).and_then(|output| output.first_chunk_mut()) {
            *output = entry.symbols();
        }
        self.written += entry.count();
    }

    /// Loads the next word.
    #[inline(always)]
    fn end(self) -> RoundEnd {
        let consumed_bits = self.word.trailing_zeros() as usize;
        let consumed_bytes = consumed_bits / 8 % WORD_BYTES;
        let start = WORD_BYTES - 1 - consumed_bytes;
        let bytes = self.input.get(start..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
        RoundEnd { word: word(bytes, consumed_bits % 8), consumed_bytes, written: self.written }
    }
}

/// Decodes the streams of a block, which must be consumed exactly.
pub(super) fn decode_four(table: &Table, mut streams: [Stream<'_>; 4]) -> Result<(), Malformed> {
    match table.has_one_symbol_each() {
        true => rounds_of_four::<true>(table.entries(), &mut streams),
        false => rounds_of_four::<false>(table.entries(), &mut streams),
    }
    streams.into_iter().try_for_each(|stream| decode_one(table, stream))
}

/// Decodes a stream, which must be consumed exactly.
pub(super) fn decode_one(table: &Table, mut stream: Stream<'_>) -> Result<(), Malformed> {
    let entries = table.entries();
    while let Some(mut round) = stream.round() {
        for _ in 0..LOOKUPS {
            round.look_up::<false>(entries);
        }
        let end = round.end();
        stream.advance(end);
    }
    stream.finish(table)
}

/// Decodes streams until one of them is near its end.
#[inline(never)]
fn rounds_of_four<const ONE: bool>(entries: &[Entry; ENTRIES], [a, b, c, d]: &mut [Stream<'_>; 4]) {
    loop {
        // One pattern for all four makes the compiler combine the checks first, with 60 instructions a round.
        let Some(mut first) = a.round() else { return };
        let Some(mut second) = b.round() else { return };
        let Some(mut third) = c.round() else { return };
        let Some(mut fourth) = d.round() else { return };
        for _ in 0..LOOKUPS {
            first.look_up::<ONE>(entries);
            second.look_up::<ONE>(entries);
            third.look_up::<ONE>(entries);
            fourth.look_up::<ONE>(entries);
        }
        let (first, second, third, fourth) = (first.end(), second.end(), third.end(), fourth.end());
        a.advance(first);
        b.advance(second);
        c.advance(third);
        d.advance(fourth);
    }
}
