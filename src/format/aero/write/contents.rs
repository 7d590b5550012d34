//! Builds all chunks of a file from its tensors and their digests.

use super::head::{Chunk, shard_name};
use super::index::{self, Entry};
use super::layout::{Layout, PAGE_BYTES};
use super::metadata::About;
use super::msgpack::Packer;
use super::quantization::Quantization;
use crate::error::Result;
use crate::format::aero::toc::VERSION;
use crate::index::Tensor;
use crate::output::target::ShardKind;
use crate::output::writer::DigestAlgorithm;
use serde_json::{Map, Value, json};

/// The contents of a file of tensors.
pub(super) struct Contents<'a> {
    about: &'a About,
    tensors: &'a [Tensor],
    pub(super) layout: Layout,
    quantization: Quantization,
    kind: ShardKind,
    /// Whether each tensor has its own digest.
    pub(super) has_digests: bool,
}

/// The digests of the data after the head.
#[derive(Default)]
pub(super) struct Digests {
    pub(super) tensors: Vec<[u8; 32]>,
    pub(super) shards: Vec<ShardDigests>,
}

pub(super) struct ShardDigests {
    pub(super) whole: [u8; 32],
    pub(super) pages: Vec<[u8; 32]>,
}

impl<'a> Contents<'a> {
    pub(super) fn new(
        about: &'a About,
        tensors: &'a [Tensor],
        alignment: u64,
        kind: ShardKind,
        digest: DigestAlgorithm,
    ) -> Result<Self> {
        let layout = Layout::new(tensors, alignment)?;
        let quantization = Quantization::of(tensors.iter(), &about.metadata);
        let has_digests = digest == DigestAlgorithm::Blake3;
        Ok(Contents { about, tensors, layout, quantization, kind, has_digests })
    }

    /// Returns digests of zeros. Chunks with them have the same length as with the real digests.
    pub(super) fn unknown_digests(&self) -> Digests {
        let of_shard = |pages| ShardDigests { whole: [0; 32], pages: vec![[0; 32]; pages as usize] };
        let shards = self.layout.shards.iter().map(|shard| of_shard(shard.pages()));
        Digests { tensors: vec![[0; 32]; self.tensors.len()], shards: shards.collect() }
    }

    pub(super) fn chunks(&self, digests: &Digests) -> Result<Vec<Chunk>> {
        let mut chunks = vec![
            Chunk::json(self.about.json(self.kind, &self.quantization.descriptors)?),
            Chunk::manifest(manifest(self.about.model.as_ref(), &self.layout)),
            Chunk::index(self.index(digests)?),
        ];
        let shards = || self.layout.shards.iter().zip(&digests.shards).enumerate();
        let paged = shards().filter(|(_, (_, digests))| !digests.pages.is_empty());
        chunks.extend(paged.map(|(number, (_, digests))| Chunk::pages(number, page_hashes(number, &digests.pages))));
        chunks.extend(shards().map(|(number, (shard, digests))| Chunk::shard(number, shard.length, digests.whole)));
        Ok(chunks)
    }

    fn index(&self, digests: &Digests) -> Result<Vec<u8>> {
        let is_reversed = self.about.shapes_are_reversed();
        let placed = self.tensors.iter().zip(&self.layout.places).zip(&self.quantization.tensors);
        let entries = placed.zip(&digests.tensors).map(|(((tensor, place), packing), digest)| Entry {
            tensor,
            shard_id: place.shard as u64,
            place: *place,
            packing,
            digest: self.has_digests.then_some(*digest),
            is_reversed,
        });
        index::pack(entries)
    }
}

/// MMSG: the role of each chunk, in the order of the table of contents.
pub(super) fn manifest(model: Option<&Map<String, Value>>, layout: &Layout) -> Vec<u8> {
    let fixed = [("control_integrity", "IHSH"), ("json", "MJSN"), ("manifest", "MMSG"), ("tensors", "TIDX")];
    let mut roles: Vec<_> = fixed.map(|(role, kind)| (role, kind, None)).to_vec();
    let shards = || layout.shards.iter().enumerate();
    let paged = shards().filter(|(_, shard)| shard.pages() > 0);
    roles.extend(paged.map(|(number, _)| ("page_hashes", "PHSH", Some(number))));
    let first_shard = roles.len();
    roles.extend(shards().map(|(number, _)| ("weights", "WTSH", Some(number))));

    let chunk = |(toc_index, (role, kind, shard)): (usize, &(&str, &str, Option<usize>))| {
        let mut chunk = Map::from_iter([("role".to_owned(), json!(role)), ("fourcc".to_owned(), json!(kind))]);
        chunk.insert("toc_index".to_owned(), toc_index.into());
        chunk.extend(shard.map(|number| ("shard_id".to_owned(), number.into())));
        Value::Object(chunk)
    };
    let chunks: Vec<_> = roles.iter().enumerate().map(chunk).collect();
    let shards = shards().map(|(number, shard)| {
        json!({
            "shard_id": number,
            "toc_index": first_shard + number,
            "size_bytes": shard.length,
            "tensor_count": shard.tensors,
            "mmap_critical": true,
        })
    });
    let mut manifest = Map::new();
    manifest.insert("format".to_owned(), json!({ "name": "AERO", "version": [VERSION.0, VERSION.1] }));
    manifest.extend(model.map(|model| ("model".to_owned(), model.clone().into())));
    manifest.insert("chunks".to_owned(), chunks.into());
    manifest.insert("shards".to_owned(), shards.collect());
    let mut packer = Packer::default();
    packer.value(&manifest.into());
    packer.into_bytes()
}

/// PHSH (AIP-0002, "Payload").
fn page_hashes(shard: usize, pages: &[[u8; 32]]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.map(3);
    packer.text("shard_name");
    packer.text(&shard_name(shard));
    packer.text("page_size");
    packer.uint(PAGE_BYTES);
    packer.text("digests");
    packer.array(pages.len());
    pages.iter().for_each(|digest| packer.bytes(digest));
    packer.into_bytes()
}
