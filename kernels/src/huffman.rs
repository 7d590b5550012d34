//! Decodes compressed blocks of Zstandard (RFC 8878) that have literals but no sequences.
//!
//! The bytes with the exponents of floats compress best like this: their repetitions are chance, and a Huffman code
//! alone is smaller and decoded twice as fast.
//!
//! The decoder accepts what the RFC allows. The C library, libzstd, is more lenient about damage that no encoder
//! writes: it also accepts codes of 12 bits, distributions with impossible weights, and, in the fastest of its loops,
//! four streams that do not start or end where they should.

mod bits;
mod streams;
mod table;
#[cfg(all(test, not(target_arch = "wasm32")))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
mod weights;

use std::fmt;

use streams::Stream;
use table::Table;

/// The maximum decoded size of a block (RFC 8878, 3.1.1.2.4).
pub const MAX_BLOCK_BYTES: usize = 128 << 10;

/// The minimum decoded size of four streams. Like libzstd, this refuses less.
const MIN_FOUR_STREAMS_BYTES: usize = 6;

/// The state that the blocks of a frame share: the Huffman code of the last block that has one.
#[derive(Debug, Default)]
pub struct Literals {
    table: Option<Table>,
    /// Whether `table` belongs to the current frame.
    is_valid: bool,
}

/// What [`Literals::decode_block`] did with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The first bytes of the output, as many as this, are the decoded block.
    Decoded(usize),
    /// The block has sequences. Nothing was written: a general decoder must decode the whole frame.
    HasSequences,
}

/// The reason why a block is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl Literals {
    /// Creates the state at the start of a frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Resets the state to that at the start of a frame. Keeps the memory of the table.
    pub fn reset(&mut self) {
        self.is_valid = false;
    }

    /// Decodes the content of a compressed block, without the block's header, to the start of `decoded`. Bytes after
    /// the decoded ones may be overwritten.
    ///
    /// `decoded` has the maximum size of a block in this frame: the window size, at most [`MAX_BLOCK_BYTES`].
    ///
    /// # Errors
    /// If the block is malformed, or does not fit into `decoded`.
    #[inline(never)]
    pub fn decode_block(&mut self, block: &[u8], decoded: &mut [u8]) -> Result<Outcome, Malformed> {
        let (section, rest) = Section::parse(block)?;
        match rest {
            [0] => {}
            [0, ..] => return Err(Malformed("bytes after the sequences")),
            [] => return Err(Malformed("no number of sequences")),
            _ => return Ok(Outcome::HasSequences),
        }
        let length = section.decoded_bytes;
        let decoded = decoded.get_mut(..length).filter(|_| length <= MAX_BLOCK_BYTES);
        let decoded = decoded.ok_or(Malformed("the literals exceed the maximum size of a block"))?;
        let streams = match (section.kind, section.content) {
            (Kind::Raw, content) => {
                decoded.copy_from_slice(content);
                return Ok(Outcome::Decoded(length));
            }
            (Kind::Rle, content) => {
                decoded.fill(content.first().copied().unwrap_or_default());
                return Ok(Outcome::Decoded(length));
            }
            (Kind::Compressed, content) => {
                self.is_valid = false;
                let (weights, streams) = weights::read(content)?;
                self.table.get_or_insert_default().set(&weights)?;
                self.is_valid = true;
                streams
            }
            (Kind::Treeless, streams) => streams,
        };
        let table = self.table.as_ref().filter(|_| self.is_valid);
        let table = table.ok_or(Malformed("a block without a Huffman code before it"))?;
        match section.is_one_stream {
            true => streams::decode_one(table, Stream::new(streams, decoded)?)?,
            false => streams::decode_four(table, four(streams, decoded)?)?,
        }
        Ok(Outcome::Decoded(length))
    }
}

/// The four streams. Each has a quarter of the literals, rounded up, and the last one the rest.
fn four<'a>(bytes: &'a [u8], decoded: &'a mut [u8]) -> Result<[Stream<'a>; 4], Malformed> {
    const CUT: Malformed = Malformed("the lengths of the streams exceed the block");
    if decoded.len() < MIN_FOUR_STREAMS_BYTES {
        return Err(Malformed("too few literals for four streams"));
    }
    let quarter = decoded.len().div_ceil(4);
    let (&[a, b, c, d, e, f], bytes) = bytes.split_first_chunk::<6>().ok_or(CUT)?;
    let [first, second, third] = [[a, b], [c, d], [e, f]].map(|length| usize::from(u16::from_le_bytes(length)));
    let (first, bytes) = bytes.split_at_checked(first).ok_or(CUT)?;
    let (second, bytes) = bytes.split_at_checked(second).ok_or(CUT)?;
    let (third, fourth) = bytes.split_at_checked(third).ok_or(CUT)?;
    let (first_decoded, decoded) = decoded.split_at_mut_checked(quarter).ok_or(CUT)?;
    let (second_decoded, decoded) = decoded.split_at_mut_checked(quarter).ok_or(CUT)?;
    let (third_decoded, fourth_decoded) = decoded.split_at_mut_checked(quarter).ok_or(CUT)?;
    Ok([
        Stream::new(first, first_decoded)?,
        Stream::new(second, second_decoded)?,
        Stream::new(third, third_decoded)?,
        Stream::new(fourth, fourth_decoded)?,
    ])
}

/// The literals section of a block (RFC 8878, 3.1.1.3.1).
struct Section<'a> {
    kind: Kind,
    is_one_stream: bool,
    decoded_bytes: usize,
    content: &'a [u8],
}

#[derive(Clone, Copy)]
enum Kind {
    Raw,
    Rle,
    Compressed,
    Treeless,
}

impl<'a> Section<'a> {
    /// Splits a block into its literals and the rest.
    fn parse(block: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        const CUT: Malformed = Malformed("the literals exceed the block");
        let first = *block.first().ok_or(CUT)?;
        let kind = match first & 3 {
            0 => Kind::Raw,
            1 => Kind::Rle,
            2 => Kind::Compressed,
            _ => Kind::Treeless,
        };
        let format = first >> 2 & 3;
        let has_two_sizes = matches!(kind, Kind::Compressed | Kind::Treeless);
        // The sizes, of `size_bits` each, follow `start` bits.
        let (header_bytes, start, size_bits) = match (has_two_sizes, format) {
            (false, 0 | 2) => (1, 3, 5),
            (false, 1) => (2, 4, 12),
            (false, _) => (3, 4, 20),
            (true, 0 | 1) => (3, 4, 10),
            (true, 2) => (4, 4, 14),
            (true, _) => (5, 4, 18),
        };
        let (header, rest) = block.split_at_checked(header_bytes).ok_or(CUT)?;
        let sizes = header.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)) >> start;
        let size = |number: u32| (sizes >> (number * size_bits)) as usize & ((1 << size_bits) - 1);
        let decoded_bytes = size(0);
        let content_bytes = match kind {
            Kind::Raw => decoded_bytes,
            Kind::Rle => 1,
            Kind::Compressed | Kind::Treeless => size(1),
        };
        let (content, rest) = rest.split_at_checked(content_bytes).ok_or(CUT)?;
        Ok((Section { kind, is_one_stream: format == 0, decoded_bytes, content }, rest))
    }
}
