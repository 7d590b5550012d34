//! Reads components piece by piece, for callers that forward the bytes instead of holding whole tensors.

use crate::codec::ComponentDecoder;
use crate::codec::pages::PageChecker;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::{RangeReader, cut};
use crate::loader::{BufferOf, Loader};
use crate::source::{Buffer, Source};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Reads components piece by piece. If they are read in index order, one response body per file delivers all of them.
/// At most one piece is held in memory at a time.
pub struct PieceReader<S: Source> {
    loader: Rc<Loader<S>>,
    /// The file of the last component, and the reader at the position after that component.
    rest: Option<(usize, RangeReader<S>)>,
}

impl<S: Source> PieceReader<S> {
    /// Creates a reader. It reads nothing yet.
    pub fn new(loader: Rc<Loader<S>>) -> Self {
        PieceReader { loader, rest: None }
    }

    /// Calls `emit` with the decoded bytes of a component, in order. Returns the algorithm that the component was
    /// verified with, if the format has a digest for it. `tensor` is an item of [`Loader::load_index`].
    ///
    /// # Errors
    /// `NOT_FOUND` for a role that the tensor does not have; errors of the source, of the decoders and of `emit`.
    /// `emit` may have received pieces before an error is found.
    pub async fn read(
        &mut self,
        tensor: &Tensor,
        role: &str,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<&'static str>> {
        let component = tensor.components.iter().find(|component| *component.role == *role);
        let missing = || Error::new(ErrorKind::NotFound, format!("it has no component \"{role}\""));
        let component = component.ok_or_else(|| missing().in_tensor(&tensor.name))?;
        let file = self.loader.shards.get(tensor.shard).map(|shard| Rc::clone(&shard.file));
        let file = file.ok_or_else(|| Error::new(ErrorKind::Internal, "a tensor is in a file that does not exist"))?;
        let read = self.read_component(&file, tensor.shard, component, emit).await;
        read.map_err(|e| e.in_tensor(&tensor.name).in_file(file.source.name()))
    }

    async fn read_component(
        &mut self,
        file: &Rc<ModelFile<S>>,
        shard: usize,
        component: &Component,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<&'static str>> {
        let mut pages = None;
        if let Some(table) = component.checking_pages(true) {
            file.read_pages(table).await?;
            pages = file.known_pages(table).map(PageChecker::new);
        }
        let read_range = pages.as_ref().map_or(component.range.clone(), |pages| pages.pages().around(&component.range));
        let mut reader = ComponentDecoder::of(component);
        if !read_range.is_empty() {
            let mut reading = self.reader_at(file, shard, read_range.start).await?;
            while reading.position < read_range.end {
                read_chunk(&mut reading, read_range.end, &mut |at, bytes| {
                    if let Some(pages) = &mut pages {
                        pages.update(at, bytes)?;
                    }
                    match overlap(at, bytes, &component.range) {
                        [] => Ok(()),
                        own => reader.push(own, emit),
                    }
                })
                .await?;
            }
            self.rest = Some((shard, reading));
        }
        Ok(reader.finish(true)?.or(pages.map(|_| "blake3")))
    }

    /// A reader at position `start`. Reuses the last reader if it is only a short distance before `start`.
    async fn reader_at(&mut self, file: &Rc<ModelFile<S>>, shard: usize, start: u64) -> Result<RangeReader<S>> {
        let near = start.saturating_sub(self.loader.options.coalesce_gap_bytes)..=start;
        let mut reading = match self.rest.take() {
            Some((of, rest)) if of == shard && near.contains(&rest.position) => rest,
            rest => {
                if let Some((of, rest)) = rest
                    && let Some(shard) = self.loader.shards.get(of)
                {
                    shard.file.finish(rest);
                }
                let open = self.loader.open_shard(shard).await?;
                let components = open.tensors.iter().flat_map(|tensor| &tensor.components);
                let end = components.map(|component| component.range.end).max().unwrap_or(start);
                let end = end.max(start);
                file.start(start..end, Rc::new(Cell::new(end)))
            }
        };
        while reading.position < start {
            read_chunk(&mut reading, start, &mut |_, _| Ok(())).await?;
        }
        Ok(reading)
    }
}

impl<S: Source> std::fmt::Debug for PieceReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PieceReader").field("loader", &self.loader).finish_non_exhaustive()
    }
}

/// Reads the next chunk, up to `end`, and calls `inspect` with its bytes and their offset in the file.
async fn read_chunk<S: Source>(
    reading: &mut RangeReader<S>,
    end: u64,
    inspect: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let start = reading.position;
    let chunk = reading.chunk(end - start).await?.ok_or_else(|| cut(start, start, end))?;
    let mut at = start;
    BufferOf::<S>::inspect(chunk.buffer, 0..chunk.length, &mut |bytes| {
        inspect(at, bytes)?;
        at += bytes.len() as u64;
        Ok(())
    })
}

/// The part of `bytes` that is in `range`; `bytes` start at offset `at`.
fn overlap<'a>(at: u64, bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let end = at + bytes.len() as u64;
    let (first, last) = (range.start.clamp(at, end), range.end.clamp(at, end));
    bytes.get((first - at) as usize..(last - at) as usize).unwrap_or_default()
}
