//! Tests of the decoder.

use super::limits::MAX_BLOCK_BYTES;
use super::*;
use proptest::prelude::*;
use std::io::Write;
use structured_zstd::encoding::{CompressionLevel, StreamingEncoder};

fn frame(data: &[u8], states_length: bool, has_checksum: bool) -> Vec<u8> {
    let mut encoder = StreamingEncoder::new(Vec::new(), CompressionLevel::Default);
    encoder.set_content_checksum(has_checksum).unwrap();
    if states_length {
        encoder.set_pledged_content_size(data.len() as u64).unwrap();
    }
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn elements_of(element_bytes: u64) -> DecodedLength {
    DecodedLength::ElementsOf { element_bytes, limit: MAX_UNSTATED_BYTES }
}

fn decode_chunks(stored: &[u8], claimed: Option<u64>, cuts: &[usize]) -> Result<Vec<u8>> {
    let length = claimed.map_or(elements_of(1), DecodedLength::Exactly);
    let mut decoder = Zstd::new(stored.len() as u64, length);
    let mut out = Vec::new();
    let mut rest = stored;
    for &cut in cuts.iter().chain([&usize::MAX]) {
        let (chunk, after) = rest.split_at(cut.min(rest.len()));
        decoder.push(chunk, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })?;
        rest = after;
    }
    decoder.finish()?;
    Ok(out)
}

proptest! {
    #[test]
    fn the_output_does_not_depend_on_the_chunks(
        seeds in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..300), 1usize..900, any::<(bool, bool)>()),
            0..4,
        ),
        is_stated in any::<bool>(),
        cuts in proptest::collection::vec(prop_oneof![0usize..20, 0usize..70_000], 0..60),
    ) {
        let (mut data, mut stored) = (Vec::new(), Vec::new());
        for (seed, repeat, (states_length, has_checksum)) in seeds {
            let part = seed.repeat(repeat);
            stored.extend(frame(&part, states_length, has_checksum));
            stored.extend(b"\x5a\x2a\x4d\x18\x03\0\0\0any"); // a skippable frame
            data.extend(part);
        }
        let claimed = is_stated.then_some(data.len() as u64);
        prop_assert_eq!(decode_chunks(&stored, claimed, &cuts), Ok(data));
    }

    #[test]
    fn damaged_frames_fail_or_decode_to_the_claimed_length(
        at in any::<proptest::sample::Index>(), flip in 1u8..=255, has_checksum in any::<bool>(),
        cuts in proptest::collection::vec(0usize..900, 0..9),
    ) {
        let data: Vec<u8> = (0..150_000u32).map(|i| (i / 7 % 13 * (i % 3)) as u8).collect();
        let mut stored = frame(&data, false, has_checksum);
        let at = at.index(stored.len());
        stored[at] ^= flip;
        if let Ok(out) = decode_chunks(&stored, Some(data.len() as u64), &cuts) {
            prop_assert_eq!(out.len(), data.len());
        }
    }
}

#[test]
fn rejects_an_incomplete_element_without_a_stated_length() {
    let stored = frame(&[7; 30], false, false);
    for (element_bytes, is_whole) in [(1, true), (2, true), (4, false)] {
        let mut decoder = Zstd::new(stored.len() as u64, elements_of(element_bytes));
        decoder.push(&stored, &mut |_| Ok(())).unwrap();
        assert_eq!(decoder.finish().is_ok(), is_whole);
    }
}

#[test]
fn rejects_frames_that_decode_to_a_different_length() {
    for states_length in [false, true] {
        let stored = frame(&[7; 300_000], states_length, false);
        let error = |claimed| decode_chunks(&stored, Some(claimed), &[]).unwrap_err().what;
        assert!(error(299_999).contains("more bytes than"), "{}", error(299_999));
        assert!(error(300_001).contains("1 bytes less"), "{}", error(300_001));
    }
}

#[test]
fn rejects_a_stream_that_ends_inside_a_frame() {
    let stored = frame(&[7; 1000], true, true);
    for end in 1..stored.len() {
        assert!(decode_chunks(&stored[..end], None, &[]).is_err(), "{end}");
    }
    assert_eq!(decode_chunks(&[], None, &[]), Ok(Vec::new()));
}

#[test]
fn rejects_a_frame_with_a_wrong_checksum() {
    let mut stored = frame(&[7; 1000], true, true);
    *stored.last_mut().unwrap() ^= 1;
    assert_eq!(decode_chunks(&stored, None, &[]).unwrap_err().kind, ErrorKind::Checksum);
}

