//! Builds files field by field from their specifications, independently of the library's own writers, encoders and
//! checksums.

use serde_json::{Value, json};
use std::sync::LazyLock;

/// A dtype of APR: its code, its name, and the numbers of elements and bytes in a block.
pub(crate) type AprDtype = (u8, &'static str, u64, u64);

/// The table of the specification ("Data Type Enum"), with ggml's block sizes.
pub(crate) const APR_DTYPES: [AprDtype; 13] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "BF16", 1, 2),
    (3, "I8", 1, 1),
    (4, "I16", 1, 2),
    (5, "I32", 1, 4),
    (6, "I64", 1, 8),
    (7, "U8", 1, 1),
    (16, "Q8_0", 32, 34),
    (17, "Q4_0", 32, 18),
    (18, "Q4_1", 32, 20),
    (19, "Q5_0", 32, 22),
    (20, "Q5_1", 32, 24),
];

/// A builder of APR files.
pub(crate) struct Apr {
    pub(crate) metadata: Value,
    pub(crate) entries: Vec<Entry>,
    /// The tensor count in the index, instead of the actual one.
    pub(crate) stated_count: Option<u32>,
}

/// A tensor of an APR file. Fields of its index entry can be set to invalid values.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: u8,
    pub(crate) dims: Vec<u64>,
    pub(crate) stored: Vec<u8>,
    pub(crate) raw_size: u64,
    /// The offset and the size in the index, instead of the actual ones.
    pub(crate) stated_offset: Option<u64>,
    pub(crate) stated_size: Option<u64>,
}

impl Entry {
    /// A tensor that is stored without compression.
    pub(crate) fn raw(name: &str, dtype: u8, dims: &[u64], bytes: Vec<u8>) -> Self {
        let (name, dims) = (name.to_owned(), dims.to_vec());
        Entry { name, dtype, dims, stored: bytes, raw_size: 0, stated_offset: None, stated_size: None }
    }

    /// A tensor in LZ4 blocks.
    pub(crate) fn lz4(name: &str, dtype: u8, dims: &[u64], bytes: &[u8]) -> Self {
        Entry { raw_size: bytes.len() as u64, ..Entry::raw(name, dtype, dims, lz4_blocks(bytes)) }
    }
}

impl Apr {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let metadata = json!({ "apr_version": "2.0.0", "model_type": "test", "architecture": {} });
        Apr { metadata, entries, stated_count: None }
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let metadata = self.metadata.to_string().into_bytes();
        let (mut index, mut data) = (Vec::new(), Vec::new());
        index.extend(self.stated_count.unwrap_or(self.entries.len() as u32).to_le_bytes());
        index.extend([0; 4]);
        for entry in &self.entries {
            data.resize(data.len().next_multiple_of(64), 0);
            index.extend((entry.name.len() as u16).to_le_bytes());
            index.extend(entry.name.as_bytes());
            index.extend([entry.dtype, entry.dims.len() as u8]);
            index.extend(entry.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            index.extend(entry.stated_offset.unwrap_or(data.len() as u64).to_le_bytes());
            index.extend(entry.stated_size.unwrap_or(entry.stored.len() as u64).to_le_bytes());
            index.extend(entry.raw_size.to_le_bytes());
            index.extend([0; 4]);
            data.extend(&entry.stored);
        }
        let index_offset = 32 + metadata.len();
        let data_offset = (index_offset + index.len()).next_multiple_of(64);

        let mut file = b"APR2".to_vec();
        file.extend([2, 0, 0, 0]); // version 2.0
        file.extend([2, 0, 0, 0]); // ALIGNED_64
        for field in [32, metadata.len(), index_offset, index.len(), data_offset] {
            file.extend((field as u32).to_le_bytes());
        }
        file.extend(metadata);
        file.extend(index);
        file.resize(data_offset, 0);
        file.extend(data);
        seal(file)
    }
}

/// Adds the footer.
pub(crate) fn seal(mut file: Vec<u8>) -> Vec<u8> {
    file.extend(crc32(&file).to_le_bytes());
    file.extend(b"2RPA");
    let length = file.len() as u64 + 8;
    file.extend(length.to_le_bytes());
    file
}

