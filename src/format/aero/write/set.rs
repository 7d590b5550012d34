//! Writes AEROSET: a model in several files, an index file with the tensors of all of them, and a manifest.

use super::contents;
use super::head::{Chunk, Head};
use super::index::{self, Entry};
use super::layout::{Layout, MAX_SHARD_BYTES, PAGE_BYTES, Place as PlaceInFile, stored_length};
use super::msgpack::Packer;
use super::quantization::Quantization;
use super::target::Aero;
use crate::error::{Error, ErrorKind, Result};
use crate::format::aero::toc::MAX_METADATA_BYTES;
use crate::index::Tensor;
use crate::output::file::ShardFile;
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::shards::{content_name, numbered_path, stem};
use crate::output::target::{FileSize, ManifestWriter, Naming, SMALLER_HEAD, Shard, ShardKind, ShardPosition, Sharded};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The size that a shard adds to the head in addition to its page digests: two entries of the table of contents, their
/// names, their entries in the manifest, and padding.
const SHARD_BYTES: u64 = 512;

/// The file name suffixes of the manifest and the index file.
const SET: &str = "aeroset.json";
const INDEX: &str = "index.aero";

/// The size of a page digest in MessagePack.
const PAGE_DIGEST_BYTES: u64 = 34;

impl Sharded for Aero {
    fn file_bytes(&self, size: &FileSize) -> u64 {
        let shards = match size.data {
            0..=MAX_SHARD_BYTES => 1,
            // Two consecutive shards together exceed the maximum length of one, apart from padding.
            longer => longer / (MAX_SHARD_BYTES / 4),
        };
        let pages = size.data / PAGE_BYTES + shards;
        size.head + size.data + shards * (SHARD_BYTES + self.alignment) + pages * PAGE_DIGEST_BYTES
    }

    fn empty_head_bytes(&self, kind: ShardKind) -> u64 {
        let contents = self.contents(&[], kind);
        let chunks = contents.and_then(|contents| contents.chunks(&contents.unknown_digests()));
        let longer_counts = 64; // of tensors, chunks, descriptors
        chunks.map_or(0, |chunks| Head::new(chunks, self.alignment).bytes.len() as u64 + longer_counts)
    }

    fn entry_bytes(&self, tensor: &Tensor) -> u64 {
        let quantization = Quantization::of([tensor].into_iter(), &self.about.metadata);
        let Some(packing) = quantization.tensors.first() else { return 0 };
        let place = PlaceInFile { shard: 0, offset: u64::MAX, length: u64::MAX };
        let (digest, is_reversed) = (Some([0; 32]), false);
        let mut packer = Packer::default();
        let packed = Entry { tensor, shard_id: u64::MAX, place, packing, digest, is_reversed }.pack(&mut packer);
        let descriptor = quantization.descriptors.last().filter(|_| packing.id.is_some());
        let descriptor_bytes = descriptor.map_or(0, |descriptor| descriptor.to_string().len() as u64 + 24);
        packed.map_or(0, |()| packer.into_bytes().len() as u64 + descriptor_bytes)
    }

    fn max_data_bytes(&self, tensor: &Tensor) -> Result<u64> {
        stored_length(tensor)
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn check_head(&self, size: &FileSize) -> Result<()> {
        let head = size.head;
        if head <= MAX_METADATA_BYTES {
            return Ok(());
        }
        let what = format!("metadata and index take {head} bytes; weightstream reads at most {MAX_METADATA_BYTES}");
        let error = Error::new(ErrorKind::Limit, what);
        Err(error.advise(SMALLER_HEAD))
    }

    fn shard_path(&self, out: &Path, place: ShardPosition) -> Result<PathBuf> {
        numbered_path(out, "aero", place)
    }

    fn manifest(&self) -> Option<&dyn ManifestWriter> {
        Some(self)
    }
}

impl ManifestWriter for Aero {
    /// `model.aeroset.json`, unless `out` already ends with `.json`.
    fn manifest_path(&self, out: &Path) -> PathBuf {
        let is_document = out.extension().is_some_and(|extension| extension == "json");
        if is_document { out.to_owned() } else { sibling_path(out, SET) }
    }

    /// `model.index.aero`.
    fn catalog_path(&self, manifest: &Path) -> Option<PathBuf> {
        Some(sibling_path(manifest, INDEX))
    }

    fn write_manifest(&self, mut manifest: PartialFile, shards: &[Shard], naming: Naming) -> Result<Vec<FinishedFile>> {
        let mut parts = Vec::new();
        let mut layouts = Vec::new();
        let mut next_shard = 0;
        for shard in shards {
            let layout = Layout::new(shard.tensors, self.alignment)?;
            let numbers = next_shard..next_shard + layout.shards.len() as u64;
            let mut part = file_entry(shard.file)?;
            if let Some(part) = part.as_object_mut() {
                part.insert("shards".to_owned(), numbers.clone().collect());
            }
            parts.push(part);
            layouts.push((next_shard, layout));
            next_shard = numbers.end;
        }
        let catalog = PartialFile::create(&sibling_path(manifest.path(), INDEX))?;
        let mut catalog = self.write_catalog(catalog, shards, &layouts)?;
        if naming == Naming::Content {
            let name = content_name(manifest.path(), "aero", &catalog.sha256()?, INDEX)?;
            catalog = catalog.named(&name);
        }
        manifest.write_json(&json!({
            "format": { "name": "AEROSET", "version": [0, 1] },
            "model": self.about.model_of_set(),
            "parts": parts,
            "global_tidx": file_entry(&catalog)?,
        }))?;
        Ok(vec![catalog, manifest.finish()?])
    }
}

impl Aero {
    /// Writes the index file. `layouts` holds the number of the first shard of each file, and its layout.
    fn write_catalog(
        &self,
        mut file: PartialFile,
        shards: &[Shard],
        layouts: &[(u64, Layout)],
    ) -> Result<FinishedFile> {
        let tensors: Vec<&Tensor> = shards.iter().flat_map(|shard| shard.tensors).collect();
        let quantization = Quantization::of(tensors.iter().copied(), &self.about.metadata);
        let places: Vec<_> = layouts
            .iter()
            .flat_map(|(first, layout)| layout.places.iter().map(move |place| (first + place.shard as u64, *place)))
            .collect();
        let is_reversed = self.about.shapes_are_reversed();
        let listed = tensors.iter().zip(&places).zip(&quantization.tensors);
        let entries = listed.map(|((tensor, (shard_id, place)), packing)| Entry {
            tensor,
            shard_id: *shard_id,
            place: *place,
            packing,
            digest: None,
            is_reversed,
        });
        let chunks = vec![
            Chunk::json(self.about.json(ShardKind::Other, &quantization.descriptors)?),
            Chunk::manifest(contents::manifest(self.about.model.as_ref(), &Layout::default())),
            Chunk::index(index::pack(entries)?),
        ];
        file.write(&Head::new(chunks, self.alignment).bytes)?;
        file.finish()
    }
}

/// Returns the path of another file of the same model.
fn sibling_path(path: &Path, extension: &str) -> PathBuf {
    path.with_file_name(format!("{}.{extension}", stem(path, "aero").unwrap_or_default()))
}

/// Returns the entry of a file in the manifest.
fn file_entry(file: &dyn ShardFile) -> Result<Value> {
    Ok(json!({ "path": file.name(), "sha256": file.sha256()?.to_string(), "size_bytes": file.byte_length() }))
}
