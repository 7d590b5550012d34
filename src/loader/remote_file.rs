//! A file of any format: its bytes as they are stored, read with the retries, the resumption, the validators and the
//! cache that the files of a model have.

use crate::algorithm::Algorithm;
use crate::codec::digest::{self, Hasher};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
#[cfg(writes)]
use crate::identity::Identity;
use crate::loader::SignedDigests;
use crate::loader::transfer::SCRATCH_BYTES;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::range_reader::RangeReader;
use crate::loader::transfer::stats::Stats;
use crate::retry::RetryPolicy;
use crate::source::{Buffer, BufferOf, ModelSource};
use crate::trust::HOST;
use crate::window::Window;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// An open file of any format.
pub struct RemoteFile<S: ModelSource> {
    file: Rc<ModelFile<S>>,
    digest: Option<Digest>,
}

impl<S: ModelSource> RemoteFile<S> {
    /// Requests the first 64 KiB of the file, which tell whether it exists, and how long it is if the server says so.
    ///
    /// `digest` is that of the whole file, by default the one that its host states. Every [`FileReader`] over the whole
    /// file compares it.
    ///
    /// # Errors
    /// Those of the source.
    pub async fn open(source: S, retry: RetryPolicy, digest: Option<Digest>) -> Result<Self> {
        RemoteFile::open_signed(source, retry, digest, None).await
    }

    /// Like [`RemoteFile::open`]. The file must be the one that was signed, if there is a `signature`: it is read and
    /// compared as a whole before anything of it is returned.
    ///
    /// # Errors
    /// Those of [`RemoteFile::open`]; `SIGNATURE` if it is another file, or was not signed.
    pub async fn open_signed(
        source: S,
        retry: RetryPolicy,
        digest: Option<Digest>,
        signature: Option<&SignedDigests>,
    ) -> Result<Self> {
        let opened = RemoteFile::new(source, retry, digest, signature).await?;
        opened.file.keep_one_version();
        let first_byte = |window: &Window| match window.file_length() {
            Some(0) => Ok(()),
            _ => window.get(0..1).map(drop),
        };
        match opened.file.parse_with(first_byte).await {
            Ok(()) => Ok(opened),
            Err(error) => opened.check_empty(error).map(|()| opened),
        }
    }

    /// Like [`RemoteFile::open_signed`], but requests the bytes of `first` and does not wait for them: resolves once
    /// the head of the response is checked. The first read that begins with these bytes reads the same response. Later
    /// reads are not compared with it, so this is for files that are read once.
    ///
    /// # Errors
    /// Those of [`RemoteFile::open_signed`].
    pub async fn open_head(
        source: S,
        retry: RetryPolicy,
        digest: Option<Digest>,
        signature: Option<&SignedDigests>,
        first: Range<u64>,
    ) -> Result<Self> {
        let opened = RemoteFile::new(source, retry, digest, signature).await?;
        let file = &opened.file;
        let head = file.start(first.clone(), Rc::new(Cell::new(first.end))).begin().await;
        match head.map_err(|e| e.in_file(file.source.name())) {
            Ok(body) => file.park(body),
            Err(error) => opened.check_empty(error)?,
        }
        Ok(opened)
    }

    async fn new(
        source: S,
        retry: RetryPolicy,
        digest: Option<Digest>,
        signature: Option<&SignedDigests>,
    ) -> Result<Self> {
        let source = source.located().await?;
        let file = Rc::new(ModelFile::new(source, Rc::default(), retry).with_signature(signature)?);
        let digest = digest.or_else(|| file.signed_digest()).or_else(|| file.source.stated_digest());
        file.expect_whole(digest);
        Ok(RemoteFile { file, digest })
    }

    /// Accepts the error that states an empty file. A 416 that does not say so is an error.
    fn check_empty(&self, error: Error) -> Result<()> {
        if error.kind != ErrorKind::Truncated || error.context.status != Some(416) || error.context.range != Some(0..0)
        {
            return Err(error);
        }
        if let Some(signed) = &self.file.signed {
            signed.check_empty().map_err(|e| self.file.reject_if_corrupt(e))?;
        }
        self.file.set_length(0);
        Ok(())
    }

    /// The source that the file is read from.
    pub fn source(&self) -> &S {
        &self.file.source
    }

    /// The length of the file in bytes; `None` if the server does not state it, until the end of the file was read.
    pub fn byte_length(&self) -> Option<u64> {
        self.file.length()
    }

    /// The version of the file, as far as its server states it.
    #[cfg(writes)]
    pub fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    /// Counters over the life of the file.
    pub fn stats(&self) -> &Rc<Stats> {
        &self.file.stats
    }

    /// The first bytes of the file, up to `count`, which should be those that were requested to open it.
    ///
    /// # Errors
    /// Those of the source.
    pub async fn head(&self, count: u64) -> Result<Vec<u8>> {
        let start = |window: &Window| {
            let count = window.file_length().map_or(count, |length| count.min(length));
            window.get(0..count).map(<[u8]>::to_vec)
        };
        self.file.parse_with(start).await
    }

