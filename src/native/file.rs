//! An open file of a model: its bytes, and its index.

#[cfg(native)]
use super::disk::{self, DiskFile, Version};
#[cfg(maps)]
use super::map::Map;
use super::storage::Storage;
use crate::codec::cast::Conversion;
use crate::codec::pages::PageChecker;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, MediaType};
use crate::index::{Algorithm, Component, DataFile, Index, Parsed, Part, Tensor};
use crate::model::assembly::{self, Assembly, PartContent};
use crate::pipeline::{Job, Pipeline, Received, Task};
use crate::trust::{FilePlan, StatedDigests};
use crate::window::{Stop, Window};
#[cfg(native)]
use std::fs::{File, Metadata};
use std::ops::Range;
#[cfg(native)]
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of the first read of a file's head.
const HEAD_BYTES: u64 = 16 << 10;

/// The bytes of a file, and its name in error messages.
#[derive(Debug)]
pub(crate) struct FileBytes {
    pub(super) name: String,
    /// The path of a file on disk.
    #[cfg(native)]
    pub(super) path: Option<PathBuf>,
    /// The version of a file on disk when it was opened.
    #[cfg(native)]
    pub(super) version: Option<Version>,
    pub(super) storage: Storage,
    /// The length of the file and of the compressed bytes in it, if it was compressed as a whole.
    packed: Option<(u64, u64)>,
}

