//! Upper bounds of the memory that conversions, the reader and verification use for large models.

use super::bytes::{noise, ramp};
use super::{KIB, MIB, alone, peak_of};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use weightstream::internals::format::{aero, ztensor};
use weightstream::internals::native::Reader;
use weightstream::internals::progress::Progress;
use weightstream::internals::write::{self, Compression, ConvertOptions, convert};

const TENSOR_BYTES: usize = 64 * MIB;

/// Writes a file with one tensor of 64 MiB, of which a half is compressible.
fn write_large_model(folder: &TempDir) -> PathBuf {
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

/// Records the peak resident memory of this process, including mapped pages.
#[derive(Default)]
struct Resident {
    peak_bytes: AtomicUsize,
}

impl Progress for Resident {
    fn advanced(&self, _: u64) {
        self.peak_bytes.fetch_max(resident_bytes(), Ordering::Relaxed);
    }
}

/// The resident memory of this process; 0 if the system does not report it.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4 * KIB
}

#[track_caller]
fn convert_within_1_mib(from: &Path, to: &Path, options: &ConvertOptions) {
    convert_within(MIB, from, to, options);
}

#[track_caller]
fn convert_within(max_bytes: usize, from: &Path, to: &Path, options: &ConvertOptions) {
    // Makes the code resident, which is not what is measured.
    convert(&Reader::open(from).unwrap(), to, options, &()).unwrap();
    let (before, resident) = (resident_bytes(), Resident::default());
    let (converted, peak) = peak_of(|| convert(&Reader::open(from).unwrap(), to, options, &resident).unwrap());
    assert_eq!(converted.decoded_bytes, TENSOR_BYTES as u64);
    assert!(peak < max_bytes, "{peak} bytes were allocated");
    let grown = resident.peak_bytes.into_inner().saturating_sub(before);
    assert!(grown < 7 * MIB + max_bytes, "{grown} bytes became resident");
}

#[test]
fn conversions_hold_blocks_and_not_tensors() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = write_large_model(&folder);
    let [raw, packed, unpacked] = ["raw.apr", "packed.apr", "unpacked.apr"].map(|name| folder.path().join(name));
    let lz4 = ConvertOptions::default().compression(Compression::Lz4);
    convert_within_1_mib(&source, &raw, &ConvertOptions::default());
    let processors = std::thread::available_parallelism().unwrap().get();
    // Each processor holds two blocks and the state of the compressor.
    convert_within(MIB + processors * 512 * KIB, &source, &packed, &lz4);
    convert_within_1_mib(&packed, &unpacked, &ConvertOptions::default());
    assert!(packed.metadata().unwrap().len() < 40 * MIB as u64);
}

/// The encoder has a window of 2 MiB, and tables to find matches.
#[test]
#[cfg(feature = "ztensor")]
fn zstd_conversions_hold_the_window_and_not_tensors() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = write_large_model(&folder);
    let [packed, unpacked] = ["packed.zt", "unpacked.zt"].map(|name| folder.path().join(name));
    let options = |compression| ConvertOptions::default().format(&ztensor::FORMAT).compression(compression);
    convert_within(6 * MIB, &source, &packed, &options(Compression::Auto));
    convert_within(4 * MIB, &packed, &unpacked, &options(Compression::None));
    assert!(packed.metadata().unwrap().len() < 40 * MIB as u64);
}

#[test]
fn writers_of_all_formats_use_less_than_1_mib() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = write_large_model(&folder);
    for format in write::formats() {
        // GGUF requires metadata that the source does not have.
        let options = ConvertOptions::default().format(format).allow_loss(true);
        convert_within_1_mib(&source, &folder.path().join("written"), &options);
    }
}

#[cfg(feature = "aero")]
#[test]
fn conversions_with_digests_do_not_hold_tensors() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let source = write_large_model(&folder);
    let [first, second] = ["first.aero", "second.aero"].map(|name| folder.path().join(name));
    let options = ConvertOptions::default().format(&aero::FORMAT);
    convert_within_1_mib(&source, &first, &options);
    convert_within_1_mib(&first, &second, &options);
    assert!(std::fs::read(first).unwrap() == std::fs::read(second).unwrap());
}

#[test]
fn opening_reads_only_the_header_and_raw_tensors_are_not_copied() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let path = write_large_model(&folder);
    let (reader, peak) = peak_of(|| Reader::open(&path).unwrap());
    assert!(peak < 64 * KIB, "{peak} bytes to open");
    drop(reader);
    // No process writes to the file while it is mapped.
    let (mapped, peak) = peak_of(|| unsafe { Reader::open_mapped(&path) }.unwrap());
    assert!(peak < 64 * KIB, "{peak} bytes to map");
    let (length, peak) = peak_of(|| mapped.tensor_slice("t").unwrap().len());
    assert_eq!(length, TENSOR_BYTES);
    assert!(peak < KIB, "{peak} bytes for a slice");
}

#[test]
fn verification_holds_one_block_for_each_processor() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (source, packed) = (write_large_model(&folder), folder.path().join("packed.apr"));
    let options = ConvertOptions::default().compression(Compression::Lz4);
    convert(&Reader::open(source).unwrap(), &packed, &options, &()).unwrap();
    let reader = Reader::open(packed).unwrap();
    let (verified, peak) = peak_of(|| reader.verify(&()));
    assert!(verified.is_ok());
    let processors = std::thread::available_parallelism().unwrap().get();
    // The bytes that were read, and one block, stored and decoded.
    assert!(peak < processors * 384 * KIB, "{peak} bytes on {processors} processors");
}