    /// Reads the bytes of `range`, or up to the end of the file if that comes first. Requests nothing yet.
    pub fn read(&self, range: Range<u64>) -> FileReader<S> {
        let end = self.byte_length().map_or(range.end, |length| range.end.min(length));
        let start = range.start.min(end);
        let is_whole = start == 0 && end == self.byte_length().unwrap_or(u64::MAX);
        let digest = self.digest.filter(|_| is_whole);
        FileReader {
            reading: self.file.start(start..end, Rc::new(Cell::new(end))),
            file: Rc::clone(&self.file),
            end,
            hasher: digest.map(|digest| (Hasher::new(digest), digest)),
            verified: None,
            held_back: None,
        }
    }
}

impl<S: ModelSource> std::fmt::Debug for RemoteFile<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteFile").field("name", &self.file.source.name()).finish_non_exhaustive()
    }
}

/// Reads a range of a [`RemoteFile`] from its start to its end.
pub struct FileReader<S: ModelSource> {
    file: Rc<ModelFile<S>>,
    reading: RangeReader<S>,
    end: u64,
    /// The digest of what was read, and the one that the file should have. `None` once they were compared.
    hasher: Option<(Hasher, Digest)>,
    verified: Option<Algorithm>,
    held_back: Option<(BufferOf<S>, u64)>,
}

impl<S: ModelSource> FileReader<S> {
    /// The offset in the file of the next byte.
    pub fn position(&self) -> u64 {
        self.reading.position
    }

    /// The end of the range; `u64::MAX` if it is the end of a file of unknown length.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The algorithm of the digest of the whole file, once it has been verified.
    pub fn verified(&self) -> Option<Algorithm> {
        self.verified
    }

    /// Fills `at` of `into` with the next bytes and returns how many there are: fewer than fit only at the end of the
    /// range. Calls `arrived` with the ranges of the file as they arrive.
    ///
    /// # Errors
    /// Those of the source; `CHECKSUM` if the last bytes complete a file with another digest.
    pub async fn fill(
        &mut self,
        into: &mut BufferOf<S>,
        at: Range<u64>,
        arrived: &mut dyn FnMut(Range<u64>),
    ) -> Result<u64> {
        let count = (at.end - at.start).min(self.end.saturating_sub(self.position()));
        if count > 0 {
            let filled = self.reading.fill(into, at.start..at.start + count, arrived).await;
            filled.map_err(|e| self.file.reject_if_corrupt(e))?;
            self.update(into, at.start..at.start + count)?;
        }
        if count == 0 || self.position() >= self.end {
            self.compare()?;
        }
        Ok(count)
    }

    /// Calls `take` with a buffer and the number of bytes that have arrived in its start, as soon as there are some;
    /// returns `None` at the end of the range. The next call overwrites the buffer.
    ///
    /// # Errors
    /// As for [`FileReader::fill`]: a file with another digest fails before its last bytes are passed on.
    pub async fn chunk<T>(&mut self, take: impl FnOnce(&BufferOf<S>, u64) -> T) -> Result<Option<T>> {
        let current = match self.held_back.take() {
            Some(held_back) => Some(held_back),
            None => self.next_chunk().await?,
        };
        let Some((buffer, length)) = current else { return Ok(None) };
        // If the length of the file is unknown, only the next read shows whether this chunk is the last one.
        if self.hasher.is_some() && self.end == u64::MAX {
            self.held_back = self.next_chunk().await?;
        }
        let taken = take(&buffer, length);
        self.reading.provide_buffer(|| Some(buffer));
        Ok(Some(taken))
    }

    async fn next_chunk(&mut self) -> Result<Option<(BufferOf<S>, u64)>> {
        let limit = SCRATCH_BYTES.min(self.end.saturating_sub(self.position()));
        let chunk = if limit == 0 { Ok(None) } else { self.reading.chunk(limit).await };
        let length = chunk.map_err(|e| self.file.reject_if_corrupt(e))?.map_or(0, |chunk| chunk.length);
        let Some(buffer) = self.reading.take_chunk().filter(|_| length > 0) else {
            self.compare()?;
            return Ok(None);
        };
        self.update(&buffer, 0..length)?;
        if self.position() >= self.end {
            self.compare()?;
        }
        Ok(Some((buffer, length)))
    }

    fn update(&mut self, buffer: &BufferOf<S>, range: Range<u64>) -> Result<()> {
        let Some((hasher, _)) = &mut self.hasher else { return Ok(()) };
        buffer.inspect(range, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })
    }

    /// Compares the digest, after the last byte.
    fn compare(&mut self) -> Result<()> {
        let Some((hasher, stated)) = self.hasher.take() else { return Ok(()) };
        let range = 0..self.position();
        let wrong = |mut error: Error| {
            let by = if self.file.source.stated_digest() == Some(stated) { HOST } else { "`digest`" };
            error.what = format!("{}, says {by}", error.what);
            self.file.reject_if_corrupt(error.at(range))
        };
        self.verified = Some(digest::compare(hasher.finish(), stated).map_err(wrong)?);
        self.file.confirm_whole(&stated);
        Ok(())
    }
}

impl<S: ModelSource> std::fmt::Debug for FileReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").field("position", &self.position()).field("end", &self.end).finish_non_exhaustive()
    }
}
