//! Tests that every byte is read once, which results do not show: a digest that no task has computed is computed later.

use super::sums::{Computed, Part, limit_depth};
use super::task::Task;
use crate::codec::blake3_tree::CHUNK_BYTES;
use crate::digest::Digest;
use crate::format::{Expected, aero};
use crate::native::file::TensorFile;
use crate::testing::model::{Folder, noise, safetensors_file};
use crate::write::{Compression, ConvertOptions};
use proptest::prelude::*;
use serde_json::json;
use std::ops::Range;

/// Runs tasks that must not share bytes, as those of a file without other digests.
fn run_disjoint(tasks: &[Task]) -> Computed {
    assert!(tasks.len() > 1);
    assert!(tasks.is_sorted_by(|task, next| task.range.end <= next.range.start), "no byte is in two tasks");
    let mut computed = Computed::default();
    tasks.iter().for_each(|task| task.add(task.run(&()).unwrap(), &mut computed));
    computed
}

fn digests_of_ranges(file: &TensorFile) -> impl Iterator<Item = (Range<u64>, Digest)> {
    file.plan.checksums().iter().map(|checksum| match checksum.stated {
        Expected::Digest(digest) => (checksum.over.clone(), digest),
        Expected::Crc32At(_) => panic!("only digests were expected"),
    })
}

/// AERO states a BLAKE3 digest of each tensor, and one of all of them.
#[test]
fn both_digests_of_aero_are_computed_from_bytes_that_are_read_once() {
    let folder = Folder::new();
    const MIB: usize = 1 << 20;
    let lengths = [5, 20 * MIB + 3, 1000, 1023, 1024, 13 * MIB + 1, 70_000, 40_000];
    let names: Vec<_> = (0..lengths.len()).map(|at| format!("t{at}")).collect();
    let shapes = lengths.map(|length| [length as u64]);
    let tensors = names.iter().zip(&shapes).zip(lengths);
    let tensors: Vec<_> =
        tensors.map(|((name, shape), length)| (&**name, "U8", &shape[..], noise(length as u64, length))).collect();
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    let options = ConvertOptions::default().format(&aero::FORMAT).alignment(1);
    folder.convert("m.safetensors", "m.aero", &options).unwrap();

    let reader = folder.open("m.aero");
    let computed = run_disjoint(&reader.tasks(0, &reader.files[0]));
    let mut compared = 0;
    for (_, component) in reader.components(0) {
        let stated = component.digest.unwrap().digest;
        assert_eq!(computed.digest(&component.range, stated), Some(stated), "{component:?}");
        compared += 1;
    }
    for (over, stated) in digests_of_ranges(&reader.files[0]) {
        assert_eq!(computed.digest(&over, stated), Some(stated), "{over:?}");
        compared += 1;
    }
    assert!(compared > lengths.len());
}

/// APR states a CRC-32 of the whole file, of which compressed tensors are parts.
#[test]
fn blocks_and_the_crc_are_checked_from_bytes_that_are_read_once() {
    let folder = Folder::new();
    let tensors = [("zeros", "U8", &[300_000][..], vec![0; 300_000]), ("noise", "U8", &[5000][..], noise(1, 5000))];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    folder.convert("m.safetensors", "m.apr", &ConvertOptions::default().compression(Compression::Lz4)).unwrap();

    let reader = folder.open("m.apr");
    let file = &reader.files[0];
    let computed = run_disjoint(&reader.tasks(0, file));
    assert_eq!(file.plan.checksums().len(), 1);
    let over = &file.plan.checksums()[0].over;
    assert!(computed.digest(over, Digest::Crc32(0)).is_some());
}

#[test]
fn many_digests_of_the_same_bytes_are_not_computed_at_once() {
    let mut ranges: Vec<_> = (0..100).map(|at| at..1000).chain([1000..2000, 1500..1600]).collect();
    limit_depth(&mut ranges);
    assert_eq!(ranges, [0..1000, 1..1000, 2..1000, 3..1000, 1000..2000, 1500..1600]);
}

proptest! {
    #[test]
    fn consecutive_reads_have_each_chunk_once(
        start in 0..3000_u64,
        length in 1..9000_u64,
        cuts in proptest::collection::vec(0..13_000_u64, 0..8),
    ) {
        let over = start..start + length;
        let mut cuts: Vec<_> = cuts.into_iter().chain([0, 13_000]).collect();
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).filter_map(|cut| Part::in_read(&over, &(cut[0]..cut[1]))).collect();
        let mut at = over.start;
        for part in parts {
            prop_assert_eq!(part.bytes.start, at);
            prop_assert!((at - over.start).is_multiple_of(CHUNK_BYTES));
            at = part.bytes.end;
        }
        prop_assert_eq!(at, over.end);
    }
}
