//! Writes the files of a model: from files of the previous revision as far as possible, the rest from the source.

use super::folder::{Folder, Start};
use super::local_file::{open, pieces};
use super::plan::PlannedFile;
use super::receive::{check_cancelled, receive};
use super::version::{Version, VersionRecord};
use std::fs::File;
use std::ops::Range;
use weightstream::internals::codec::digest::Hasher;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::output::PartialFile;
use weightstream::internals::progress::Progress;
use weightstream::internals::publication::Publication;
use weightstream::internals::retry::RetryPolicy;
use weightstream::internals::source::ModelSource;
use weightstream::{Error, ErrorKind, Result};

/// The length from which the version of a file without a stated digest is recorded. Shorter ones are received again.
const MIN_RECORD_BYTES: u64 = 1 << 20;

/// Writes files to a folder.
pub(super) struct Assembly<'a> {
    pub(super) folder: &'a Folder<'a>,
    publication: &'a Publication,
    pub(super) progress: &'a dyn Progress,
    /// The length of all files, as far as it is known, with what was compared in vain.
    pub(super) expected_bytes: u64,
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

    /// Writes a file, and returns its length.
    ///
    /// # Errors
    /// Those of the source; `CHECKSUM` for another digest; `IO`.
    pub(super) async fn write<S: ModelSource>(&mut self, source: S, planned: &PlannedFile) -> Result<u64> {
        let PlannedFile { path, digest, .. } = planned;
        let remote = RemoteFile::open(source, RetryPolicy::default(), None).await?;
        check_length(planned, remote.byte_length(), &remote)?;
        let (mut output, version) = self.begin(planned, &remote)?;
        let start = output.file.mark();
        if let (None, Some(length)) = (planned.byte_length, remote.byte_length()) {
            self.expect(std::iter::once(length));
        }
        let length = length_to_receive(planned, remote.byte_length());
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
        let written = output.file.position();
        let confirmed = found.map_err(|error| (error.kind == ErrorKind::Checksum, error)).and_then(|found| {
            let confirmed = check_digest(found, planned, &remote);
            confirmed.and_then(|()| check_length(planned, Some(written), &remote)).map_err(|error| (true, error))
        });
        if let Err((is_useless, error)) = confirmed {
            if is_useless {
                output.file.discard_if_dropped(); // another call must not continue it
            }
            return Err(error);
        }
        self.folder.publish(path, output.file.finish()?)?;
        if let Some(version) = version {
            self.record(planned, &version)?;
        }
        Ok(written)
    }

    /// Records the version of a complete file.
    fn record(&self, planned: &PlannedFile, version: &Version) -> Result<()> {
        let path = self.folder.path.join(&planned.path);
        let record = VersionRecord::of(&path);
        match open(&path).and_then(|(file, _)| file.metadata().ok()) {
            Some(metadata) => record.write_of_file(version, &metadata),
            None => record.remove(),
        }
    }

    /// Begins a file, or continues what an interrupted call has left of it: any with a stated digest, and a large one
    /// whose version the server states. This version is returned, too.
    fn begin<S: ModelSource>(
        &self,
        planned: &PlannedFile,
        remote: &RemoteFile<S>,
    ) -> Result<(Output, Option<Version>)> {
        let is_large = remote.byte_length().is_some_and(|length| length >= MIN_RECORD_BYTES);
        let version = Version::of(remote).filter(|_| is_large && planned.digest.is_none());
        let start = if planned.digest.is_some() || version.is_some() { Start::Continued } else { Start::Empty };
        let file = self.folder.create(&planned.path, start)?;
        let mut output = Output { file, reported_bytes: 0 };
        let record = VersionRecord::of(&self.folder.path.join(&planned.path));
        match &version {
            Some(version) if record.confirms_part(version) => {}
            Some(version) => {
                output.file.rewind(output.file.mark())?; // what is left is of another version
                record.write_of_part(version)?;
            }
            None => record.remove()?, // it would not describe what is written now
        }
        Ok((output, version))
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

/// The number of bytes to request: one more than the manifest states, if no digest would show that the file is longer,
/// and its server does not state the length.
fn length_to_receive(planned: &PlannedFile, at_server: Option<u64>) -> u64 {
    match (planned.byte_length, planned.digest) {
        (Some(stated), None) if at_server.is_none() => stated.saturating_add(1),
        (Some(stated), _) => stated,
        (None, _) => at_server.unwrap_or(u64::MAX),
    }
}

/// Checks a length against the stated one.
fn check_length<S: ModelSource>(planned: &PlannedFile, length: Option<u64>, remote: &RemoteFile<S>) -> Result<()> {
    let (Some(stated), Some(length)) = (planned.byte_length, length) else { return Ok(()) };
    let (kind, has) = match length {
        _ if length < stated => (ErrorKind::Truncated, format!("only {length}")),
        _ if length > stated => (ErrorKind::Format, "more".to_owned()),
        _ => return Ok(()),
    };
    let error = Error::new(kind, format!("the manifest states {stated} bytes, but the file has {has}"));
    let advice = "The manifest and this file do not belong together: its owner must upload all files again.";
    Err(error.advise(advice).in_file(remote.source().name()))
}

/// Checks the digest of what was written.
fn check_digest<S: ModelSource>(found: Option<Digest>, planned: &PlannedFile, remote: &RemoteFile<S>) -> Result<()> {
    match (found, planned.digest) {
        (Some(found), Some(stated)) if found != stated => {
            let what = format!("its digest is {found}, and {stated} is stated");
            Err(Error::new(ErrorKind::Checksum, what).in_file(remote.source().name()))
        }
        _ => Ok(()),
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
