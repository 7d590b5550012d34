//! Output files: written under temporary names, and renamed when all of them are complete.

use super::destination::{self, Existing};
use super::partial::Guard;
use crate::codec::crc32;
use crate::codec::digest::Hasher;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// The size of the write buffer, for small writes (heads, padding, blocks).
const BUFFER_BYTES: usize = 128 << 10;

/// A file being written under a temporary name. Dropping it removes the file.
#[derive(Debug)]
pub struct PartialFile {
    guard: Guard,
    file: BufWriter<File>,
    /// The offset of the next byte.
    position: u64,
    /// The length of the head, which is written last and not included in `crc32`.
    head_length: u64,
    crc32: crc32fast::Hasher,
    /// The number of bytes at the start that an interrupted call has left, and that were not taken yet.
    left_bytes: u64,
    /// Whether dropping the file leaves it once a byte is written.
    is_kept_if_begun: bool,
    /// Whether the file is read and deleted by this process, so that it need not survive a crash of the system.
    is_transient: bool,
}

/// A position in a [`PartialFile`] for [`PartialFile::rewind`].
#[derive(Debug)]
pub struct Mark {
    position: u64,
    crc32: crc32fast::Hasher,
}

/// A complete file that has not been renamed yet. Dropping it removes the file.
#[derive(Debug)]
pub struct FinishedFile {
    guard: Guard,
    /// Keeps the file open to hold its lock, if needed.
    lock: Option<File>,
    byte_length: u64,
    /// See [`ShardFile::crc32`].
    crc32: u32,
}

/// What a manifest states about a file. The file itself may be on another machine.
pub trait ShardFile: std::fmt::Debug + Sync {
    /// The file name, without folders.
    fn name(&self) -> String;

    /// The length in bytes.
    fn byte_length(&self) -> u64;

    /// The CRC-32/IEEE of the bytes before the footer. That of a file with a footer that contains a CRC of these bytes
    /// would be a constant, which does not distinguish files of the same length.
    fn crc32(&self) -> u32;

    /// The SHA-256 of the whole file.
    ///
    /// # Errors
    /// `IO` if the file cannot be read; `FORMAT` if a record states no SHA-256.
    fn sha256(&self) -> Result<Digest>;
}

impl PartialFile {
    /// Creates a file whose final path is `path`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if something other than a regular file has this path; `IO`, also if another process is
    /// writing the same output.
    pub fn create(path: &Path) -> Result<Self> {
        let (guard, file) = Guard::create(path)?;
        Ok(PartialFile::of(guard, file, 0))
    }

    /// Continues the file that an interrupted call has left, or creates one. [`PartialFile::take_left`] or
    /// [`PartialFile::rewind`] must come before the first byte. Once a byte is written, dropping the file leaves it.
    ///
    /// # Errors
    /// Those of [`PartialFile::create`].
    pub fn continued(path: &Path) -> Result<Self> {
        let (guard, file) = match Guard::of_kept(path)? {
            Some(kept) => kept,
            None => Guard::create(path)?,
        };
        let left_bytes = file.metadata().map_err(|e| guard.with_path(e))?.len();
        Ok(PartialFile { is_kept_if_begun: true, ..PartialFile::of(guard, file, left_bytes) })
    }

    fn of(guard: Guard, file: File, left_bytes: u64) -> Self {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let crc32 = crc32fast::Hasher::new();
        let (position, head_length, is_kept_if_begun, is_transient) = Default::default();
        PartialFile { guard, file, position, head_length, crc32, left_bytes, is_kept_if_begun, is_transient }
    }

    /// The number of bytes that an interrupted call has left, and that were not taken yet.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Calls `take` with the bytes that an interrupted call has left, and continues after them.
    ///
    /// # Errors
    /// `IO`; those of `take`.
    pub fn take_left(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut piece = vec![0; BUFFER_BYTES];
        while self.left_bytes > 0 {
            let wanted = usize::try_from(self.left_bytes).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
            let count = self.file.get_mut().read(piece.get_mut(..wanted).unwrap_or_default());
            let count = count.map_err(|e| self.with_path(e))?;
            let Some(bytes @ [_, ..]) = piece.get(..count) else { break }; // it has become shorter
            take(bytes)?;
            self.crc32.update(bytes);
            self.position += count as u64;
            self.left_bytes = self.left_bytes.saturating_sub(count as u64);
        }
        self.left_bytes = 0;
        Ok(())
    }

