//! Runs the fuzz targets on the fixtures and on several thousand corrupted copies, without coverage guidance.
//! `cargo xtask fuzz` runs them with a fuzzer.
#![allow(unreachable_pub, reason = "the targets are also compiled as a separate crate")]

#[cfg(feature = "ztensor")]
#[path = "../../fuzz/src/byte_streams.rs"]
mod byte_streams;
#[path = "../../fuzz/src/decoder.rs"]
mod decoder;
#[path = "../../fuzz/src/load.rs"]
mod load;
#[path = "../../fuzz/src/parser.rs"]
mod parser;
#[cfg(feature = "zstd")]
#[path = "../../fuzz/src/zstd_c.rs"]
mod zstd_c;

use crate::corpus;
use arbitrary::{Arbitrary, Unstructured};
use std::rc::Rc;
use weightstream::internals::format::{self, Format};

/// The number of corrupted copies of each file.
const COPIES: u64 = 5;

/// Larger files are skipped: they only take longer.
const MAX_FILE_BYTES: usize = 64 << 10;

#[test]
fn parsers_keep_their_invariants() {
    for (format, file) in files() {
        parser::parse(format, &file);
        for seed in 0..COPIES {
            parser::parse(format, &corrupted(&file, seed));
        }
    }
}

#[test]
fn network_failures_never_change_the_loaded_bytes() {
    for (_, file) in files() {
        for seed in 0..COPIES {
            let random = random_bytes(seed, 256);
            let script = load::Script::arbitrary(&mut Unstructured::new(&random)).unwrap();
            let file = if seed.is_multiple_of(2) { file.to_vec() } else { corrupted(&file, seed) };
            load::load(script, &file);
        }
    }
}

#[test]
fn decoders_are_independent_of_the_split_of_their_input() {
    let compressed = lz4_flex::block::compress(&[7; 5000]);
    let blocks = [&(compressed.len() as u32).to_le_bytes()[..], &compressed].concat();
    let sized = [&5000u32.to_le_bytes()[..], &compressed].concat();
    // A stored block of DEFLATE, of 3 skipped bytes and 5000 others.
    let deflated = [&[1, 139, 19, 116, 236][..], &[7; 5003]].concat();
    for stored in [blocks, sized, deflated, Vec::new()] {
        for seed in 0..2000u64 {
            // Every third input is intact, the others are corrupted.
            let bytes = if seed.is_multiple_of(3) { stored.clone() } else { corrupted(&stored, seed) };
            let input = decoder::Input::new(!seed.is_multiple_of(5), 5000, random_cuts(seed), &bytes);
            decoder::deflate(&input);
            decoder::lz4_blocks(&input);
            decoder::lz4_block(&input);
            decoder::zstd(&input);
        }
    }
}

#[cfg(feature = "ztensor")]
#[test]
fn streams_are_joined_in_any_order_and_split() {
    let count = 5000;
    let exponents: Vec<u8> = random_bytes(1, count).into_iter().map(|byte| 60 + (byte & 3)).collect();
    let frame = zstd::bulk::compress(&exponents, 1).unwrap();
    let (zstd, raw) = (Some(frame.len() as u16), random_bytes(2, count));
    for (second, lengths) in [(&raw, [zstd, None]), (&frame, [zstd, zstd])] {
        let stored = [&frame[..], second].concat();
        for seed in 0..300u64 {
            let is_intact = seed.is_multiple_of(3);
            let bytes = if is_intact { stored.clone() } else { corrupted(&stored, seed) };
            let (is_reversed, slice) = (seed.is_multiple_of(2), random_cuts(seed)[0] % 2000);
            let input = byte_streams::Input::new(count as u16, lengths, is_reversed, slice, &bytes);
            assert!(byte_streams::check(&input) || !is_intact, "{seed}");
        }
    }
}

/// Found by `cargo xtask fuzz zstd_c`: the second block has unread bits after its sequences, which only the C library
/// rejects.
#[cfg(feature = "zstd")]
const UNREAD_BITS: &[u8] =
    b"\x28\xb5\x2f\xfd\x00\x00\x74\x00\x00\x28\xf3\xf3\x3b\xef\x4a\x02\x00\xf4\x75\x35\x2c\x80\x05\
    \x3c\x00\x00\x00\x01\x00\xfd\xad\x1c\x10\x4d\x00\x00\x18\x51\x3b\xef\x01\x02\x36\x05\x43";

#[cfg(feature = "zstd")]
#[test]
fn zstandard_frames_decode_as_in_the_c_library() {
    zstd_c::compare_with_c(UNREAD_BITS);
    let text: Vec<u8> = (0..60_000u32).map(|at| b"weights"[(at / 3 % 7) as usize] ^ (at >> 11) as u8).collect();
    for level in [-5, 1, 3, 9, 19] {
        for length in [0, 1, 100, text.len()] {
            let frame = zstd::bulk::compress(&text[..length], level).unwrap();
            let streamed = zstd::encode_all(&text[..length], level).unwrap(); // without a content size
            for stored in
                [[&frame[..], &streamed].concat(), [&streamed[..], b"\x5a\x2a\x4d\x18\x01\0\0\0-", &frame].concat()]
            {
                zstd_c::compare_with_c(&stored);
                for seed in 0..60 {
                    zstd_c::compare_with_c(&corrupted(&stored, seed));
                }
            }
        }
    }
}

/// The fixtures, each with the format that is detected from its first bytes.
fn files() -> Vec<(Option<&'static Format>, Rc<[u8]>)> {
    let mut files = Vec::new();
    for fixture in corpus::fixtures() {
        let file = Rc::clone(fixture.bytes());
        let prefix = &file[..file.len().min(16)];
        // Files without a detected format are manifests, which are parsed by their content.
        if file.len() <= MAX_FILE_BYTES {
            files.push((format::detect(prefix), file));
        }
    }
    assert!(files.len() > 100, "{}", files.len());
    files
}

/// A copy with a few changed bits, bytes or numbers, or a truncated one. Two thirds of the changes are in the first 400
/// bytes, where the structure is.
fn corrupted(file: &[u8], seed: u64) -> Vec<u8> {
    let mut corrupted = file.to_vec();
    let mut random = random_bytes(seed, 64).into_iter();
    let mut next = || u64::from_le_bytes(std::array::from_fn(|_| random.next().unwrap_or(0)));
    for _ in 0..=next() % 3 {
        if corrupted.is_empty() {
            break;
        }
        let limit = if next().is_multiple_of(3) { corrupted.len() } else { corrupted.len().min(400) };
        let at = next() as usize % limit;
        match next() % 4 {
            0 => corrupted[at] ^= 1 << (next() % 8),
            1 => corrupted[at] = 0xff,
            2 if at + 8 <= corrupted.len() => {
                corrupted[at..at + 8].copy_from_slice(&(u64::MAX >> (next() % 64)).to_le_bytes())
            }
            _ => corrupted.truncate(at),
        }
    }
    corrupted
}

fn random_cuts(seed: u64) -> [u16; 4] {
    let random = random_bytes(seed, 8);
    std::array::from_fn(|at| u16::from_le_bytes([random[2 * at], random[2 * at + 1] % 20]))
}

fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}
