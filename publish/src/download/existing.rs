//! Finds the files that the folder has. Only a digest, a record or the bytes of the server confirm one: other models of
//! the same kind have the same length.

use super::assembly::Assembly;
use super::local_file::{open, pieces};
use super::plan::PlannedFile;
use super::receive::check_cancelled;
use super::version::{Version, VersionRecord};
use std::fs::File;
use std::io::{Read, Seek};
use weightstream::Result;
use weightstream::internals::codec::digest::Hasher;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::retry::RetryPolicy;
use weightstream::internals::source::{Buffer, ModelSource};

impl Assembly<'_> {
    /// The length of a file that the folder has; `None` if it is not there, or another one. A file without a stated
    /// digest is confirmed by the record of its version, or else compared with the bytes of the server, up to the first
    /// difference.
    ///
    /// # Errors
    /// Those of the source.
    pub(super) async fn find<S: ModelSource>(
        &mut self,
        planned: &PlannedFile,
        source: impl FnOnce() -> Result<S>,
    ) -> Result<Option<u64>> {
        let Some((file, length)) = open(&self.folder.path.join(&planned.path)) else { return Ok(None) };
        if planned.byte_length.is_some_and(|stated| stated != length) {
            return Ok(None);
        }
        let Some(digest) = planned.digest else { return self.find_at_source(planned, &file, length, source()?).await };
        if !self.has_digest(&file, length, digest)? {
            return Ok(None);
        }
        if planned.byte_length.is_none() {
            self.expect(std::iter::once(length));
        }
        self.progress.advanced(length);
        Ok(Some(length))
    }

    fn has_digest(&self, file: &File, length: u64, digest: Digest) -> Result<bool> {
        let mut hasher = Hasher::new(digest);
        for piece in pieces(file, 0, length) {
            check_cancelled(self.progress)?;
            let Ok(piece) = piece else { return Ok(false) };
            hasher.update(&piece);
        }
        Ok(hasher.finish() == digest)
    }

    async fn find_at_source<S: ModelSource>(
        &mut self,
        planned: &PlannedFile,
        file: &File,
        length: u64,
        source: S,
    ) -> Result<Option<u64>> {
        let remote = RemoteFile::open(source, RetryPolicy::default(), None).await?;
        let is_confirmed = Version::of(&remote).zip(file.metadata().ok()).is_some_and(|(version, metadata)| {
            VersionRecord::of(&self.folder.path.join(&planned.path)).confirms_file(&version, &metadata)
        });
        let before = self.expected_bytes;
        if planned.byte_length.is_none() {
            self.expect(std::iter::once(length));
        }
        let has_other_length = remote.byte_length().is_some_and(|stated| stated != length);
        let (is_same, compared) = match is_confirmed && !has_other_length {
            true => (true, 0),
            false if has_other_length => (false, 0),
            false => self.compare(file, length, &remote).await?,
        };
        self.received_bytes += remote.stats().bytes_received();
        if !is_same {
            self.expected_bytes = before.saturating_add(compared); // the file is received from its start
            self.progress.expects(self.expected_bytes);
            return Ok(None);
        }
        self.progress.advanced(length - compared);
        Ok(Some(length))
    }

    /// Compares a file with the bytes that the server sends, up to the first difference. Returns the number of bytes
    /// that were compared, too.
    async fn compare<S: ModelSource>(
        &self,
        mut file: &File,
        length: u64,
        remote: &RemoteFile<S>,
    ) -> Result<(bool, u64)> {
        file.rewind()?;
        let (mut compared, mut own) = (0, Vec::new());
        let mut reader = remote.read(0..length.saturating_add(1)); // one more, if the server does not state the length
        loop {
            let mut is_same = true;
            let mut compare = |bytes: &[u8]| {
                own.resize(bytes.len(), 0);
                is_same = is_same && file.read_exact(&mut own).is_ok() && own == bytes;
                Ok(())
            };
            let read = reader.chunk(|buffer, count| buffer.inspect(0..count, &mut compare).map(|()| count)).await?;
            check_cancelled(self.progress)?;
            let Some(count) = read.transpose()? else { return Ok((compared == length, compared)) };
            if !is_same {
                return Ok((false, compared));
            }
            compared += count;
            self.progress.advanced(count);
        }
    }
}
