//! Tests of tensors that are split into streams of bytes.

use super::compressed;
use super::in_memory::Model;
use crate::codec::zstd::literals::exponents;
use crate::dtype::Dtype;
use crate::index::{Algorithm, Encoding, Layout};
use crate::testing::model::{Folder, noise};
use crate::write::{Compression, DigestAlgorithm, convert_with as convert};
use std::fs;

/// Elements with random bytes but for the most significant one, which has few values.
fn floats(width: usize, count: usize) -> Vec<u8> {
    let mut bytes = noise(width as u64, width * count);
    for (number, exponent) in bytes.chunks_exact_mut(width).zip(exponents(count)) {
        number[width - 1] = exponent;
    }
    bytes
}

const DTYPES: [(Dtype, usize); 7] = [
    (Dtype::BF16, 2),
    (Dtype::F16, 2),
    (Dtype::F32, 4),
    (Dtype::F64, 8),
    (Dtype::I32, 4),
    (Dtype::C64, 8),
    (Dtype::C128, 16),
];

#[test]
fn compressible_exponents_are_a_stream_of_their_own() {
    let mut model = Model::new();
    for (dtype, width) in &DTYPES {
        model.add(dtype.name(), Layout::Dense, &[300, 101], vec![("data", dtype.clone(), floats(*width, 30_300))]);
    }
    for digest in [DigestAlgorithm::Crc32c, DigestAlgorithm::Sha256, DigestAlgorithm::None] {
        let reader = model.round_trips(&compressed(Compression::Auto).digest(Some(digest)));
        for (dtype, width) in &DTYPES {
            let tensor = reader.tensor(dtype.name()).unwrap();
            let [data] = tensor.components.as_slice() else { panic!("{:?}", tensor.components) };
            assert_eq!((data.encoding, &tensor.layout), (Encoding::ByteStreamSplit, &Layout::Dense), "{dtype}");
            let streams: Vec<_> = data.streams().unwrap().iter().collect();
            assert_eq!(streams.len(), *width);
            let (exponents, mantissas) = streams.split_last().unwrap();
            assert!(exponents.is_zstd && mantissas.iter().all(|stream| !stream.is_zstd), "{dtype}");
            assert!(mantissas.iter().all(|stream| exponents.range.end <= stream.range.start), "{dtype}");
            let algorithm = digest.name().parse::<Algorithm>().ok();
            assert_eq!(reader.load_tensor(dtype.name()).unwrap().verified, algorithm, "{dtype}");
        }
    }
}

#[test]
fn several_frames_have_a_table_in_each_stream() {
    let mut model = Model::new();
    let count = (5 << 20) + 3;
    model.add("t", Layout::Dense, &[count], vec![("data", Dtype::BF16, floats(2, count as usize))]);
    let reader = model.round_trips(&compressed(Compression::Auto));
    let stored = reader.tensor("t").unwrap().stored_length();
    // Two of eight bits for one of two bytes.
    assert!((0.624..0.63).contains(&(stored as f64 / (2 * count) as f64)), "{stored}");
}

#[test]
fn numbers_that_do_not_get_smaller_are_not_split() {
    let mut model = Model::new();
    model.add("noise", Layout::Dense, &[4096], vec![("data", Dtype::F32, noise(1, 4 * 4096))]);
    model.add("bytes", Layout::Dense, &[4096], vec![("data", Dtype::F8_E4M3, exponents(4096))]);
    model.add("empty", Layout::Dense, &[0], vec![("data", Dtype::F32, Vec::new())]);
    // Zstandard finds repeated rows in the numbers at once, and in streams once for each.
    let rows = noise(3, 64 * 32);
    let repeated: Vec<u8> =
        noise(4, 10_000).iter().flat_map(|row| &rows[usize::from(row % 64) * 32..][..32]).copied().collect();
    let count = repeated.len() as u64 / 4;
    model.add("repeated", Layout::Dense, &[count], vec![("data", Dtype::F32, repeated)]);
    let reader = model.round_trips(&compressed(Compression::Auto));
    let encoding = |name: &str| reader.tensor(name).unwrap().components[0].encoding;
    assert_eq!(encoding("noise"), Encoding::Raw);
    assert_eq!(encoding("bytes"), Encoding::Zstd);
    assert_eq!(encoding("empty"), Encoding::Raw);
    assert_eq!(encoding("repeated"), Encoding::Zstd);
}

#[test]
fn other_compressions_and_versions_do_not_split() {
    let mut model = Model::new();
    model.add("t", Layout::Dense, &[4096], vec![("data", Dtype::F32, floats(4, 4096))]);
    for options in [
        compressed(Compression::None),
        compressed(Compression::Zstd),
        compressed(Compression::Auto).format_version(Some("1.1".to_owned())),
    ] {
        let reader = model.round_trips(&options);
        assert_ne!(reader.tensor("t").unwrap().components[0].encoding, Encoding::ByteStreamSplit);
    }
}

#[test]
fn damage_in_any_stream_is_found() {
    let (mut model, folder) = (Model::new(), Folder::new());
    model.add("t", Layout::Dense, &[4096], vec![("data", Dtype::F32, floats(4, 4096))]);
    convert(&model, &folder.path("m.zt"), &compressed(Compression::Auto), &()).unwrap();
    let whole = fs::read(folder.path("m.zt")).unwrap();
    let reader = folder.open("m.zt");
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    for stream in streams.iter() {
        for at in [stream.range.start, stream.range.end - 1] {
            let mut damaged = whole.clone();
            damaged[at as usize] ^= 1;
            fs::write(folder.path("damaged.zt"), damaged).unwrap();
            let reader = folder.open("damaged.zt");
            let error = reader.load_tensor("t").unwrap_err();
            assert_eq!(error.context.tensor.as_deref(), Some("t"), "{error}");
            assert!(reader.verify(&()).is_err());
        }
    }
}

#[test]
fn verification_also_compares_the_digest_of_the_whole_tensor() {
    let (mut model, folder) = (Model::new(), Folder::new());
    model.add("t", Layout::Dense, &[4096], vec![("data", Dtype::F32, floats(4, 4096))]);
    convert(&model, &folder.path("m.zt"), &compressed(Compression::Auto), &()).unwrap();
    let digest = folder.open("m.zt").tensor("t").unwrap().components[0].streams().unwrap().digest().unwrap();
    let (stated, other) = (digest.to_string().to_uppercase(), "0BADC0DE");
    let mut file = fs::read(folder.path("m.zt")).unwrap();
    let at = file.windows(8).position(|bytes| bytes == stated.as_bytes()).unwrap();
    file[at..at + 8].copy_from_slice(other.as_bytes());
    fs::write(folder.path("wrong.zt"), file).unwrap();
    let error = folder.open("wrong.zt").verify(&()).unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (crate::ErrorKind::Checksum, Some("t")));
}