    /// Removes the file when it is dropped: what was written is of no use to a later call.
    pub fn discard_if_dropped(&mut self) {
        (self.is_kept_if_begun, self.guard.is_kept) = (false, false);
    }

    /// Creates a file that this process reads and deletes.
    ///
    /// # Errors
    /// Those of [`PartialFile::create`].
    pub fn create_transient(path: &Path) -> Result<Self> {
        Ok(PartialFile { is_transient: true, ..PartialFile::create(path)? })
    }

    /// Removes the permission to execute the file, which one that it replaces may have.
    pub fn not_executable(mut self) -> Self {
        self.guard.remove_execution();
        self
    }

    /// Reserves space at the start for [`PartialFile::write_head`].
    ///
    /// # Errors
    /// `IO`.
    pub fn reserve_head(&mut self, length: u64) -> Result<()> {
        self.seek(length)?;
        self.head_length = length;
        Ok(())
    }

    /// The final path of the file.
    pub fn path(&self) -> &Path {
        &self.guard.path
    }

    /// The offset of the next byte.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `IO`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.with_path(e))?;
        self.crc32.update(bytes);
        self.position += bytes.len() as u64;
        self.guard.is_kept |= self.is_kept_if_begun;
        Ok(())
    }

    /// Writes a JSON document, indented, with a newline at its end.
    ///
    /// # Errors
    /// `IO`.
    pub fn write_json(&mut self, document: &Value) -> Result<()> {
        let text = serde_json::to_vec_pretty(document);
        let text = text.map_err(|e| Error::new(ErrorKind::Internal, format!("a document cannot be written: {e}")))?;
        self.write(&text)?;
        self.write(b"\n")
    }

    /// Pads with zeros to a multiple of `alignment`.
    ///
    /// # Errors
    /// `IO`.
    pub fn align(&mut self, alignment: u64) -> Result<()> {
        let missing = self.position.next_multiple_of(alignment) - self.position;
        (0..missing).try_for_each(|_| self.write(&[0]))
    }

    /// The current position, for [`PartialFile::rewind`].
    pub fn mark(&self) -> Mark {
        Mark { position: self.position, crc32: self.crc32.clone() }
    }

    /// Discards everything that was written since the mark.
    ///
    /// # Errors
    /// `IO`.
    pub fn rewind(&mut self, mark: Mark) -> Result<()> {
        self.seek(mark.position)?;
        self.file.get_ref().set_len(mark.position).map_err(|e| self.with_path(e))?;
        (self.crc32, self.left_bytes) = (mark.crc32, 0);
        Ok(())
    }

    /// Writes the head into the space of [`PartialFile::reserve_head`], and seeks back to the end.
    ///
    /// # Errors
    /// `IO`; `INTERNAL` if the head does not have the reserved length.
    pub fn write_head(&mut self, head: &[u8]) -> Result<()> {
        if head.len() as u64 != self.head_length {
            return Err(Error::new(ErrorKind::Internal, "the head does not have its planned length"));
        }
        let end = self.position;
        self.seek(0)?;
        self.file.write_all(head).map_err(|e| self.with_path(e))?;
        self.seek(end)?;
        let crc32 = crc32::combine(crc32::checksum(head), self.crc32.clone().finalize(), end - self.head_length);
        self.crc32 = crc32fast::Hasher::new_with_initial(crc32);
        self.head_length = 0;
        Ok(())
    }

    /// Replaces zeros at the offset `at`, which were written since the head, by `bytes`, and seeks back to the end.
    ///
    /// # Errors
    /// `IO`; `INTERNAL` for an offset beyond the end.
    #[cfg(feature = "npz")]
    pub(crate) fn replace_zeros(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = self.position;
        let Some(after) = end.checked_sub(at.saturating_add(bytes.len() as u64)) else {
            return Err(Error::new(ErrorKind::Internal, "bytes beyond the end of a file are replaced"));
        };
        self.seek(at)?;
        self.file.write_all(bytes).map_err(|e| self.with_path(e))?;
        self.seek(end)?;
        // CRCs of equal length differ by the CRC of the difference without its initial value.
        let difference = crc32::checksum(bytes) ^ crc32::checksum(&vec![0; bytes.len()]);
        let crc32 = self.crc32.clone().finalize() ^ crc32::combine(difference, 0, after);
        self.crc32 = crc32fast::Hasher::new_with_initial(crc32);
        Ok(())
    }

    /// The CRC-32/IEEE of the file so far; before the head is written, of the bytes after the head.
    pub fn crc32(&self) -> u32 {
        self.crc32.clone().finalize()
    }

    /// Flushes the file to disk, unless it is transient.
    ///
    /// # Errors
    /// `IO`.
    pub fn finish(self) -> Result<FinishedFile> {
        let crc32 = self.crc32();
        let PartialFile { guard, file, position, is_transient, .. } = self;
        let file = file.into_inner().map_err(|e| guard.with_path(e.into_error()))?;
        if !is_transient {
            guard.finish(&file)?;
        }
        Ok(FinishedFile { guard, lock: Some(file), byte_length: position, crc32 })
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.file.seek(SeekFrom::Start(position)).map_err(|e| self.with_path(e))?;
        self.position = position;
        Ok(())
    }

    fn with_path(&self, error: io::Error) -> Error {
        self.guard.with_path(error)
    }
}

