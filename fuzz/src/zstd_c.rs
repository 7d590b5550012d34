//! Decodes Zstandard frames with this library and with the C library. Both must return the same bytes or fail.

use weightstream::Dtype;
use weightstream::internals::codec::Decoder;
use weightstream::internals::index::{Component, Encoding};
use weightstream::{Error, ErrorKind};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Decoding stops after this many bytes, because the time and memory of a fuzz target are limited.
const MAX_DECODED_BYTES: usize = 4 << 20;

/// The base-2 logarithm of the largest window that this library supports.
const MAX_WINDOW_LOG: u32 = 27;

/// Errors for damage that the C library does not detect. Its encoder never writes such frames. The C library checks
/// only the output of four Huffman streams, not where they start and end. It treats a block of zero bytes as empty even
/// if it is a compressed block, and then ends a frame without checking its length. It keeps more than the window and
/// lets blocks refer to all of it.
const STRICTER: [&str; 5] = [
    "BitstreamReadMismatch",
    "ExtraPadding",
    "GetBitsError(NotEnoughRemainingBits { requested: 2, remaining: 0 })",
    "Frame content size mismatch",
    "OffsetTooBig",
];

/// The error of the C library for damage that `structured-zstd`, like the C library up to 1.5.4, does not detect: a
/// block whose bit stream of sequences is not fully consumed. The output before must be the same.
const IGNORED_BY_STRUCTURED_ZSTD: &str = "Data corruption detected";

/// The result of a decoder.
enum Outcome {
    Whole,
    /// The output exceeded [`MAX_DECODED_BYTES`].
    Cut,
    Refused(String),
}

/// Decodes `stored` with both libraries and compares the results. The positions at which it is split into chunks are
/// derived from its bytes.
pub fn compare_with_c(stored: &[u8]) {
    let (in_c, expected) = decode_in_c(stored);
    let (outcome, decoded) = decode(stored, &[], None);
    assert!(decoded.starts_with(&expected) || expected.starts_with(&decoded), "the bytes differ from the C library");
    match (&outcome, &in_c) {
        (Outcome::Whole, Outcome::Whole) => assert!(decoded == expected, "the length differs from the C library"),
        (Outcome::Refused(_), Outcome::Refused(_)) | (Outcome::Cut, Outcome::Cut) => {}
        // The C library does not limit the output, and supports any window for frames that are passed as a whole.
        (Outcome::Refused(why), Outcome::Whole | Outcome::Cut) if why.starts_with("LIMIT") => {}
        (Outcome::Refused(why), Outcome::Whole | Outcome::Cut) if STRICTER.iter().any(|error| why.contains(error)) => {}
        (Outcome::Whole | Outcome::Cut, Outcome::Refused(why)) if why == IGNORED_BY_STRUCTURED_ZSTD => {}
        (outcome, in_c) => panic!("here: {}, in C: {}", outcome.name(), in_c.name()),
    }
    let cuts = cuts(stored);
    let (of_chunks, from_chunks) = decode(stored, &cuts, None);
    assert!(from_chunks == decoded, "the output depends on the split");
    // Messages may differ: a wrong magic number is rejected at its first wrong byte.
    let is_same = std::mem::discriminant(&outcome) == std::mem::discriminant(&of_chunks);
    assert!(is_same, "whole: {}, in chunks: {}", outcome.name(), of_chunks.name());
    if let Outcome::Whole = outcome {
        let length = decoded.len() as u64;
        let (claimed, bytes) = decode(stored, &cuts, Some(length));
        assert!(claimed.is_whole() && bytes == decoded, "the correct length is rejected: {}", claimed.name());
        assert!(!decode(stored, &cuts, Some(length + 1)).0.is_whole(), "a missing byte is not detected");
        if let Some(less) = length.checked_sub(1) {
            assert!(!decode(stored, &cuts, Some(less)).0.is_whole(), "an extra byte is not detected");
        }
    }
}

impl Outcome {
    fn is_whole(&self) -> bool {
        matches!(self, Outcome::Whole)
    }

    fn name(&self) -> &str {
        match self {
            Outcome::Whole => "whole",
            Outcome::Cut => "truncated",
            Outcome::Refused(why) => why,
        }
    }
}

/// Positions at which `stored` is split: few or many, depending on a hash of its bytes.
fn cuts(stored: &[u8]) -> Vec<usize> {
    let hash = stored
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let most = [3, 40, 900][(hash >> 60) as usize % 3];
    let mut state = hash | 1;
    let mut cuts = Vec::new();
    let mut at = 0;
    while cuts.len() < 200 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        at += state as usize % most;
        if at > stored.len() {
            break;
        }
        cuts.push(at);
    }
    cuts
}

fn decode(stored: &[u8], cuts: &[usize], decoded_length: Option<u64>) -> (Outcome, Vec<u8>) {
    let mut component = Component::raw(Dtype::U8, 0..stored.len() as u64);
    component.encoding = Encoding::Zstd;
    component.decoded_length = decoded_length;
    let mut decoded = Vec::new();
    let outcome = match push(&component, stored, cuts, &mut decoded) {
        Ok(()) => Outcome::Whole,
        Err(error) if decoded.len() >= MAX_DECODED_BYTES && error.what == CUT => Outcome::Cut,
        Err(error) if error.kind == ErrorKind::Limit => Outcome::Refused(format!("LIMIT: {}", error.what)),
        Err(error) => Outcome::Refused(error.what),
    };
    (outcome, decoded)
}

/// The message of the error that stops a decoder after [`MAX_DECODED_BYTES`].
const CUT: &str = "the output limit of the fuzzer is reached";

fn push(component: &Component, stored: &[u8], cuts: &[usize], decoded: &mut Vec<u8>) -> Result<(), Error> {
    let mut decoder = Decoder::new(component, &[]).expect("the component is compressed");
    let mut start = 0;
    for &end in cuts.iter().chain([&stored.len()]) {
        let take = &mut |bytes: &[u8]| {
            let room = MAX_DECODED_BYTES - decoded.len();
            decoded.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() > room { Err(Error::new(ErrorKind::Limit, CUT)) } else { Ok(()) }
        };
        decoder.push(&stored[start..end], take)?;
        start = end;
    }
    decoder.finish().map(drop)
}

fn decode_in_c(stored: &[u8]) -> (Outcome, Vec<u8>) {
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG)).expect("the window log is supported");
    let mut decoded = Vec::new();
    let mut block = vec![0; 128 << 10];
    let mut input = InBuffer::around(stored);
    let mut is_inside_a_frame = false;
    loop {
        let mut output = OutBuffer::around(&mut block[..]);
        let wanted = match context.decompress_stream(&mut output, &mut input) {
            Ok(wanted) => wanted,
            Err(code) => return (Outcome::Refused(zstd::zstd_safe::get_error_name(code).to_owned()), decoded),
        };
        let given = output.pos();
        let room = MAX_DECODED_BYTES - decoded.len();
        decoded.extend_from_slice(&block[..given.min(room)]);
        if given > room {
            return (Outcome::Cut, decoded);
        }
        if given > 0 || input.pos() > 0 {
            is_inside_a_frame = wanted > 0;
        }
        if input.pos() == stored.len() && given < block.len() {
            let outcome =
                if is_inside_a_frame { Outcome::Refused("incomplete frame".to_owned()) } else { Outcome::Whole };
            return (outcome, decoded);
        }
    }
}
