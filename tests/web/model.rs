//! A small APR v2 file, built from the specification, independently of the library's writer.

/// A tensor of `rows` × `columns` elements of F32.
pub(crate) struct Tensor {
    pub(crate) name: &'static str,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) compressed: bool,
}

pub(crate) const TENSORS: &[Tensor] = &[
    Tensor { name: "first", rows: 7, columns: 3, compressed: false },
    Tensor { name: "große.weight", rows: 300, columns: 256, compressed: true },
    Tensor { name: "raw.weight", rows: 200, columns: 256, compressed: false },
    Tensor { name: "empty", rows: 0, columns: 5, compressed: false },
    Tensor { name: "last", rows: 1, columns: 1, compressed: false },
];

/// The bytes of a tensor, little-endian.
pub(crate) fn data(tensor: &Tensor) -> Vec<u8> {
    let seed = tensor.name.len() as u32;
    (0..tensor.rows as u32 * tensor.columns as u32).flat_map(|i| ((i / 5 * seed) as f32).to_le_bytes()).collect()
}

/// Builds the file.
pub(crate) fn file() -> Vec<u8> {
    let (mut index, mut body) = (Vec::new(), Vec::new());
    index.extend((TENSORS.len() as u32).to_le_bytes());
    index.extend([0; 4]);
    for tensor in TENSORS {
        let raw = data(tensor);
        let stored = if tensor.compressed { lz4(&raw) } else { raw.clone() };
        index.extend((tensor.name.len() as u16).to_le_bytes());
        index.extend(tensor.name.as_bytes());
        index.extend([0, 2]);
        let raw_size = if tensor.compressed { raw.len() as u64 } else { 0 };
        for field in [tensor.rows, tensor.columns, body.len() as u64, stored.len() as u64, raw_size] {
            index.extend(field.to_le_bytes());
        }
        index.extend([0; 4]);
        body.extend(stored);
        body.resize(body.len().next_multiple_of(64), 0);
    }
    let metadata = br#"{"apr_version":"2.0.0","model_type":"test","architecture":{}}"#;
    let index_offset = 32 + metadata.len();
    let data_offset = (index_offset + index.len()).next_multiple_of(64);
    let mut file = b"APR2\x02\0\0\0\x03\0\0\0".to_vec();
    for field in [32, metadata.len(), index_offset, index.len(), data_offset] {
        file.extend((field as u32).to_le_bytes());
    }
    file.extend(metadata);
    file.extend(index);
    file.resize(data_offset, 0);
    file.extend(body);
    let (crc32, length) = (crc32fast::hash(&file), file.len() as u64 + 16);
    file.extend(crc32.to_le_bytes());
    file.extend(b"2RPA");
    file.extend(length.to_le_bytes());
    file
}

fn lz4(raw: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    for block in raw.chunks(65_536) {
        let block = lz4_flex::block::compress(block);
        stored.extend((block.len() as u32).to_le_bytes());
        stored.extend(block);
    }
    stored
}
