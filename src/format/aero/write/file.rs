//! One AERO file: tensors one after another, digested as they go by, then the head in the room that was left for it.

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
    /// Of the shard that the last tensor is in.
    hasher: ShardHasher,
}

impl<'a> AeroFile<'a> {
    pub(super) fn begin(mut file: PartialFile, contents: Contents<'a>, alignment: u64) -> Result<Self> {
        let Head { bytes, shard_starts } = Head::new(contents.chunks(&contents.unknown_digests())?, alignment);
        file.leave_head(bytes.len() as u64)?;
        let (digests, hasher) = (Digests::default(), ShardHasher::default());
        Ok(AeroFile { file, contents, alignment, shard_starts, digests, hasher })
    }

    /// Goes to where a tensor begins. What is skipped in a shard is a part of it.
    fn go_to(&mut self, place: Place) -> Result<()> {
        if place.shard != self.digests.shards.len() {
            self.digests.shards.push(std::mem::take(&mut self.hasher).finish());
        }
        let unplanned = || Error::new(ErrorKind::Internal, "a tensor does not lie where it was planned");
        let shard_start = self.shard_starts.get(place.shard).ok_or_else(unplanned)?;
        let gap = (shard_start + place.offset).checked_sub(self.file.position()).ok_or_else(unplanned)?;
        let zeros = vec![0; gap as usize]; // less than the alignment
        if place.offset > 0 {
            self.hasher.update(&zeros);
        }
        self.file.write(&zeros)
    }
}

impl TensorFile for AeroFile<'_> {
    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        let unplanned = || Error::new(ErrorKind::Internal, "more tensors are written than were planned");
        let place = *self.contents.layout.places.get(self.digests.tensors.len()).ok_or_else(unplanned)?;
        self.go_to(place)?;
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

    fn finish(mut self: Box<Self>) -> Result<FinishedFile> {
        if !self.digests.tensors.is_empty() {
            self.digests.shards.push(std::mem::take(&mut self.hasher).finish());
        }
        let head = Head::new(self.contents.chunks(&self.digests)?, self.alignment);
        self.file.write_head(&head.bytes)?;
        self.file.finish()
    }
}

/// Digests a shard and its pages as their bytes go by.
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
            let left = (PAGE_BYTES - self.page.count()).min(bytes.len() as u64);
            let (taken, rest) = bytes.split_at(left as usize);
            self.page.update(taken);
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
