//! Writes the files of a model: from files of the previous revision as far as possible, the rest from the source.

use super::folder::Folder;
use super::{check_cancelled, receive};
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
use weightstream::internals::source::ModelSource;
use weightstream::{Error, ErrorKind, Result};

/// The number of bytes that are read from a file at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// Writes files to a folder.
pub(super) struct Assembly<'a> {
    folder: &'a Folder<'a>,
    publication: &'a Publication,
    progress: &'a dyn Progress,
    pub(super) received_bytes: u64,
    pub(super) copied_bytes: u64,
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
        Assembly { folder, publication, progress, received_bytes: 0, copied_bytes: 0 }
    }

    /// Whether the folder has the file.
    pub(super) fn exists(&self, path: &str, length: u64, digest: Digest) -> Result<bool> {
        let Some(file) = open(&self.folder.path.join(path)).filter(|(_, found)| *found == length).map(|(file, _)| file)
        else {
            return Ok(false);
        };
        let mut hasher = Hasher::new(digest);
        for piece in pieces(&file, 0, length) {
            check_cancelled(self.progress)?;
            let Ok(piece) = piece else { return Ok(false) };
            hasher.update(&piece);
        }
        Ok(hasher.finish() == digest)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// Those of the source; `CHECKSUM` for another digest; `IO`.
    pub(super) async fn write<S: ModelSource>(
        &mut self,
        source: S,
        path: &str,
        length: u64,
        digest: Digest,
    ) -> Result<()> {
        let mut output = Output { file: self.folder.create(path)?, reported_bytes: 0 };
        let start = output.file.mark();
        let remote = RemoteFile::open(source, RetryPolicy::default(), None).await?;
        let copies = self.publication.copies_of(path);
        let previous: Vec<_> =
            copies.iter().flat_map(|copies| &copies.files).map(|path| open(&self.folder.path.join(path))).collect();
        let segments = self.segments(path, length, &previous);
        let (has_copies, copied_bytes) = (segments.iter().any(|segment| segment.previous.is_some()), self.copied_bytes);
        let mut found = self.write_segments(&mut output, &remote, &segments, &previous, digest).await?;
        if found != Some(digest) && has_copies {
            // The previous file is damaged, or the entry is wrong about it.
            output.file.rewind(start)?;
            self.copied_bytes = copied_bytes;
            let whole = [Segment { range: 0..length, previous: None }];
            found = self.write_segments(&mut output, &remote, &whole, &[], digest).await?;
        }
        self.received_bytes += remote.stats().bytes_received();
        match found.filter(|found| *found != digest) {
            Some(found) => {
                let what = format!("its SHA-256 is {found}, and the entry states {digest}");
                Err(Error::new(ErrorKind::Checksum, what).in_file(remote.source().name()))
            }
            None => self.folder.publish(path, output.file.finish()?),
        }
    }

    /// Writes the segments, and returns the digest of the bytes; `None` if a file of the previous revision cannot be
    /// read.
    async fn write_segments<S: ModelSource>(
        &mut self,
        output: &mut Output,
        remote: &RemoteFile<S>,
        segments: &[Segment],
        previous: &[Option<(File, u64)>],
        digest: Digest,
    ) -> Result<Option<Digest>> {
        let mut hasher = Hasher::new(digest);
        let progress = self.progress;
        let mut take = |bytes: &[u8]| {
            hasher.update(bytes);
            output.file.write(bytes)?;
            let position = output.file.position();
            progress.advanced(position.saturating_sub(output.reported_bytes));
            output.reported_bytes = output.reported_bytes.max(position);
            Ok(())
        };
        for Segment { range, previous: copied } in segments {
            let Some((index, start)) = copied else {
                receive(remote, range.clone(), &mut take).await?;
                continue;
            };
            let Some((file, _)) = previous.get(*index).and_then(Option::as_ref) else { return Ok(None) };
            for piece in pieces(file, *start, range.end - range.start) {
                check_cancelled(progress)?;
                let Ok(piece) = piece else { return Ok(None) };
                take(&piece)?;
            }
            self.copied_bytes += range.end - range.start;
        }
        Ok(Some(hasher.finish()))
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
