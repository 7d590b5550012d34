//! Tests of digests from bytes in any order, and of the rule for the CRC in a manifest.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::{FilePlan, StatedDigests, Sums};
use crate::codec::digest::{Hasher, digest_of};
use crate::digest::Digest;
use crate::digest_state::DigestState;
use crate::format::{Expected, RangeChecksum};
use proptest::prelude::*;
use std::ops::Range;

const ALGORITHMS: [Digest; 3] = [Digest::Crc32(0), Digest::Sha256([0; 32]), Digest::Blake3([0; 32])];

fn bytes() -> Vec<u8> {
    (0..1000_u32).map(|number| (number * 7 + number / 13) as u8).collect()
}

proptest! {
    #[test]
    fn digests_do_not_depend_on_the_order_and_repetition_of_reads(
        reads in proptest::collection::vec((0..1000_usize, 0..400_usize), 0..12),
        over in (0..1000_u64, 0..1000_u64),
    ) {
        let file = bytes();
        let over = over.0.min(over.1)..over.0.max(over.1);
        let mut sums = Sums::new(ALGORITHMS.into_iter().map(|like| (over.clone(), like)));
        for (start, length) in reads {
            sums.update(start as u64, &file[start..(start + length).min(file.len())]);
        }
        let mut rounds = 0;
        while let Some(Range { start, end }) = sums.missing() {
            sums.update(start, &file[start as usize..end as usize]);
            rounds += 1;
            prop_assert!(rounds < 50, "every round adds the missing bytes");
        }
        let expected = &file[over.start as usize..over.end as usize];
        for like in ALGORITHMS {
            prop_assert_eq!(sums.digest(&over, like), Some(digest_of(expected, like)));
        }
    }
}

/// The states of the SHA-256 of a file at these offsets.
fn states(file: &[u8], offsets: impl IntoIterator<Item = usize>) -> Vec<DigestState> {
    let state = |at: usize| {
        let mut hasher = Hasher::new(Digest::Sha256([0; 32]));
        hasher.update(&file[..at]);
        hasher.state(at as u64).unwrap()
    };
    offsets.into_iter().map(state).collect()
}

#[test]
fn bytes_after_known_states_are_added_in_any_order() {
    let (file, whole, like) = (bytes(), 0..1000, Digest::Sha256([0; 32]));
    let parts = [0..100, 100..500, 500..501, 501..1000];
    let stated = states(&file, [100, 500, 501]);
    let digest = Some(digest_of(&file, like));
    for order in [[3, 2, 1, 0], [0, 2, 1, 3], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let mut sums = Sums::new([(whole.clone(), like)].into_iter()).with_states(&stated);
        assert!(sums.can_start_at(0) && sums.can_start_at(500) && !sums.can_start_at(499));
        for part in order.map(|at| parts[at].clone()) {
            let piece = part.start + (part.end - part.start) / 2;
            sums.update(part.start as u64, &file[part.start..piece]);
            sums.update(piece as u64, &file[piece..part.end]);
        }
        assert_eq!(sums.missing(), None, "{order:?}");
        assert_eq!(sums.digest(&whole, like), digest, "{order:?}");
    }
}

/// A wrong state makes bytes be read twice, but no other file passes.
#[test]
fn a_wrong_state_changes_no_digest() {
    let (mut file, whole, like) = (bytes(), 0..1000, Digest::Sha256([0; 32]));
    let original = digest_of(&file, like);
    let of_original = states(&file, [500]);
    file[7] ^= 1; // before the state, which is still that of the original
    let mut sums = Sums::new([(whole.clone(), like)].into_iter()).with_states(&of_original);
    sums.update(500, &file[500..]);
    sums.update(0, &file[..500]);
    assert_eq!(sums.missing(), Some(500..1000), "the state does not follow from the bytes before it");
    sums.update(500, &file[500..]);
    assert_eq!(sums.digest(&whole, like), Some(digest_of(&file, like)));
    assert_ne!(sums.digest(&whole, like), Some(original));
}

#[test]
fn bytes_in_order_are_not_asked_for_again() {
    let file = bytes();
    let mut sums = Sums::new(ALGORITHMS.into_iter().map(|like| (0..1000, like)));
    for (at, piece) in file.chunks(64).enumerate() {
        assert!(sums.missing().is_some());
        sums.update(64 * at as u64, piece);
    }
    assert_eq!(sums.missing(), None);
}

#[test]
fn the_crc_of_a_manifest_is_that_of_the_file_or_of_the_bytes_before_its_footer() {
    let file = bytes();
    let footer = RangeChecksum { over: 0..900, stated: Expected::Crc32At(900), by: "the footer".to_owned() };
    let crc_of = |range: &Range<u64>| digest_of(&file[range.start as usize..range.end as usize], Digest::Crc32(0));
    let Digest::Crc32(before) = crc_of(&(0..900)) else { unreachable!() };
    let Digest::Crc32(whole) = crc_of(&(0..1000)) else { unreachable!() };
    for (stated, is_right) in [(before, true), (whole, true), (before ^ 1, false)] {
        let stated = StatedDigests { manifest: Some(Digest::Crc32(stated)), ..StatedDigests::default() };
        let plan = FilePlan::new(vec![footer.clone()], stated, Some(1000), Some(1000)).unwrap();
        assert_eq!(plan.compare(&[before], |range, _| Ok(crc_of(range))).is_ok(), is_right, "{stated:?}");
    }
}

#[test]
fn a_pinned_digest_needs_the_length_of_the_file() {
    let stated = StatedDigests { pinned: Some(Digest::Sha256([0; 32])), ..StatedDigests::default() };
    assert_eq!(FilePlan::new(Vec::new(), stated, Some(5), None).unwrap_err().code(), "UNSUPPORTED");
    let stated = StatedDigests { host: Some(Digest::Sha256([0; 32])), ..StatedDigests::default() };
    assert!(FilePlan::new(Vec::new(), stated, Some(5), None).unwrap().checksums().is_empty());
}
