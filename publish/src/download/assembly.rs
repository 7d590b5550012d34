//! Writes the files of a model: from files of the previous revision as far as possible, the rest from the source.

use super::folder::Folder;
use super::plan::PlannedFile;
use super::receive::{check_cancelled, receive};
use super::version::VersionRecord;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use weightstream::internals::codec::digest::Hasher;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::output::PartialFile;
use weightstream::internals::progress::Progress;
use weightstream::internals::publication::Publication;
use weightstream::internals::regular_file::{self, Opened};
use weightstream::internals::retry::RetryPolicy;
use weightstream::internals::source::{Identity, ModelSource};
use weightstream::{Error, ErrorKind, Result};

/// The number of bytes that are read from a file at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// The length from which the version of a file without a stated digest is recorded. Shorter ones are received again.
const MIN_RECORD_BYTES: u64 = 1 << 20;

/// Writes files to a folder.
pub(super) struct Assembly<'a> {
    folder: &'a Folder<'a>,
    publication: &'a Publication,
    progress: &'a dyn Progress,
    expected_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) copied_bytes: u64,
    pub(super) continued_bytes: u64,
}

/// A range of a file.
struct Segment {
    range: Range<u64>,
    /// The file of the previous revision that has the bytes, and their offset in it.
    previous: Option<(usize, u64)>,
}

/// A file that is being written.
struct Output {
    file: PartialFile,
    /// The number of bytes that were reported as progress.
    reported_bytes: u64,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(folder: &'a Folder<'a>, publication: &'a Publication, progress: &'a dyn Progress) -> Self {
        let (expected_bytes, received_bytes, copied_bytes, continued_bytes) = Default::default();
        Assembly { folder, publication, progress, expected_bytes, received_bytes, copied_bytes, continued_bytes }
    }

    /// Reports the lengths of files as they become known.
    pub(super) fn expect(&mut self, lengths: impl Iterator<Item = u64>) {
        self.expected_bytes = lengths.fold(self.expected_bytes, u64::saturating_add);
        self.progress.expects(self.expected_bytes);
    }

