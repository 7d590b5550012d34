//! Builds malicious files field by field, for the native and the browser tests.
#![allow(dead_code, reason = "each test that includes this uses a part of it")]

/// A Zstandard frame with a window of 128 KiB and no content size. It decodes to `before`, then `blocks` blocks of
/// 128 KiB filled with `byte`, then `after`.
pub(crate) fn frame(before: &[u8], byte: u8, blocks: usize, after: &[u8]) -> Vec<u8> {
    let mut frame = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
    let raw = |bytes: &[u8], is_last: bool| [&block(0, bytes.len(), is_last)[..], bytes].concat();
    frame.extend(raw(before, false));
    frame.extend([&block(1, BLOCK_BYTES, false)[..], &[byte]].concat().repeat(blocks));
    frame.extend(raw(after, true));
    frame
}

/// The decoded size of a block of repeated bytes.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;

fn block(kind: usize, length: usize, is_last: bool) -> [u8; 3] {
    let header = (length << 3 | kind << 1 | usize::from(is_last)).to_le_bytes();
    [header[0], header[1], header[2]]
}

/// An AERO chunk without a digest.
pub(crate) struct Chunk {
    pub(crate) kind: &'static [u8; 4],
    /// The offset and the length of its name in the names of the file.
    pub(crate) name: (u32, u32),
    pub(crate) stored: Vec<u8>,
    /// `None` if the chunk is not compressed.
    pub(crate) decoded_length: Option<usize>,
}

impl Chunk {
    pub(crate) fn raw(kind: &'static [u8; 4], stored: Vec<u8>) -> Self {
        Chunk { kind, name: (0, 14), stored, decoded_length: None }
    }

    pub(crate) fn compressed(kind: &'static [u8; 4], stored: Vec<u8>, decoded_length: usize) -> Self {
        Chunk { decoded_length: Some(decoded_length), ..Chunk::raw(kind, stored) }
    }
}

pub(crate) const NAMES: &[u8] = b"weights.shard0\0";

pub(crate) fn aero(names: &[u8], chunks: &[Chunk]) -> Vec<u8> {
    let toc_bytes = 16 + 80 * chunks.len() as u64;
    let mut offset = (96 + toc_bytes + names.len() as u64).next_multiple_of(16);
    let mut file = b"AERO\0\0\x01\0\x60\0\0\0".to_vec();
    file.extend([96, toc_bytes, 96 + toc_bytes, names.len() as u64, 0].map(u64::to_le_bytes).concat());
    file.resize(96, 7);
    file.extend((chunks.len() as u32).to_le_bytes());
    file.extend([0; 12]);
    for Chunk { kind, name, stored, decoded_length } in chunks {
        file.extend([&kind[..], &u32::from(decoded_length.is_some()).to_le_bytes()].concat());
        let length = stored.len() as u64;
        file.extend(
            [offset, length, decoded_length.map_or(length, |length| length as u64)].map(u64::to_le_bytes).concat(),
        );
        file.extend([name.0, name.1].map(u32::to_le_bytes).concat());
        file.extend([0; 8 + 32]);
        offset += length;
    }
    file.extend(names);
    file.resize(file.len().next_multiple_of(16), 0);
    chunks.iter().for_each(|chunk| file.extend(&chunk.stored));
    file
}

/// A wrapper of an APR1 file that is compressed as a whole.
pub(crate) fn wrapper(algorithm: u8, decoded_length: usize, payload: &[u8]) -> Vec<u8> {
    [b"APR2", &[algorithm][..], &(decoded_length as u32).to_le_bytes(), payload].concat()
}

/// The header of an APR1 file with `metadata_bytes` bytes of metadata.
pub(crate) fn apr1(metadata_bytes: usize) -> Vec<u8> {
    [b"APR1", &(metadata_bytes as u32).to_le_bytes()[..]].concat()
}

/// A CBOR head with a 32-bit argument.
pub(crate) fn head(major: u8, count: usize) -> Vec<u8> {
    [&[major << 5 | 26][..], &(count as u32).to_be_bytes()].concat()
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&head(3, text.len())[..], text.as_bytes()].concat()
}

pub(crate) fn object(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut object = head(5, entries.len());
    for (key, value) in entries {
        object.extend([text(key), value.clone()].concat());
    }
    object
}

pub(crate) fn number(number: u64) -> Vec<u8> {
    [&[0x1b][..], &number.to_be_bytes()].concat()
}

pub(crate) fn numbers(numbers: &[u64]) -> Vec<u8> {
    [head(4, numbers.len()), numbers.iter().flat_map(|n| number(*n)).collect()].concat()
}

/// A zTensor file with `blobs` at byte 8, followed by `manifest`.
pub(crate) fn ztensor(blobs: &[u8], manifest: &[u8]) -> Vec<u8> {
    let length = (manifest.len() as u64).to_le_bytes();
    [b"ZTEN1000", blobs, manifest, &length, b"ZTEN1000"].concat()
}

/// A zTensor file with a sparse tensor. Every component is compressed and states no decoded length.
pub(crate) fn sparse(format: &str, shape: &[u64], roles: &[&str], blocks: usize) -> Vec<u8> {
    let blob = frame(b"", 0, blocks, b"");
    let mut blobs = vec![0; 56];
    let mut components = Vec::new();
    for role in roles {
        let offset = 8 + blobs.len() as u64;
        let dtype = if *role == "values" { "f32" } else { "u64" };
        let fields = [
            ("dtype", text(dtype)),
            ("offset", number(offset)),
            ("length", number(blob.len() as u64)),
            ("encoding", text("zstd")),
        ];
        components.push((*role, object(&fields)));
        blobs.extend(&blob);
        blobs.resize((blobs.len() + 8).next_multiple_of(64) - 8, 0);
    }
    let tensor = object(&[("shape", numbers(shape)), ("format", text(format)), ("components", object(&components))]);
    ztensor(&blobs, &object(&[("version", text("1.2")), ("objects", object(&[("t", tensor)]))]))
}