/// The manifest of APR shards (specification, "Manifest File").
pub(crate) fn apr_manifest(shards: &[(&str, &[u8])], tensor_shard_map: Value) -> Vec<u8> {
    let describe = |(name, bytes): &(&str, &[u8])| {
        let crc32 = format!("{:08x}", crc32(bytes));
        json!({ "file": name, "size": bytes.len(), "crc32": crc32 })
    };
    let manifest = json!({
        "apr_version": "2.0.0",
        "sharded": true,
        "shard_count": shards.len(),
        "shards": shards.iter().map(describe).collect::<Vec<_>>(),
        "tensor_shard_map": tensor_shard_map,
    });
    manifest.to_string().into_bytes()
}

/// The map of the tensors of APR shards to the numbers of their shards.
pub(crate) fn shard_map(shards: &[&Apr]) -> Value {
    let numbered = shards.iter().enumerate();
    let names =
        numbered.flat_map(|(number, shard)| shard.entries.iter().map(move |entry| (entry.name.clone(), number)));
    names.map(|(name, number)| (name, json!(number))).collect::<serde_json::Map<_, _>>().into()
}

/// A SafeTensors file.
pub(crate) fn safetensors(metadata: Option<Value>, tensors: &[(&str, &str, &[u64], Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    if let Some(metadata) = metadata {
        header.insert("__metadata__".to_owned(), metadata);
    }
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
        data.extend(bytes);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// CRC-32/IEEE, byte by byte, with a table that is computed bit by bit.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
        let step = |crc: u32, _: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        std::array::from_fn(|byte| (0..8).fold(byte as u32, step))
    });
    let table = &*TABLE;
    !bytes.iter().fold(!0, |crc, &byte| table[((crc ^ u32::from(byte)) & 255) as usize] ^ (crc >> 8))
}

/// Blocks of 64 KiB, each after its length. Runs of one byte are compressed, everything else is stored as literals.
pub(crate) fn lz4_blocks(bytes: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    for block in bytes.chunks(65_536) {
        let is_run = block.len() > 30 && block.iter().all(|byte| *byte == block[0]);
        let block = if is_run { lz4_run(block[0], block.len()) } else { lz4_literals(block) };
        stored.extend((block.len() as u32).to_le_bytes());
        stored.extend(block);
    }
    stored
}

/// One sequence of literals without a match (LZ4 block format, "Compressed block format").
pub(crate) fn lz4_literals(bytes: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    if bytes.len() < 15 {
        block.push((bytes.len() as u8) << 4);
    } else {
        block.push(0xf0);
        push_length(&mut block, bytes.len() - 15);
    }
    block.extend(bytes);
    block
}

/// One literal, a match that repeats it, and the five literals that every block must end with.
fn lz4_run(byte: u8, length: usize) -> Vec<u8> {
    let match_length = length - 1 - 5;
    let mut block = vec![0x1f, byte, 1, 0];
    push_length(&mut block, match_length - 4 - 15);
    block.push(0x50);
    block.extend([byte; 5]);
    block
}

fn push_length(block: &mut Vec<u8>, mut length: usize) {
    while length >= 255 {
        block.push(255);
        length -= 255;
    }
    block.push(length as u8);
}

/// Incompressible bytes, determined by the seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(length).collect()
}

/// Bytes that compress well but are not a single run.
pub(crate) fn ramp(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 64 % 200) as u8).collect()
}

/// An APR file with every dtype, raw and compressed, scalars, empty tensors, and unusual names.
pub(crate) fn varied() -> Apr {
    let mut entries = Vec::new();
    for (code, name, elements, bytes) in APR_DTYPES {
        let length = (7 * bytes) as usize;
        entries.push(Entry::raw(&format!("raw.{name}"), code, &[7 * elements], noise(code.into(), length)));
        let length = (3 * 100 * bytes) as usize;
        entries.push(Entry::lz4(&format!("lz4.{name}"), code, &[3, 100 * elements], &ramp(length)));
    }
    entries.push(Entry::raw("scalar", 0, &[], noise(90, 4)));
    entries.push(Entry::lz4("scalar in a block", 6, &[], &noise(91, 8)));
    entries.push(Entry::raw("empty", 0, &[3, 0, 5], Vec::new()));
    entries.push(Entry::raw("__proto__", 7, &[5], noise(92, 5)));
    entries.push(Entry::raw("重み/übung \u{1f9e0}\n", 7, &[2, 2], noise(93, 4)));
    entries.push(Entry::raw("", 7, &[1], noise(94, 1)));
    entries.push(Entry::lz4("blocks", 7, &[5, 40_000], &[ramp(100_000), vec![3; 100_000]].concat()));
    Apr::new(entries)
}
