//! Writes one AERO file: the tensors in order, digested while they are written, then the head in the space that was
//! reserved for it.

use super::contents::{Contents, Digests, ShardDigests};
use super::head::Head;
use super::layout::{PAGE_BYTES, Place};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::Tensor;
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::target::{TensorFile, TensorSource};

/// A file that is being written.
pub(super) struct AeroFile<'a> {
    file: PartialFile,
    contents: Contents<'a>,
    alignment: u64,
    shard_starts: Vec<u64>,
    digests: Digests,
    /// The digests of the shard that contains the last tensor.
    hasher: ShardHasher,
}

impl<'a> AeroFile<'a> {
    pub(super) fn begin(mut file: PartialFile, contents: Contents<'a>, alignment: u64) -> Result<Self> {
        let Head { bytes, shard_starts } = Head::new(contents.chunks(&contents.unknown_digests())?, alignment);
        file.reserve_head(bytes.len() as u64)?;
        let (digests, hasher) = (Digests::default(), ShardHasher::default());
        Ok(AeroFile { file, contents, alignment, shard_starts, digests, hasher })
    }

    /// Pads the file up to the start of a tensor. Padding inside a shard counts as part of the shard.
    fn pad_to(&mut self, place: Place) -> Result<()> {
        if place.shard != self.digests.shards.len() {
            self.digests.shards.push(std::mem::take(&mut self.hasher).finish());
        }
        let layout_mismatch = || Error::new(ErrorKind::Internal, "a tensor is not at its planned position");
        let shard_start = self.shard_starts.get(place.shard).ok_or_else(layout_mismatch)?;
        let gap = (shard_start + place.offset).checked_sub(self.file.position()).ok_or_else(layout_mismatch)?;
        let zeros = vec![0; gap as usize]; // less than the alignment
        if place.offset > 0 {
            self.hasher.update(&zeros);
        }
        self.file.write(&zeros)
    }
}

impl TensorFile for AeroFile<'_> {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        let layout_mismatch = || Error::new(ErrorKind::Internal, "more tensors were written than planned");
        let place = *self.contents.layout.places.get(self.digests.tensors.len()).ok_or_else(layout_mismatch)?;
        self.pad_to(place)?;
        let start = self.file.position();
        let mut digest = self.contents.has_digests.then(blake3::Hasher::new);
        let AeroFile { file, hasher, .. } = self;
        source.read(tensor, &mut |bytes| {
            if let Some(digest) = &mut digest {
                digest.update(bytes);
            }
            hasher.update(bytes);
            file.write(bytes)
        })?;
        self.digests.tensors.push(digest.map_or([0; 32], |digest| digest.finalize().into()));
        let length = self.file.position() - start;
        if length != place.length {
            let what = format!("it has {length} bytes, but {} {:?} takes {}", tensor.dtype, tensor.shape, place.length);
            return Err(malformed(what));
        }
        Ok(())
    }

    fn write_tied(&mut self, _: &Tensor) -> Result<bool> {
        // The planned place is that of the last tensor.
        self.digests.tensors.extend(self.digests.tensors.last().copied());
        Ok(true)
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedFile> {
        if !self.digests.tensors.is_empty() {
            self.digests.shards.push(std::mem::take(&mut self.hasher).finish());
        }
        let head = Head::new(self.contents.chunks(&self.digests)?, self.alignment);
        self.file.write_head(&head.bytes)?;
        self.file.finish()
    }
}

/// Computes the digests of a shard and its pages incrementally.
#[derive(Default)]
struct ShardHasher {
    whole: blake3::Hasher,
    page: blake3::Hasher,
    pages: Vec<[u8; 32]>,
}

impl ShardHasher {
    fn update(&mut self, mut bytes: &[u8]) {
        self.whole.update(bytes);
        while !bytes.is_empty() {
            let page_remainder = (PAGE_BYTES - self.page.count()).min(bytes.len() as u64);
            let (page_bytes, rest) = bytes.split_at(page_remainder as usize);
            self.page.update(page_bytes);
            if self.page.count() == PAGE_BYTES {
                self.end_page();
            }
            bytes = rest;
        }
    }

    fn finish(mut self) -> ShardDigests {
        if self.page.count() > 0 {
            self.end_page();
        }
        ShardDigests { whole: self.whole.finalize().into(), pages: self.pages }
    }

    fn end_page(&mut self) {
        self.pages.push(self.page.finalize().into());
        self.page.reset();
    }
}