#[test]
fn rejects_a_window_beyond_the_limit() {
    // Magic, a descriptor that announces a window byte only, a window of 2^28 bytes, an empty last block.
    let stored = b"\x28\xb5\x2f\xfd\x00\x90\x01\0\0";
    assert_eq!(decode_chunks(stored, None, &[]).unwrap_err().kind, ErrorKind::Limit);
    // 128 MiB.
    let stored = b"\x28\xb5\x2f\xfd\x00\x88\x01\0\0";
    assert_eq!(decode_chunks(stored, None, &[]), Ok(Vec::new()));
}

#[test]
fn data_without_a_stated_length_stops_at_the_limit() {
    // RLE blocks of 128 KiB: 4 stored bytes for each.
    let mut stored = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
    stored.extend(b"\x02\x00\x10\x00".repeat((MAX_UNSTATED_BYTES >> 17) as usize + 1));
    let by_ratio = max_unstated(stored.len() as u64);
    for (needed, limit) in [(None, by_ratio), (Some(u64::MAX), by_ratio), (Some(12), 12)] {
        let component = Component {
            encoding: crate::index::Encoding::Zstd,
            decoded_length: None,
            max_decoded_length: needed,
            ..Component::raw(crate::dtype::Dtype::U8, 0..stored.len() as u64)
        };
        let mut decoded = 0;
        let outcome = Zstd::of(&component).push(&stored, &mut |bytes| {
            decoded += bytes.len() as u64;
            Ok(())
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit);
        assert!(decoded <= limit && error.what.contains(&limit.to_string()), "{decoded}, {error}");
    }
}

/// Frames that the reference library writes with a window of 64 MiB, with and without a content size.
fn with_large_window(data: &[u8]) -> [Vec<u8>; 2] {
    [true, false].map(|states_length| {
        let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(26).unwrap();
        encoder.long_distance_matching(true).unwrap();
        if states_length {
            encoder.set_pledged_src_size(Some(data.len() as u64)).unwrap();
        }
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    })
}

#[test]
#[cfg_attr(miri, ignore = "calls the C library")]
fn decodes_windows_that_are_larger_than_what_is_kept() {
    for data in [vec![7; 40 << 20], b"small".to_vec()] {
        for stored in with_large_window(&data) {
            let mut decoder = Zstd::new(stored.len() as u64, DecodedLength::Exactly(data.len() as u64));
            assert!(decoder.frame.max_window < 17 << 20, "less than the window is kept");
            let mut at = 0;
            let decoded = decoder.push(&stored, &mut |bytes| {
                assert!(data[at..at + bytes.len()] == *bytes);
                at += bytes.len();
                Ok(())
            });
            decoded.unwrap();
            decoder.finish().unwrap();
            assert_eq!(at, data.len());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "calls the C library")]
fn refuses_references_to_bytes_that_are_not_kept() {
    let far: Vec<u8> = (0..1u32 << 14).flat_map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let data = [&far[..], &vec![0; 40 << 20], &far].concat();
    for stored in with_large_window(&data) {
        let decode = |stored_length: u64| {
            let mut decoder = Zstd::new(stored_length, DecodedLength::Exactly(data.len() as u64));
            decoder.push(&stored, &mut |_| Ok(()))
        };
        let error = decode(stored.len() as u64).unwrap_err();
        assert!(error.kind == ErrorKind::Limit && error.what.contains("window"), "{error}");
        assert_eq!(decode(8 << 20), Ok(()), "larger data may have a larger window");
    }
}

#[test]
fn push_some_decodes_one_block_at_a_time() {
    let data: Vec<u8> = (0..1_000_000u32).map(|i| (i / 1000) as u8).collect();
    let stored = frame(&data, true, true);
    let mut decoder = Zstd::new(stored.len() as u64, DecodedLength::Exactly(data.len() as u64));
    let (mut out, mut rest) = (Vec::new(), &stored[..]);
    loop {
        let before = out.len();
        let consumed = decoder.push_some(rest, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        });
        rest = &rest[consumed.unwrap()..];
        assert!(out.len() - before <= MAX_BLOCK_BYTES);
        if rest.is_empty() && out.len() == before {
            break;
        }
    }
    decoder.finish().unwrap();
    assert!(out == data);
}

#[test]
fn rejects_impossible_lengths() {
    assert!(check_lengths(10, 1 << 40).is_err());
    assert!(check_lengths(10, 0).is_ok());
    let stored = frame(&vec![0; 10 << 20], true, false);
    assert!(check_lengths(stored.len() as u64, 10 << 20).is_ok());
}