impl FileBytes {
    #[cfg(native)]
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (file, metadata) = open_regular(path)?;
        Ok(FileBytes::at(path, &metadata, Storage::OnDisk(DiskFile::new(path, file, &metadata))))
    }

    /// Maps the file at `path`.
    ///
    /// # Safety
    /// As for [`Map::of`].
    #[cfg(maps)]
    #[allow(unsafe_code, reason = "forwards the safety requirement of `Reader::open_mapped`")]
    pub(super) unsafe fn map(path: &Path) -> Result<Self> {
        let (file, metadata) = open_regular(path)?;
        // SAFETY: the caller guarantees the requirement of `Map::of`.
        let map = unsafe { Map::of(&file) }.map_err(|e| Error::from(e).in_file(&path.display().to_string()))?;
        Ok(FileBytes::at(path, &metadata, Storage::Mapped(map)))
    }

    #[cfg(native)]
    fn at(path: &Path, metadata: &Metadata, storage: Storage) -> Self {
        let (name, version) = (path.display().to_string(), Some(Version::of(metadata)));
        FileBytes { name, path: Some(path.to_owned()), version, storage, packed: None }
    }

    pub(super) fn in_memory(name: String, bytes: Arc<Vec<u8>>) -> Self {
        FileBytes {
            name,
            #[cfg(native)]
            path: None,
            #[cfg(native)]
            version: None,
            storage: Storage::Memory(bytes),
            packed: None,
        }
    }

    /// Joins files of raw bytes, which follow each other. They are named like the first one.
    pub(super) fn joined(files: Vec<FileBytes>) -> Self {
        let name = files.first().map(|file| file.name.clone()).unwrap_or_default();
        let storage = Storage::Joined(files.into_iter().map(Arc::new).collect());
        FileBytes { storage, ..FileBytes::in_memory(name, Arc::default()) }
    }

    /// The file name without its folder.
    pub(super) fn file_name(&self) -> Option<&str> {
        #[cfg(native)]
        if let Some(path) = &self.path {
            return path.file_name()?.to_str();
        }
        Some(&self.name)
    }

    pub(super) fn byte_length(&self) -> u64 {
        self.storage.byte_length()
    }

    /// The length of the file, also if it was compressed as a whole.
    pub(super) fn file_length(&self) -> u64 {
        self.packed.map_or_else(|| self.byte_length(), |(length, _)| length)
    }

    /// Reads the header and index. A file that is compressed as a whole is decoded into memory first: only old tools
    /// write such files, for small models. `part` is what a manifest states about the file.
    pub(super) fn unpack(self, part: Option<&Part>) -> Result<(FileBytes, Parsed)> {
        assembly::check_length(part, Some(self.byte_length())).map_err(|e| e.in_file(&self.name))?;
        let component = match self.parse(format::parse)? {
            Parsed::Packed(component) => component,
            parsed => return Ok((self, parsed)),
        };
        assembly::check_packed(part).map_err(|e| e.in_file(&self.name))?;
        let decoded = self.decode(&component, None).map_err(|e| e.in_file(&self.name))?;
        let decoded = decoded.buffer.unwrap_or_default();
        let packed = Some((self.byte_length(), component.range.end - component.range.start));
        let unpacked = FileBytes { storage: Storage::Memory(Arc::new(decoded)), packed, ..self };
        let parsed = unpacked.parse(format::parse)?;
        Ok((unpacked, parsed))
    }

    /// Decodes and verifies a component, also with the digests of the pages that contain it.
    fn decode(&self, component: &Component, pages: Option<ComponentPages>) -> Result<Received<Vec<u8>>> {
        let mut job = Job::new(Task::whole(component), None)?;
        let mut read = component.range.clone();
        if let Some(ComponentPages { checker, around }) = pages {
            job = job.with_pages(checker, &around, read);
            read = around;
        }
        self.storage.read_pieces(&read, &mut |piece| job.push(piece))?;
        job.finish()
    }

    /// Whether the file was compressed as a whole, and `storage` has the decoded bytes.
    #[cfg(native)]
    pub(super) fn is_unpacked(&self) -> bool {
        self.packed.is_some()
    }

    /// Runs a parser over the file. Reads only the bytes that the parser needs from disk.
    pub(super) fn parse<T>(&self, parser: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
        let length = self.byte_length();
        let window = self.storage.in_memory().map_or_else(|| Window::new(Some(length)), Window::whole);
        let mut window = window.unpacked_from(self.packed.map(|(_, length)| length));
        let (mut read_end, mut read_bytes) = (0, HEAD_BYTES / 2);
        loop {
            let missing = match parser(&window) {
                Ok(parsed) => return Ok(parsed),
                Err(Stop::Failed(error)) => return Err(error.in_file(&self.name)),
                Err(Stop::Need(range)) => window.missing(&range),
                Err(Stop::Deferred(_)) => {
                    let what = "the code of this format is not loaded";
                    return Err(Error::new(ErrorKind::Internal, what).in_file(&self.name));
                }
            };
            if missing.is_empty() || missing.end > length {
                let error = Error::new(ErrorKind::Internal, "a parser needs more than the whole file");
                return Err(error.at(missing).in_file(&self.name));
            }
            // A head of unknown length is reparsed after each read: doubling the bytes keeps the total work linear. A
            // parser that steps over tensors does not continue at the end of the last read, and does not need more.
            read_bytes = if missing.start == read_end { read_bytes.saturating_mul(2) } else { HEAD_BYTES };
            let range = missing.start..missing.end.max(missing.start.saturating_add(read_bytes)).min(length);
            read_end = range.end;
            let bytes = self.storage.read(&range).map_err(|e| e.in_file(&self.name))?;
            window.insert(range.start, &bytes);
        }
    }
}

#[cfg(native)]
fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    disk::open(path).map_err(|error| match error.kind {
        ErrorKind::NotFound => error.advise("Check the path. All files of a model must be in one folder."),
        ErrorKind::InvalidArgument => error.advise("Specify the model file or the manifest of its files."),
        _ => error,
    })
}

/// A file of tensors.
#[derive(Debug)]
pub(super) struct TensorFile {
    pub(super) bytes: Arc<FileBytes>,
    /// The index of the file. The reader takes its tensors.
    pub(super) index: Index,
    /// The checksums of byte ranges of the file, and the digest that the manifest states.
    pub(super) plan: FilePlan,
    /// Tensors in the file that are not those of the model.
    pub(super) shadowed: Vec<Tensor>,
}

impl TensorFile {
    /// Creates a file with an index that has been read, and checks the end of the file.
    pub(super) fn new(bytes: FileBytes, index: Index) -> Result<Self> {
        TensorFile::with_digests(bytes, index, StatedDigests::default())
    }

    fn with_digests(bytes: FileBytes, index: Index, stated: StatedDigests) -> Result<Self> {
        bytes.parse(format::check_tail)?;
        let length = Some(bytes.byte_length());
        let plan = FilePlan::new(bytes.parse(format::checksums)?, stated, length, length)?;
        Ok(TensorFile { bytes: Arc::new(bytes), index, plan, shadowed: Vec::new() })
    }

