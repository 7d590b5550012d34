//! Large models in little memory.

use super::bytes::{noise, ramp};
use super::{KIB, MIB, alone, peak_of};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use weightstream::format::{aero, ztensor};
use weightstream::native::Reader;
use weightstream::progress::Progress;
use weightstream::write::{self, Compression, ConvertOptions, convert};

const TENSOR_BYTES: usize = 64 * MIB;

/// One tensor of 64 MiB, written in pieces: half of it noise, half of it compressible.
fn large(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("m.safetensors");
    let header = format!(r#"{{"t":{{"dtype":"U8","shape":[64,{MIB}],"data_offsets":[0,{TENSOR_BYTES}]}}}}"#);
    let mut file = BufWriter::new(File::create(&path).unwrap());
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    let pieces = [noise(1, MIB), ramp(MIB)];
    for at in 0..64 {
        file.write_all(&pieces[at % 2]).unwrap();
    }
    file.flush().unwrap();
    path
}

/// Watches how much of this process is in memory, mapped pages included.
#[derive(Default)]
struct Resident {
    most_bytes: AtomicUsize,
}

impl Progress for Resident {
    fn advanced(&self, _: u64) {
        self.most_bytes.fetch_max(resident_bytes(), Ordering::Relaxed);
    }
}

/// 0 where the system does not say.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4 * KIB
}

#[track_caller]
fn convert_in_little_memory(from: &Path, to: &Path, options: &ConvertOptions) {
    convert_within(MIB, from, to, options);
}

#[track_caller]
fn convert_within(most_bytes: usize, from: &Path, to: &Path, options: &ConvertOptions) {
    let (before, resident) = (resident_bytes(), Resident::default());
    let (converted, peak) = peak_of(|| convert(&Reader::open(from).unwrap(), to, options, &resident).unwrap());
    assert_eq!(converted.decoded_bytes, TENSOR_BYTES as u64);
    assert!(peak < most_bytes, "{peak} bytes were allocated");
    let grown = resident.most_bytes.into_inner().saturating_sub(before);
    assert!(grown < 7 * MIB + most_bytes, "{grown} bytes became resident");
}

#[test]
fn a_conversion_holds_blocks_and_not_tensors() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = large(&folder);
    let [raw, packed, unpacked] = ["raw.apr", "packed.apr", "unpacked.apr"].map(|name| folder.path().join(name));
    let lz4 = ConvertOptions::default().with_compression(Compression::Lz4);
    convert_in_little_memory(&source, &raw, &ConvertOptions::default());
    let processors = std::thread::available_parallelism().unwrap().get();
    convert_within(MIB + processors * 512 * KIB, &source, &packed, &lz4); // two blocks each, and what it takes to compress them
    convert_in_little_memory(&packed, &unpacked, &ConvertOptions::default());
    assert!(packed.metadata().unwrap().len() < 40 * MIB as u64);
}

/// The encoder has a window of 2 MiB and tables to find matches by.
#[test]
#[cfg(feature = "ztensor")]
fn zstd_holds_its_window_and_not_tensors() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = large(&folder);
    let [packed, unpacked] = ["packed.zt", "unpacked.zt"].map(|name| folder.path().join(name));
    let options =
        |compression| ConvertOptions::default().with_format(Some(&ztensor::FORMAT)).with_compression(compression);
    convert_within(6 * MIB, &source, &packed, &options(Compression::Auto));
    convert_within(4 * MIB, &packed, &unpacked, &options(Compression::None));
    assert!(packed.metadata().unwrap().len() < 40 * MIB as u64);
}

#[test]
fn every_format_is_written_in_little_memory() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = large(&folder);
    for format in write::formats() {
        let options = ConvertOptions::default().with_format(Some(format));
        convert_in_little_memory(&source, &folder.path().join("written"), &options);
    }
}

#[cfg(feature = "aero")]
#[test]
fn a_conversion_that_digests_holds_no_tensor_either() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = large(&folder);
    let [there, back] = ["there.aero", "back.aero"].map(|name| folder.path().join(name));
    let options = ConvertOptions::default().with_format(Some(&aero::FORMAT));
    convert_in_little_memory(&source, &there, &options);
    convert_in_little_memory(&there, &back, &options);
    assert!(std::fs::read(there).unwrap() == std::fs::read(back).unwrap());
}

#[test]
fn opening_costs_the_head_and_a_raw_tensor_nothing() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let path = large(&folder);
    let (reader, peak) = peak_of(|| Reader::open(&path).unwrap());
    assert!(peak < 64 * KIB, "{peak} bytes to open");
    drop(reader);
    // Nothing writes to the file while it is mapped.
    let (mapped, peak) = peak_of(|| unsafe { Reader::open_mapped(&path) }.unwrap());
    assert!(peak < 64 * KIB, "{peak} bytes to map");
    let (length, peak) = peak_of(|| mapped.tensor_slice("t").unwrap().len());
    assert_eq!(length, TENSOR_BYTES);
    assert!(peak < KIB, "{peak} bytes for a slice");
}

#[test]
fn a_check_holds_a_block_a_processor() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (source, packed) = (large(&folder), folder.path().join("packed.apr"));
    let options = ConvertOptions::default().with_compression(Compression::Lz4);
    convert(&Reader::open(source).unwrap(), &packed, &options, &()).unwrap();
    let reader = Reader::open(packed).unwrap();
    let (verified, peak) = peak_of(|| reader.verify(&()));
    assert!(verified.is_ok());
    let processors = std::thread::available_parallelism().unwrap().get();
    // What was read, and a block of it, stored and decoded.
    assert!(peak < processors * 384 * KIB, "{peak} bytes on {processors} processors");
}
