//! Builds the head of a file: the header, the table of contents, the names, and all chunks except the shards.

use super::msgpack::Packer;
use crate::format::aero::toc::{ENTRY_BYTES, HEADER_BYTES, MAGIC, TOC_HEADER_BYTES, VERSION};

/// Flags of a chunk (specification, "Chunk Flags").
const MMAP_CRITICAL: u32 = 2;
const INDEX: u32 = 4;
const OPTIONAL: u32 = 8;

/// The alignment of chunks.
const CHUNK_ALIGNMENT: u64 = 16;

/// The length of the chunk IHSH. AIP-0001's writer pads it with NULs to this length, and readers expect it.
const CONTROL_BYTES: usize = 256;

/// A chunk and its entry in the table of contents.
pub(super) struct Chunk {
    kind: [u8; 4],
    flags: u32,
    name: String,
    length: u64,
    blake3: [u8; 32],
    /// `None` for a shard, which follows the head.
    content: Option<Vec<u8>>,
}

impl Chunk {
    pub(super) fn json(content: Vec<u8>) -> Self {
        Chunk::short(*b"MJSN", 0, "meta.json".to_owned(), content)
    }

    pub(super) fn manifest(content: Vec<u8>) -> Self {
        Chunk::short(*b"MMSG", 0, "manifest".to_owned(), content)
    }

    pub(super) fn index(content: Vec<u8>) -> Self {
        Chunk::short(*b"TIDX", INDEX, "tensors".to_owned(), content)
    }

    /// The digests of a shard's pages.
    pub(super) fn pages(shard: usize, content: Vec<u8>) -> Self {
        Chunk::short(*b"PHSH", OPTIONAL, format!("{}.phsh", shard_name(shard)), content)
    }

    pub(super) fn shard(number: usize, length: u64, blake3: [u8; 32]) -> Self {
        let name = shard_name(number);
        Chunk { kind: *b"WTSH", flags: MMAP_CRITICAL, name, length, blake3, content: None }
    }

    fn control(content: Vec<u8>) -> Self {
        Chunk::short(*b"IHSH", OPTIONAL, "control.integrity".to_owned(), content)
    }

    fn short(kind: [u8; 4], flags: u32, name: String, content: Vec<u8>) -> Self {
        let (length, blake3) = (content.len() as u64, blake3::hash(&content).into());
        Chunk { kind, flags, name, length, blake3, content: Some(content) }
    }
}

pub(super) fn shard_name(number: usize) -> String {
    format!("weights.shard{number}")
}

/// The bytes of a file before its shards.
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
    /// The offsets of the shards.
    pub(super) shard_starts: Vec<u64>,
}

impl Head {
    /// Lays out the chunks in order, the shards last, after the chunk IHSH with the digest of the control data.
    pub(super) fn new(chunks: Vec<Chunk>, alignment: u64) -> Self {
        let uuid = uuid(&chunks);
        let mut chunks = chunks;
        chunks.insert(0, Chunk::control(vec![0; CONTROL_BYTES]));
        let names: String = chunks.iter().map(|chunk| format!("{}\0", chunk.name)).collect();
        let mut control = Control { uuid, names, chunks, offsets: Vec::new() };
        control.place_chunks(alignment);

        let digest = blake3::hash(&control.bytes(|_| [0; 32]));
        let integrity = Chunk::control(control_integrity(control.end(), digest.as_bytes()));
        if let Some(first) = control.chunks.first_mut() {
            *first = integrity;
        }
        let mut bytes = control.bytes(|chunk| chunk.blake3);
        let mut shard_starts = Vec::new();
        for (chunk, offset) in control.chunks.iter().zip(&control.offsets) {
            match &chunk.content {
                Some(content) => {
                    bytes.resize(*offset as usize, 0);
                    bytes.extend(content);
                }
                None => shard_starts.push(*offset),
            }
        }
        if let Some(first) = shard_starts.first() {
            bytes.resize(*first as usize, 0);
        }
        Head { bytes, shard_starts }
    }
}

/// The control data, which the digest in IHSH covers.
struct Control {
    uuid: [u8; 16],
    /// The names, each terminated by a NUL.
    names: String,
    chunks: Vec<Chunk>,
    /// The offsets of the chunks.
    offsets: Vec<u64>,
}

impl Control {
    fn place_chunks(&mut self, alignment: u64) {
        let mut end = self.end();
        for chunk in &self.chunks {
            let alignment = if chunk.content.is_some() { CHUNK_ALIGNMENT } else { alignment.max(CHUNK_ALIGNMENT) };
            let offset = end.next_multiple_of(alignment);
            self.offsets.push(offset);
            end = offset + chunk.length;
        }
    }

    fn toc_bytes(&self) -> u64 {
        TOC_HEADER_BYTES + ENTRY_BYTES * self.chunks.len() as u64
    }

    /// The size of the string table, including its padding.
    fn names_bytes(&self) -> u64 {
        (self.names.len() as u64).next_multiple_of(8)
    }

    /// The end of the control data: the first offset at which a chunk may begin.
    fn end(&self) -> u64 {
        (HEADER_BYTES + self.toc_bytes() + self.names_bytes()).next_multiple_of(CHUNK_ALIGNMENT)
    }

    fn bytes(&self, digest: impl Fn(&Chunk) -> [u8; 32]) -> Vec<u8> {
        let names_offset = HEADER_BYTES + self.toc_bytes();
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION.0, VERSION.1].map(u16::to_le_bytes).concat());
        bytes.extend((HEADER_BYTES as u32).to_le_bytes());
        let flags = 0;
        let fields = [HEADER_BYTES, self.toc_bytes(), names_offset, self.names_bytes(), flags];
        bytes.extend(fields.map(u64::to_le_bytes).concat());
        bytes.extend(self.uuid);
        bytes.resize(HEADER_BYTES as usize, 0);

        bytes.extend((self.chunks.len() as u32).to_le_bytes());
        bytes.extend([0; 12]); // reserved
        let mut name_offset = 0u32;
        for (chunk, offset) in self.chunks.iter().zip(&self.offsets) {
            bytes.extend(chunk.kind);
            bytes.extend(chunk.flags.to_le_bytes());
            bytes.extend([*offset, chunk.length, chunk.length].map(u64::to_le_bytes).concat()); // stored, decoded
            let name_length = chunk.name.len() as u32;
            bytes.extend([name_offset, name_length].map(u32::to_le_bytes).concat());
            bytes.extend([0; 8]); // reserved
            bytes.extend(digest(chunk));
            name_offset += name_length + 1;
        }
        bytes.extend(self.names.as_bytes());
        bytes.resize(self.end() as usize, 0);
        bytes
    }
}

/// Returns a UUID of version 8, whose content is application-defined (RFC 9562): here the digests of all chunks.
fn uuid(chunks: &[Chunk]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for chunk in chunks {
        hasher.update(&chunk.blake3);
    }
    let mut uuid = [0; 16];
    hasher.finalize_xof().fill(&mut uuid);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// IHSH (AIP-0001, "Payload").
fn control_integrity(end: u64, digest: &[u8; 32]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.map(3);
    packer.text("algo");
    packer.text("blake3-256");
    packer.text("covered_ranges");
    packer.array(1);
    packer.array(2);
    packer.uint(0);
    packer.uint(end);
    packer.text("digest");
    packer.bytes(digest);
    let mut content = packer.into_bytes();
    content.resize(CONTROL_BYTES, 0);
    content
}