    /// The length of a file that the folder has; `None` if it is not there, or another one. Without a stated digest,
    /// the file has the length that its `source` states.
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
        match planned.digest {
            Some(digest) if !self.has_digest(&file, length, digest)? => return Ok(None),
            Some(_) => {}
            None => {
                let remote = RemoteFile::open(source()?, RetryPolicy::default(), None).await?;
                if remote.byte_length() != Some(length) {
                    return Ok(None);
                }
            }
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

    /// Writes a file, and returns its length.
    ///
    /// # Errors
    /// Those of the source; `CHECKSUM` for another digest; `IO`.
    pub(super) async fn write<S: ModelSource>(&mut self, source: S, planned: &PlannedFile) -> Result<u64> {
        let PlannedFile { path, digest, .. } = planned;
        let remote = RemoteFile::open(source, RetryPolicy::default(), None).await?;
        let (mut output, record) = self.begin(planned, &remote)?;
        let start = output.file.mark();
        if let (None, Some(length)) = (planned.byte_length, remote.byte_length()) {
            self.expect(std::iter::once(length));
        }
        let length = planned.byte_length.or(remote.byte_length()).unwrap_or(u64::MAX);
        let copies = self.publication.copies_of(path);
        let previous: Vec<_> =
            copies.iter().flat_map(|copies| &copies.files).map(|path| open(&self.folder.path.join(path))).collect();
        let segments = self.segments(path, length, &previous);
        if output.file.left_bytes() > length {
            output.file.rewind(output.file.mark())?; // it is of another file
        }
        let is_mixed = output.file.left_bytes() > 0 || segments.iter().any(|segment| segment.previous.is_some());
        let (copied_bytes, continued_bytes) = (self.copied_bytes, self.continued_bytes);
        let mut found = self.write_segments(&mut output, &remote, &segments, &previous, *digest).await;
        if is_mixed && found.as_ref().is_ok_and(|found| found != digest) {
            // What was left or the previous file is damaged, or the entry is wrong about it.
            output.file.rewind(start)?;
            (self.copied_bytes, self.continued_bytes) = (copied_bytes, continued_bytes);
            let whole = [Segment { range: 0..length, previous: None }];
            found = self.write_segments(&mut output, &remote, &whole, &[], *digest).await;
        }
        self.received_bytes += remote.stats().bytes_received();
        let found = found.and_then(|found| match (found, digest) {
            (Some(found), Some(digest)) if found != *digest => {
                let what = format!("its digest is {found}, and {digest} is stated");
                Err(Error::new(ErrorKind::Checksum, what).in_file(remote.source().name()))
            }
            _ => Ok(()),
        });
        if let Err(error) = found {
            if error.kind == ErrorKind::Checksum {
                output.file.discard_if_dropped();
            }
            return Err(error);
        }
        let written = output.file.position();
        self.folder.publish(path, output.file.finish()?)?;
        record.iter().for_each(VersionRecord::remove);
        Ok(written)
    }

    /// Begins a file, or continues what an interrupted call has left of it: any with a stated digest, and a large one
    /// whose version the server states. The record of the version is returned, too.
    fn begin<S: ModelSource>(
        &self,
        planned: &PlannedFile,
        remote: &RemoteFile<S>,
    ) -> Result<(Output, Option<VersionRecord>)> {
        let is_large = remote.byte_length().is_some_and(|length| length >= MIN_RECORD_BYTES);
        let has_version = |version: &Identity| version.etag.is_some() || version.last_modified.is_some();
        let version = remote.identity().filter(|version| is_large && planned.digest.is_none() && has_version(version));
        let file = self.folder.create(&planned.path, planned.digest.is_some() || version.is_some())?;
        let mut output = Output { file, reported_bytes: 0 };
        let Some(version) = version else { return Ok((output, None)) };
        let record = VersionRecord::of(&self.folder.path.join(&planned.path));
        if !record.confirms(&version) {
            output.file.rewind(output.file.mark())?; // what is left is of another version
            record.write(&version)?;
        }
        Ok((output, Some(record)))
    }

    /// Writes the segments after what an interrupted call has left, and returns the digest of the bytes; `None` if a
    /// file of the previous revision cannot be read, and if no digest is stated.
    async fn write_segments<S: ModelSource>(
        &mut self,
        output: &mut Output,
        remote: &RemoteFile<S>,
        segments: &[Segment],
        previous: &[Option<(File, u64)>],
        digest: Option<Digest>,
    ) -> Result<Option<Digest>> {
        let (mut hasher, progress) = (digest.map(Hasher::new), self.progress);
        output.file.take_left(&mut |bytes| {
            hasher.iter_mut().for_each(|hasher| hasher.update(bytes));
            progress.advanced(bytes.len() as u64);
            check_cancelled(progress)
        })?;
        let continued = output.file.position();
        (self.continued_bytes, output.reported_bytes) =
            (self.continued_bytes + continued, output.reported_bytes.max(continued));
        let mut take = |bytes: &[u8]| {
            hasher.iter_mut().for_each(|hasher| hasher.update(bytes));
            output.file.write(bytes)?;
            let position = output.file.position();
            progress.advanced(position.saturating_sub(output.reported_bytes));
            output.reported_bytes = output.reported_bytes.max(position);
            Ok(())
        };
        for segment in segments {
            let Some(Segment { range, previous: copied }) = segment.after(continued) else { continue };
            let Some((index, start)) = copied else {
                receive(remote, range, &mut take).await?;
                continue;
            };
            let Some((file, _)) = previous.get(index).and_then(Option::as_ref) else { return Ok(None) };
            for piece in pieces(file, start, range.end - range.start) {
                check_cancelled(progress)?;
                let Ok(piece) = piece else { return Ok(None) };
                take(&piece)?;
            }
            self.copied_bytes += range.end - range.start;
        }
        Ok(hasher.map(Hasher::finish))
    }

    /// Divides a file into what files of the previous revision contain, and what must be received.
    fn segments(&self, path: &str, length: u64, previous: &[Option<(File, u64)>]) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut position = 0;
        for copied in self.publication.copies_of(path).iter().flat_map(|copies| &copies.ranges) {
            let (range, start) = (copied.range.clone(), copied.start_in_file);
            let available = previous.get(copied.file).and_then(Option::as_ref).map_or(0, |(_, length)| *length);
            if start.saturating_add(range.end - range.start) > available || range.end > length {
                continue;
            }
            if position < range.start {
                segments.push(Segment { range: position..range.start, previous: None });
            }
            position = range.end;
            segments.push(Segment { range, previous: Some((copied.file, start)) });
        }
        if position < length {
            segments.push(Segment { range: position..length, previous: None });
        }
        segments
    }
}

impl Segment {
    /// The rest of the segment from an offset in the file; `None` if nothing is left.
    fn after(&self, offset: u64) -> Option<Segment> {
        let start = self.range.start.max(offset);
        let previous = self.previous.map(|(file, from)| (file, from + (start - self.range.start)));
        (start < self.range.end).then_some(Segment { range: start..self.range.end, previous })
    }
}

/// Opens a regular file. Returns its length, too; `None` if it cannot be opened.
fn open(path: &Path) -> Option<(File, u64)> {
    match regular_file::open(path) {
        Ok(Opened::File(file, metadata)) => Some((file, metadata.len())),
        Ok(Opened::Other(_)) | Err(_) => None,
    }
}

/// Reads a range of a file in pieces.
fn pieces(mut file: &File, start: u64, length: u64) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let mut rest = start..start.saturating_add(length);
    std::iter::from_fn(move || {
        let count = (rest.end - rest.start).min(PIECE_BYTES);
        if count == 0 {
            return None;
        }
        let mut piece = vec![0; count as usize];
        let read = file.seek(SeekFrom::Start(rest.start)).and_then(|_| file.read_exact(&mut piece));
        rest.start += count;
        Some(read.map(|()| piece))
    })
}
