//! The stored bytes of a model's files, for calls that compare the digests of whole files with what they have read.

use super::Reader;
#[cfg(feature = "http")]
use super::remote::RemoteReader;
use crate::error::Result;
use crate::index::{Algorithm, Component, Tensor};
#[cfg(feature = "http")]
use crate::loader::{PieceReader, Tap, TensorDigests};
#[cfg(feature = "http")]
use crate::source::ModelSource;
use crate::trust::FilePlan;
use std::ops::Range;
use std::rc::Rc;

/// Receives the number of a file, and bytes of it with their offset.
pub(crate) type StoredTap = Rc<dyn Fn(usize, u64, &[u8])>;

/// The files of a model.
pub(crate) trait StoredFiles {
    /// The state of a reader that reads one component after the other.
    type Reading;

    /// Gaps of up to this many bytes before a component are read at once, so that digests get their bytes in order.
    const MAX_GAP_BYTES: u64;

    /// What is compared, by file.
    fn plans(&self) -> Result<Vec<FilePlan>>;

    /// Begins to read components, whose stored bytes are passed to `tap` as far as the plans need them.
    fn begin(&self, tap: StoredTap) -> Self::Reading;

    /// Reads a component like `read_pieces`.
    fn read_component(
        &self,
        reading: &mut Self::Reading,
        tensor: &Tensor,
        component: &Component,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>>;

    /// Reads stored bytes. `check` is called regularly; an error from it stops the read.
    fn read_stored(
        &self,
        shard: usize,
        range: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()>;

    /// Checks the end of a file, and returns the CRC-32 values of its footers.
    fn footers(&self, shard: usize, plan: &FilePlan) -> Result<Vec<u32>>;

    /// The path or the URL of a file.
    fn file_name(&self, shard: usize) -> String;
}

impl StoredFiles for Reader {
    type Reading = StoredTap;

    const MAX_GAP_BYTES: u64 = 1 << 20;

    fn plans(&self) -> Result<Vec<FilePlan>> {
        Ok(self.files.iter().map(|file| file.plan.clone()).collect())
    }

    fn begin(&self, tap: StoredTap) -> StoredTap {
        tap
    }

    fn read_component(
        &self,
        tap: &mut StoredTap,
        tensor: &Tensor,
        component: &Component,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        let shard = tensor.shard_of(component);
        Reader::read_component(self, tensor, component, None, &mut |at, bytes| tap(shard, at, bytes), emit)
    }

    fn read_stored(
        &self,
        shard: usize,
        range: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let Some(file) = self.files.get(shard) else { return Ok(()) };
        let mut at = range.start;
        let read = file.bytes.storage.read_pieces(&range, &mut |piece| {
            check()?;
            take(at, piece);
            at += piece.len() as u64;
            Ok(())
        });
        read.map_err(|e| e.in_file(&file.bytes.name))
    }

    fn footers(&self, shard: usize, _: &FilePlan) -> Result<Vec<u32>> {
        // The end was checked when the file was opened.
        let footers = self.files.get(shard).map(|file| file.footer_crc32s().map_err(|e| e.in_file(&file.bytes.name)));
        footers.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn file_name(&self, shard: usize) -> String {
        self.files.get(shard).map(|file| file.bytes.name.clone()).unwrap_or_default()
    }
}

#[cfg(feature = "http")]
impl<S: ModelSource> StoredFiles for RemoteReader<S> {
    type Reading = PieceReader<S>;

    /// The reader passes on the bytes of small gaps itself.
    const MAX_GAP_BYTES: u64 = 0;

    fn plans(&self) -> Result<Vec<FilePlan>> {
        self.block_on(self.loader().file_plans(TensorDigests::NotCompared), || Ok(()))
    }

    fn begin(&self, tap: StoredTap) -> PieceReader<S> {
        let taps = move |shard| {
            let tap = Rc::clone(&tap);
            let tap: Tap = Rc::new(move |at, bytes| tap(shard, at, bytes));
            Some(tap)
        };
        PieceReader::with_taps(Rc::clone(self.loader()), Rc::new(taps))
    }

    fn read_component(
        &self,
        reading: &mut PieceReader<S>,
        tensor: &Tensor,
        component: &Component,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        self.read_with(reading, tensor, &component.role, emit)
    }

    fn read_stored(
        &self,
        shard: usize,
        range: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        self.block_on(self.loader().read_stored(shard, range, take), check)
    }

    fn footers(&self, shard: usize, plan: &FilePlan) -> Result<Vec<u32>> {
        self.block_on(self.loader().footers(shard, plan), || Ok(()))
    }

    fn file_name(&self, shard: usize) -> String {
        self.files().nth(shard).map(|(name, _)| name.to_owned()).unwrap_or_default()
    }
}
