//! Reads components piece by piece, for callers that forward the bytes instead of holding whole tensors.

use crate::error::{Error, ErrorKind, Result};
use crate::index::{Algorithm, Component, Tensor};
use crate::loader::Loader;
use crate::loader::component_reader::{ComponentReader, PreparedComponent, WantedComponent};
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::{RangeReader, Tap};
use crate::source::ModelSource;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Reads components piece by piece. If they are read in index order, one response body per file delivers all of them.
/// At most one piece is held in memory at a time.
pub struct PieceReader<S: ModelSource> {
    loader: Rc<Loader<S>>,
    rest: Rest<S>,
}

impl<S: ModelSource> PieceReader<S> {
    /// Creates a reader. It reads nothing yet.
    pub fn new(loader: Rc<Loader<S>>) -> Self {
        PieceReader { loader, rest: Rest::default() }
    }

    /// Creates a reader that passes the stored bytes to taps.
    #[cfg(all(http_client, writes))]
    pub(crate) fn with_taps(loader: Rc<Loader<S>>, taps: FileTaps) -> Self {
        PieceReader { loader, rest: Rest::default().with_taps(taps) }
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
    ) -> Result<Option<Algorithm>> {
        let component = tensor.components.iter().find(|component| *component.role == *role);
        let missing = || Error::new(ErrorKind::NotFound, format!("it has no component \"{role}\""));
        let component = component.ok_or_else(|| missing().in_tensor(&tensor.name))?;
        let file = self.loader.file_with(tensor, component)?;
        let mut reader = self.open(&file, tensor, component).await?;
        let verified = reader.emit_all(emit).await?;
        if !component.range.is_empty() {
            self.rest.keep(tensor.shard_of(component), reader.into_reading());
        }
        Ok(verified)
    }

    async fn open(
        &mut self,
        file: &Rc<ModelFile<S>>,
        tensor: &Tensor,
        component: &Component,
    ) -> Result<ComponentReader<S>> {
        let PieceReader { loader, rest } = self;
        let prepared = PreparedComponent::new(loader, file, WantedComponent { tensor, component, range: None }).await?;
        let stored = prepared.stored();
        if stored.is_empty() {
            return Ok(prepared.start(file.start(stored.clone(), Rc::new(Cell::new(stored.end)))));
        }
        let shard = tensor.shard_of(component);
        let open = loader.read_shard(shard).await?;
        let last_end = || open.index.tensors.data_end();
        let reading = rest.reader(loader, file, shard, stored, &last_end).await;
        Ok(prepared.start(reading.map_err(|e| file.reject_if_corrupt(e.in_tensor(&tensor.name)))?))
    }
}

impl<S: ModelSource> std::fmt::Debug for PieceReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PieceReader").field("loader", &self.loader).finish_non_exhaustive()
    }
}

/// The end of the stored bytes that one request delivers: of `first`, and of the tensors in `following` that are only a
/// short distance behind each other in the same file.
pub(crate) fn run_end<'a>(first: &Tensor, following: impl Iterator<Item = &'a Tensor>, gap_bytes: u64) -> u64 {
    let end_of = |tensor: &Tensor| tensor.components.iter().map(|component| component.range.end).max();
    let mut end = end_of(first).unwrap_or(0);
    for tensor in following {
        let follows = (end..=end.saturating_add(gap_bytes)).contains(&tensor.first_byte());
        match end_of(tensor).filter(|_| follows && tensor.shard == first.shard) {
            Some(next) => end = next,
            None => break,
        }
    }
    end
}

/// Returns the tap for the stored bytes of a file, if a digest covers them.
pub(crate) type FileTaps = Rc<dyn Fn(usize) -> Option<Tap>>;

/// The rest of the last response body. The next component may follow in it.
pub(crate) struct Rest<S: ModelSource> {
    /// The number of its file, and the reader.
    reading: Option<(usize, RangeReader<S>)>,
    has_limited_requests: bool,
    taps: Option<FileTaps>,
}

impl<S: ModelSource> Default for Rest<S> {
    fn default() -> Self {
        Rest { reading: None, has_limited_requests: false, taps: None }
    }
}

impl<S: ModelSource> Rest<S> {
    /// For a caller that may be slower than the network.
    pub(crate) fn with_limited_requests() -> Self {
        Rest { has_limited_requests: true, ..Rest::default() }
    }

    /// Passes all stored bytes to taps.
    pub(crate) fn with_taps(self, taps: FileTaps) -> Self {
        Rest { taps: Some(taps), ..self }
    }

    /// Keeps the reader for the component that follows.
    pub(crate) fn keep(&mut self, shard: usize, reading: RangeReader<S>) {
        self.reading = Some((shard, reading));
    }

    /// Returns a reader of `range`: the kept one if it is at most a short distance before the start and does not end
    /// before the range, else a new one, up to `last_end` if that is behind the range. `last_end` is called only for a
    /// new reader, because it may look at all tensors of the model.
    pub(crate) async fn reader(
        &mut self,
        loader: &Loader<S>,
        file: &Rc<ModelFile<S>>,
        shard: usize,
        range: Range<u64>,
        last_end: &dyn Fn() -> u64,
    ) -> Result<RangeReader<S>> {
        let (has_limited_requests, tap) = (self.has_limited_requests, self.taps.as_ref().and_then(|taps| taps(shard)));
        let start_new = || {
            let end = range.end.max(last_end());
            let reading = file.start(range.start..end, Rc::new(Cell::new(end))).with_tap(tap.clone());
            if has_limited_requests { reading.with_limited_requests() } else { reading }
        };
        let near = range.start.saturating_sub(loader.options.coalesce_gap_bytes)..=range.start;
        let mut reading = match self.reading.take() {
            Some((of, rest)) if of == shard && near.contains(&rest.position) && range.end <= rest.end() => rest,
            rest => {
                if let Some((of, rest)) = rest
                    && let Some(shard) = loader.shards.get(of)
                {
                    shard.file.finish(rest);
                }
                start_new()
            }
        };
        while reading.position < range.start {
            let limit = range.start - reading.position;
            if reading.chunk(limit).await?.is_none() {
                return Ok(start_new());
            }
        }
        Ok(reading)
    }
}
