//! Fuzzes decoders: any split of the input must give the same output, and never more than the declared length.

use arbitrary::Arbitrary;
use weightstream::Dtype;
use weightstream::internals::codec::Decoder;
use weightstream::internals::index::{Component, Encoding};

/// Stored bytes, their declared decoded length, and the positions at which to split them.
#[derive(Debug, Arbitrary)]
pub struct Input<'a> {
    /// Whether the decoded length is known from the format, which is optional for Zstandard.
    is_length_known: bool,
    decoded_length: u32,
    cuts: [u16; 4],
    stored: &'a [u8],
}

impl<'a> Input<'a> {
    /// Creates an input that does not come from a fuzzer.
    pub fn new(is_length_known: bool, decoded_length: u32, cuts: [u16; 4], stored: &'a [u8]) -> Self {
        Input { is_length_known, decoded_length, cuts, stored }
    }
}

/// Decoding stops after this many bytes, because the memory of a fuzz target is limited.
const MAX_DECODED_BYTES: u64 = 16 << 20;

/// DEFLATE, of whose output 3 bytes are skipped.
pub fn deflate(input: &Input) {
    check(input, Encoding::Deflate { skipped: 3.into() }, true);
}

/// LZ4 blocks as in APR files.
pub fn lz4_blocks(input: &Input) {
    check(input, Encoding::Lz4Blocks, true);
}

/// One LZ4 block.
pub fn lz4_block(input: &Input) {
    check(input, Encoding::Lz4Block, true);
}

/// Zstandard frames.
pub fn zstd(input: &Input) {
    check(input, Encoding::Zstd, input.is_length_known);
}

fn check(input: &Input, encoding: Encoding, is_length_known: bool) {
    let mut component = Component::raw(Dtype::U8, 0..input.stored.len() as u64);
    let claimed = u64::from(input.decoded_length).min(MAX_DECODED_BYTES);
    component.encoding = encoding;
    component.decoded_length = is_length_known.then_some(claimed);
    let whole = decode(&component, &[input.stored]);
    let mut cuts = input.cuts.map(|cut| usize::from(cut).min(input.stored.len()));
    cuts.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for cut in cuts.into_iter().chain([input.stored.len()]) {
        pieces.push(&input.stored[start..cut]);
        start = cut;
    }
    assert_eq!(decode(&component, &pieces), whole, "the output depends on the split");
    if let Some(decoded) = whole
        && is_length_known
    {
        assert_eq!(decoded.len() as u64, claimed);
    }
}

/// The decoded bytes, `None` on an error.
fn decode(component: &Component, pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(component, &[]).expect("the component is compressed");
    let mut decoded = Vec::new();
    for piece in pieces {
        let take = &mut |bytes: &[u8]| {
            decoded.extend_from_slice(bytes);
            match decoded.len() as u64 > MAX_DECODED_BYTES {
                true => Err(weightstream::Error::new(weightstream::ErrorKind::Limit, "the output limit is reached")),
                false => Ok(()),
            }
        };
        decoder.push(piece, take).ok()?;
    }
    decoder.finish().ok()?;
    Some(decoded)
}
