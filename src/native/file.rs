//! One file of a model that is open: its bytes, mapped or in memory, and what they say.

use super::component;
#[cfg(not(target_arch = "wasm32"))]
use super::disk;
#[cfg(not(target_arch = "wasm32"))]
use super::map::Map;
use crate::codec::pages::PageChecker;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::{self, StretchChecksum};
use crate::index::{Component, Digest, Index, Parsed, Part};
use crate::loader::check_length;
use crate::split::Split;
use crate::window::{Stop, Window};
use std::ops::Range;
#[cfg(not(target_arch = "wasm32"))]
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of a file under the name that errors call it.
#[derive(Debug)]
pub(super) struct FileBytes {
    pub(super) name: String,
    /// Where it lies, for files that were opened.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) path: Option<PathBuf>,
    storage: Storage,
    /// How long the file is that decodes to this, if it is compressed as a whole.
    packed_length: Option<u64>,
}

#[derive(Debug)]
enum Storage {
    #[cfg(not(target_arch = "wasm32"))]
    Mapped(Map),
    Memory(Vec<u8>),
}

impl FileBytes {
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let (file, _) = disk::open(path).map_err(|error| match error.kind {
            ErrorKind::NotFound => {
                error.advise("Check the path; a model in several files needs all of them in one folder.")
            }
            ErrorKind::InvalidArgument => error.advise("Name a file: the model, or the manifest of its files."),
            _ => error,
        })?;
        let map = Map::of(&file).map_err(|error| Error::from(error).in_file(&name))?;
        Ok(FileBytes { name, path: Some(path.to_owned()), storage: Storage::Mapped(map), packed_length: None })
    }

    pub(super) fn in_memory(name: String, bytes: Vec<u8>) -> Self {
        FileBytes {
            name,
            #[cfg(not(target_arch = "wasm32"))]
            path: None,
            storage: Storage::Memory(bytes),
            packed_length: None,
        }
    }

    /// Its name in its folder.
    pub(super) fn file_name(&self) -> Option<&str> {
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(path) = &self.path {
            return path.file_name()?.to_str();
        }
        Some(&self.name)
    }

    pub(super) fn all(&self) -> &[u8] {
        match &self.storage {
            #[cfg(not(target_arch = "wasm32"))]
            Storage::Mapped(map) => map.bytes(),
            Storage::Memory(bytes) => bytes,
        }
    }

    pub(super) fn byte_length(&self) -> u64 {
        self.all().len() as u64
    }

    pub(super) fn slice(&self, range: &Range<u64>) -> Result<&[u8]> {
        let inside = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let slice = inside.and_then(|(start, end)| self.all().get(start..end));
        slice.ok_or_else(|| Error::new(ErrorKind::Internal, "bytes outside the file were asked for").at(range.clone()))
    }

    /// Reads the header and index. A file that is compressed as a whole is decoded into memory first: only small
    /// files of old tools are.
    pub(super) fn unpack(self) -> Result<(FileBytes, Parsed)> {
        let component = match self.parse(format::parse)? {
            Parsed::Packed(component) => component,
            parsed => return Ok((self, parsed)),
        };
        let decoded = self.slice(&component.range).and_then(|stored| component::decode(stored, &component));
        let (decoded, _) = decoded.map_err(|e| e.in_file(&self.name))?;
        let packed_length = Some(component.range.end - component.range.start);
        let unpacked = FileBytes { storage: Storage::Memory(decoded), packed_length, ..self };
        match unpacked.parse(format::parse)? {
            Parsed::Packed(_) => Err(malformed("a compressed file holds another one").in_file(&unpacked.name)),
            parsed => Ok((unpacked, parsed)),
        }
    }

    /// What a parser makes of the file.
    pub(super) fn parse<T>(&self, parser: impl Fn(&Window) -> Result<T, Stop>) -> Result<T> {
        match parser(&Window::whole(self.all()).unpacked_from(self.packed_length)) {
            Ok(parsed) => Ok(parsed),
            Err(Stop::Failed(error)) => Err(error.in_file(&self.name)),
            Err(Stop::Need(range)) => {
                let error = Error::new(ErrorKind::Internal, "a parser wanted more than the whole file");
                Err(error.at(range).in_file(&self.name))
            }
        }
    }

    /// Has the system read these bytes in the background.
    pub(super) fn will_need(&self, range: &Range<u64>) {
        match &self.storage {
            #[cfg(not(target_arch = "wasm32"))]
            Storage::Mapped(map) => map.will_need(range),
            Storage::Memory(_) => _ = range,
        }
    }

    /// Gives back the memory that these bytes take.
    pub(super) fn release(&self, range: &Range<u64>) {
        match &self.storage {
            #[cfg(not(target_arch = "wasm32"))]
            Storage::Mapped(map) => map.release(range),
            Storage::Memory(_) => _ = range,
        }
    }
}

/// A file of tensors.
#[derive(Debug)]
pub(super) struct TensorFile {
    pub(super) bytes: FileBytes,
    /// What its head says; the tensors themselves are the reader's.
    pub(super) index: Index,
    /// What stretches of it can be checked by.
    pub(super) checksums: Vec<StretchChecksum>,
    /// What the manifest says of the whole of it.
    pub(super) stated_digest: Option<Digest>,
    /// Which part of a model it says that it is.
    pub(super) split: Option<Split>,
}

impl TensorFile {
    /// Takes a file that `index` was read from, and checks that its end is there.
    pub(super) fn new(bytes: FileBytes, index: Index) -> Result<Self> {
        bytes.parse(format::check_tail)?;
        let checksums = bytes.parse(format::checksums)?;
        Ok(TensorFile { bytes, index, checksums, stated_digest: None, split: None })
    }

    /// Takes a file that the model has beside others.
    pub(super) fn part(bytes: FileBytes, part: &Part) -> Result<Self> {
        check_length(Some(part), Some(bytes.byte_length())).map_err(|e| e.in_file(&bytes.name))?;
        let (bytes, index, split) = match bytes.unpack()? {
            (bytes, Parsed::File(index)) => (bytes, index, None),
            (bytes, Parsed::Part(index, split)) => (bytes, index, Some(split)),
            (bytes, _) => {
                let what = "a manifest names another manifest as a file of the model";
                return Err(malformed(what).in_file(&bytes.name));
            }
        };
        Ok(TensorFile { stated_digest: part.digest, split, ..TensorFile::new(bytes, index)? })
    }

    /// Checks the pages that a component lies in, where it has no digest of its own, and gives their algorithm.
    pub(super) fn check_pages(&self, component: &Component) -> Result<Option<&'static str>> {
        let Some(table) = component.checking_pages(true) else { return Ok(None) };
        let pages = self.bytes.parse(|window| format::page_digests(window, table))?;
        let around = pages.around(&component.range);
        PageChecker::new(Arc::new(pages)).update(around.start, self.bytes.slice(&around)?)?;
        Ok(Some("blake3"))
    }

    /// The stored bytes of a component.
    pub(super) fn stored(&self, component: &Component) -> Result<&[u8]> {
        self.bytes.slice(&component.range)
    }
}