impl FinishedFile {
    /// Closes the file and releases its lock: a process may have fewer open files than a model has shards.
    pub fn unlocked(self) -> Self {
        FinishedFile { lock: None, ..self }
    }

    /// The final path of the file.
    pub fn path(&self) -> &Path {
        &self.guard.path
    }

    /// The path of the temporary file, from which the content can be read.
    pub fn temporary_path(&self) -> &Path {
        &self.guard.partial
    }

    /// The file with the CRC-32 of the bytes before its footer.
    #[cfg(feature = "apr")]
    pub fn with_crc32(self, crc32: u32) -> Self {
        FinishedFile { crc32, ..self }
    }

    /// The file with another final name, in the same folder.
    pub fn named(mut self, name: &str) -> Self {
        self.guard.path.set_file_name(name);
        self
    }
}

impl ShardFile for FinishedFile {
    fn name(&self) -> String {
        self.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn byte_length(&self) -> u64 {
        self.byte_length
    }

    fn crc32(&self) -> u32 {
        self.crc32
    }

    /// Reads the file again, because its head was written last.
    fn sha256(&self) -> Result<Digest> {
        self.guard.check_in_place()?;
        let read = || -> io::Result<Digest> {
            let mut file = File::open(&self.guard.partial)?;
            let mut hasher = Hasher::new(Digest::Sha256([0; 32]));
            let mut piece = vec![0; BUFFER_BYTES];
            loop {
                let read = file.read(&mut piece)?;
                match piece.get(..read) {
                    None | Some([]) => return Ok(hasher.finish()),
                    Some(bytes) => hasher.update(bytes),
                }
            }
        };
        read().map_err(|e| self.guard.with_path(e))
    }
}

/// Writes a small file.
///
/// # Errors
/// Those of [`PartialFile::create`] and [`publish`].
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> Result<()> {
    let mut file = PartialFile::create(path)?;
    file.write(bytes)?;
    publish(vec![file.finish()?], existing)
}

/// Renames all files to their final paths, and flushes the folder to disk. The last file is the manifest, or a shard
/// that readers need if there is none. An existing one is removed first, and the new one is renamed after all other
/// files. Otherwise new shards with an old manifest, or a manifest without its shards, could be read as a model.
///
/// # Errors
/// `INVALID_ARGUMENT` if an output exists by now and must be kept, or is not a regular file; `IO`.
pub fn publish(files: Vec<FinishedFile>, existing: Existing) -> Result<()> {
    for file in &files {
        destination::check_free(file.path(), existing)?; // again, because the destination may have changed
    }
    let count = files.len();
    let Some(last) = files.last() else { return Ok(()) };
    if count > 1 && existing == Existing::Replace && destination::replaced(last.path())?.is_some() {
        fs::remove_file(last.path()).map_err(|e| last.guard.with_path(e))?;
        destination::sync_folder(last.path())?;
    }
    for (number, FinishedFile { mut guard, lock, .. }) in files.into_iter().enumerate() {
        let is_last = number + 1 == count;
        if is_last && count > 1 {
            destination::sync_folder(&guard.path)?;
        }
        guard.check_in_place()?;
        destination::publish(&guard.partial, &guard.path, existing)?;
        guard.published = true;
        drop(lock);
        if is_last {
            destination::sync_folder(&guard.path)?;
        }
    }
    Ok(())
}