    /// Opens one of several files of a model: the part with this number.
    pub(super) fn part(bytes: FileBytes, part: &Part, number: usize, assembly: &Assembly) -> Result<Self> {
        let (bytes, parsed) = bytes.unpack(Some(part))?;
        let content = assembly.part(number, parsed).map_err(|e| e.in_file(&bytes.name))?;
        let PartContent { index, shadowed } = content;
        let stated = StatedDigests { manifest: part.digest, ..StatedDigests::default() };
        Ok(TensorFile { shadowed, ..TensorFile::with_digests(bytes, index, stated)? })
    }

    /// Opens a file of raw bytes, or several that follow each other, whose tensors are listed in another file.
    pub(super) fn data(mut files: Vec<FileBytes>, data: DataFile, listed_in: &Index) -> Result<Self> {
        for file in &files {
            file.parse(|window| format::check_headerless(window, MediaType::Other))?;
        }
        let bytes = match files.len() {
            1 => files.remove(0),
            _ => FileBytes::joined(files),
        };
        let index = data.into_index(listed_in, Some(bytes.byte_length())).map_err(|e| e.in_file(&bytes.name))?;
        Ok(TensorFile { bytes: Arc::new(bytes), index, plan: FilePlan::default(), shadowed: Vec::new() })
    }

    /// Decodes and verifies a component. Returns its bytes and the algorithm that they were verified with.
    pub(super) fn load(&self, component: &Component) -> Result<(Vec<u8>, Option<Algorithm>)> {
        let Received { buffer, verified, .. } = self.bytes.decode(component, self.pages(component)?)?;
        Ok((buffer.unwrap_or_default(), verified))
    }

    /// Verifies a component, and passes its decoded bytes to `emit`, converted if requested. Passes the stored bytes
    /// with their offsets to `tap`.
    pub(super) fn read(
        &self,
        component: &Component,
        conversion: Option<Conversion>,
        tap: &mut dyn FnMut(u64, &[u8]),
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        let (mut pipeline, read) = self.pipeline(component, conversion)?;
        let mut at = read.start;
        self.bytes.storage.read_pieces(&read, &mut |piece| {
            tap(at, piece);
            at += piece.len() as u64;
            pipeline.push(piece, emit)
        })?;
        Ok(pipeline.finish()?.verified)
    }

    /// Verifies a raw component where its bytes are. They stay in memory, unlike with [`TensorFile::read`].
    ///
    /// # Errors
    /// `CHECKSUM`; `FORMAT` for an invalid value; `INTERNAL` for a file on disk.
    pub(super) fn check_in_place(&self, component: &Component) -> Result<()> {
        let (mut pipeline, read) = self.pipeline(component, None)?;
        let on_disk = || Error::new(ErrorKind::Internal, "a file on disk has no bytes in memory");
        pipeline.push(self.bytes.storage.borrow(&read)?.ok_or_else(on_disk)?, &mut |_| Ok(()))?;
        pipeline.finish().map(drop)
    }

    /// The pipeline of a whole component, and the range of the file that it takes.
    fn pipeline(&self, component: &Component, conversion: Option<Conversion>) -> Result<(Pipeline, Range<u64>)> {
        let pipeline = Pipeline::new(&Task { conversion, ..Task::whole(component) })?;
        Ok(match self.pages(component)? {
            Some(ComponentPages { checker, around }) => {
                (pipeline.with_pages(checker, &around, component.range.clone()), around)
            }
            None => (pipeline, component.range.clone()),
        })
    }

    /// The pages that contain a component without a digest of its own.
    fn pages(&self, component: &Component) -> Result<Option<ComponentPages>> {
        let Some(table) = component.pages_of_whole() else { return Ok(None) };
        let pages = self.bytes.parse(|window| format::page_digests(window, table))?;
        let around = pages.around(&component.range);
        Ok(Some(ComponentPages { checker: PageChecker::new(Arc::new(pages)), around }))
    }
}

/// The pages that contain a component.
struct ComponentPages {
    checker: PageChecker,
    /// Their range in the file.
    around: Range<u64>,
}
