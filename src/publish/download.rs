//! Downloads a published model into a folder, or updates a folder with an earlier revision: files and parts of files
//! that are there are not downloaded again.

use crate::codec::digest::Hasher;
use crate::error::{Error, ErrorKind, Result};
use crate::format::values::budget::Budget;
use crate::format::values::json;
use crate::index::Digest;
use crate::index::copies::{CopiedRange, Copies};
use crate::index::part_path;
use crate::index::publication::Publication;
use crate::loader::RemoteFile;
use crate::output::file::{PartialFile, publish as move_into_place};
use crate::progress::Progress;
use crate::retry::Policy;
use crate::source::{Buffer, Source};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use tokio::runtime::Builder;

/// The maximum size of an entry, which must fit into memory.
const MAX_ENTRY_BYTES: u64 = 256 << 20;

/// The number of bytes that are copied from a file at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The result of [`download`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Downloaded {
    /// The path of the entry.
    pub entry: PathBuf,
    /// The number of files beside the entry.
    pub file_count: usize,
    /// The number of these files that were complete before.
    pub existing_files: usize,
    /// The total length of these files in bytes.
    pub byte_length: u64,
    /// The number of bytes that were received.
    pub received_bytes: u64,
    /// The number of bytes that were copied from files of the previous revision.
    pub copied_bytes: u64,
}

/// Downloads the model of an entry that [`publish`](super::publish) has written into `folder`, which is created if it
/// does not exist. Every file is compared with its SHA-256. The entry is written last. Files of earlier revisions are
/// not deleted.
///
/// An interrupted call has kept complete files; the next one downloads the others.
///
/// # Errors
/// Those of the source; `INVALID_ARGUMENT` if the file is not such an entry; `CHECKSUM` if a file has another digest
/// than the entry states; `IO`, also if `progress` cancels.
pub fn download<S: Source>(entry: S, folder: &Path, progress: &dyn Progress) -> Result<Downloaded> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (file, text) = read_entry(entry).await?;
        let entry = file.source();
        let not_an_entry = || {
            let error = Error::new(ErrorKind::InvalidArgument, "this is not an entry that lists the files of a model");
            error.advise("`weightstream publish` writes such entries. Other models can be converted from their URL.")
        };
        let parse = || -> Result<_> {
            let name = part_path(&entry.file_name().unwrap_or_default()).map_err(|_| not_an_entry())?;
            if !text.trim_ascii_start().starts_with(b"{") {
                return Err(not_an_entry());
            }
            let mut budget = Budget::new(text.len() as u64);
            let publication = Publication::take_from(&mut json::parse_object(&text, 0, "the entry", &mut budget)?)?;
            let publication = publication.filter(|publication| publication.files().len() > 0);
            Ok((name, publication.ok_or_else(not_an_entry)?))
        };
        let (name, publication) = parse().map_err(|error| error.in_file(entry.name()))?;

        std::fs::create_dir_all(folder).map_err(|error| Error::from(error).in_file(&folder.display().to_string()))?;
        let mut files: Vec<_> = publication.files().collect();
        files.sort_unstable_by_key(|(path, ..)| *path);
        let byte_length =
            files.iter().map(|(_, length, _)| length).fold(0, |sum: u64, length| sum.saturating_add(*length));
        progress.expects(byte_length);
        let mut download = Download { folder, publication: &publication, progress, received_bytes: 0, copied_bytes: 0 };
        let mut existing_files = 0;
        for &(path, length, digest) in &files {
            if download.exists(path, length, digest)? {
                existing_files += 1;
                progress.advanced(length);
            } else {
                download.file(entry.part(path)?, path, length, digest).await?;
            }
        }
        let Download { received_bytes, copied_bytes, .. } = download;
        let mut file = PartialFile::create(&folder.join(&name))?;
        file.write(&text)?;
        move_into_place(vec![file.finish()?], false)?;
        let (entry, file_count, received_bytes) = (folder.join(name), files.len(), received_bytes + text.len() as u64);
        Ok(Downloaded { entry, file_count, existing_files, byte_length, received_bytes, copied_bytes })
    })
}

async fn read_entry<S: Source>(entry: S) -> Result<(RemoteFile<S>, Vec<u8>)> {
    let file = RemoteFile::open(entry, Policy::default(), None).await?;
    let mut text = Vec::new();
    read(&file, 0..MAX_ENTRY_BYTES + 1, &mut |bytes| {
        text.extend_from_slice(bytes);
        Ok(())
    })
    .await?;
    if text.len() as u64 > MAX_ENTRY_BYTES {
        let error = Error::new(ErrorKind::Limit, format!("the entry has more than {MAX_ENTRY_BYTES} bytes"));
        return Err(error.in_file(file.source().name()));
    }
    Ok((file, text))
}

struct Download<'a> {
    folder: &'a Path,
    publication: &'a Publication,
    progress: &'a dyn Progress,
    received_bytes: u64,
    copied_bytes: u64,
}

/// Where the next bytes of a file come from.
enum Segment {
    Source(Range<u64>),
    /// A file in the folder, the offset in it, and the number of bytes.
    Previous(PathBuf, u64, u64),
}

impl Download<'_> {
    /// Whether the folder has the file.
    fn exists(&self, path: &str, length: u64, digest: Digest) -> Result<bool> {
        let path = self.folder.join(path);
        if std::fs::metadata(&path).map_or(true, |metadata| metadata.len() != length) {
            return Ok(false);
        }
        let mut hasher = Hasher::new(digest);
        let read = read_file(&path, 0, length, &mut |bytes| {
            hasher.update(bytes);
            self.check_cancelled()
        });
        read.map_err(|error| error.in_file(&path.display().to_string()))?;
        Ok(hasher.finish() == digest)
    }

    /// Writes a file, from the previous revision as far as possible.
    async fn file<S: Source>(&mut self, source: S, path: &str, length: u64, digest: Digest) -> Result<()> {
        let target = self.folder.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = PartialFile::create(&target)?;
        let start = file.mark();
        let remote = RemoteFile::open(source, Policy::default(), None).await?;
        let segments = self.segments(path, length);
        let has_copies = segments.iter().any(|segment| matches!(segment, Segment::Previous(..)));
        let mut found = self.write(&mut file, &remote, segments, digest).await?;
        if found != digest && has_copies {
            // The previous file is damaged, or the entry is wrong about it.
            file.rewind(start)?;
            found = self.write(&mut file, &remote, vec![Segment::Source(0..length)], digest).await?;
        }
        if found != digest {
            let what = format!("its SHA-256 is {found}, and the entry states {digest}");
            return Err(Error::new(ErrorKind::Checksum, what).in_file(remote.source().name()));
        }
        self.progress.advanced(length);
        move_into_place(vec![file.finish()?], false)
    }

    /// Writes the segments, and returns the digest of the bytes.
    async fn write<S: Source>(
        &mut self,
        file: &mut PartialFile,
        remote: &RemoteFile<S>,
        segments: Vec<Segment>,
        digest: Digest,
    ) -> Result<Digest> {
        let mut hasher = Hasher::new(digest);
        let progress = self.progress;
        let mut take = |bytes: &[u8]| {
            check_cancelled(progress)?;
            hasher.update(bytes);
            file.write(bytes)
        };
        for segment in segments {
            match segment {
                Segment::Source(range) => {
                    self.received_bytes += read(remote, range, &mut take).await?;
                }
                Segment::Previous(path, start, length) => {
                    let copied = read_file(&path, start, length, &mut take);
                    copied.map_err(|error| error.in_file(&path.display().to_string()))?;
                    self.copied_bytes += length;
                }
            }
        }
        Ok(hasher.finish())
    }

    /// Divides a file into what the folder contains and what must be received.
    fn segments(&self, path: &str, length: u64) -> Vec<Segment> {
        let Copies { files, ranges } = self.publication.copies_of(path).cloned().unwrap_or_default();
        let previous = |path: &String| {
            let path = self.folder.join(path);
            let available = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            (path, available)
        };
        let files: Vec<_> = files.iter().map(previous).collect();
        let mut segments = Vec::new();
        let mut position = 0;
        for CopiedRange { range, file, start_in_file } in ranges {
            let byte_length = range.end - range.start;
            let Some((previous, available)) = files.get(file) else { continue };
            if start_in_file.saturating_add(byte_length) > *available || range.end > length {
                continue;
            }
            if position < range.start {
                segments.push(Segment::Source(position..range.start));
            }
            segments.push(Segment::Previous(previous.clone(), start_in_file, byte_length));
            position = range.end;
        }
        if position < length {
            segments.push(Segment::Source(position..length));
        }
        segments
    }

    fn check_cancelled(&self) -> Result<()> {
        check_cancelled(self.progress)
    }
}

fn check_cancelled(progress: &dyn Progress) -> Result<()> {
    match progress.is_cancelled() {
        true => Err(Error::new(ErrorKind::Io, "the download was interrupted").advise("Run it again.")),
        false => Ok(()),
    }
}

/// Passes the bytes of a range on as they arrive, and returns their number.
async fn read<S: Source>(
    file: &RemoteFile<S>,
    range: Range<u64>,
    take: &mut impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut reader = file.read(range);
    let mut count = 0;
    loop {
        let taken = reader.chunk(|buffer, length| {
            count += length;
            buffer.inspect(0..length, take)
        });
        match taken.await? {
            Some(taken) => taken?,
            None => return Ok(count),
        }
    }
}

/// Passes the bytes of a range of a local file on.
fn read_file(path: &Path, start: u64, length: u64, take: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut rest = file.take(length);
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = length;
    while left > 0 {
        let count = rest.read(&mut piece)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        take(piece.get(..count).unwrap_or_default())?;
        left -= count as u64;
    }
    Ok(())
}
