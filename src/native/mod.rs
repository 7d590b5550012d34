//! Reads models on disk or in memory, with a blocking API.
//!
//! `Reader::open` uses positioned reads: opening reads only the heads of the files. If another process truncates a
//! file, reads fail; bytes overwritten in place are detected only if a digest covers them. `Reader::open_mapped` maps
//! the files instead, so that a raw tensor is a slice of the map; the caller must guarantee that no process changes the
//! files. On wasm32, [`Reader::from_bytes`] reads files in memory.

mod adapters;
#[cfg(native)]
mod disk;
mod file;
#[cfg(native)]
mod folder;
mod load;
#[cfg(maps)]
mod map;
mod open;
#[cfg(native)]
mod previous;
mod quantized;
#[cfg(http_client)]
pub(crate) mod remote;
#[cfg(native)]
mod source;
mod storage;
#[cfg(writes)]
pub(crate) mod stored;

mod verify;

pub use crate::loader::Verified;
#[cfg(native)]
pub use disk::read_file;
#[cfg(native)]
pub(crate) use folder::model_path;
pub use load::LoadedTensor;
#[cfg(http_client)]
pub use remote::{RemoteReader, read_url};
#[cfg(native)]
pub(crate) use source::{FileSource, ModelFiles};

use crate::codec::cast::Conversion;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Algorithm, Component, Encoding, Tensor};
use crate::loader::ModelMetadata;
use crate::name_index::NameIndex;
use crate::quantization::ModelConfig;
use crate::similar_names::no_tensor;
#[cfg(writes)]
use crate::window::{Stop, Window};
#[cfg(native)]
use file::FileBytes;
use file::TensorFile;
#[cfg(native)]
use std::path::Path;
#[cfg(native)]
use std::sync::Arc;
use std::sync::OnceLock;
#[cfg(native)]
use storage::Storage;

/// A model in one file, or in several with a manifest.
#[derive(Debug)]
pub struct Reader {
    name: String,
    /// A file that only names those with tensors.
    #[cfg(native)]
    manifest: Option<Arc<FileBytes>>,
    metadata: ModelMetadata,
    files: Vec<TensorFile>,
    /// All tensors, in the order of the files and of the tensors in each file, and then the parts of quantized ones.
    tensors: Vec<Tensor>,
    /// The number of tensors without these parts.
    listed: usize,
    /// What `config.json` states about quantized tensors, if it was needed.
    #[cfg_attr(not(native), allow(dead_code, reason = "only opened models on disk are opened again"))]
    config: Option<ModelConfig>,
    names: NameIndex,
    /// The components that were requested as slices, by tensor and component.
    cached: Vec<Vec<OnceLock<Cached>>>,
}

/// A component that was requested as a slice, and verified.
#[derive(Debug)]
enum Cached {
    /// The component is raw, and its bytes are in memory.
    InPlace,
    /// The decoded bytes of the component.
    Decoded(Vec<u8>),
}

impl Reader {
    /// The model's format, version and metadata. For a model in several files, the metadata of the manifest and of the
    /// first file, which takes precedence.
    pub fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    /// Every tensor, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        self.tensors.get(..self.listed).unwrap_or_default()
    }

    /// Returns the tensor with this name. The parts of a quantized tensor can be found, too.
    ///
    /// # Errors
    /// `NOT_FOUND` if the model has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.find(name).map(|(_, tensor)| tensor)
    }

    /// What `config.json` states about quantized tensors, if it was needed.
    #[cfg(native)]
    pub(crate) fn config(&self) -> Option<&ModelConfig> {
        self.config.as_ref()
    }

    /// The files with tensors: their names and lengths in bytes. A tensor's `shard` is a position in this list.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.files.iter().map(|file| (file.bytes.name.as_str(), file.bytes.file_length()))
    }

    /// The paths of all files: the manifest, if there is one, and the files with tensors.
    #[cfg(native)]
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.opened().filter_map(|file| file.path.as_deref())
    }

    /// All files: the manifest, if there is one, and the files with tensors.
    #[cfg(native)]
    fn opened(&self) -> impl Iterator<Item = &Arc<FileBytes>> {
        self.manifest.iter().chain(self.files.iter().flat_map(|file| match &file.bytes.storage {
            Storage::Joined(files) => files.as_slice(),
            _ => std::slice::from_ref(&file.bytes),
        }))
    }

    /// The files on disk of the model at `root`, for a source that shares them.
    #[cfg(native)]
    pub(crate) fn shared_files(&self, root: &Path) -> ModelFiles {
        let opened = self.opened().filter_map(|file| Some((file.path.clone()?, Arc::clone(file)))).collect();
        ModelFiles::Opened(root.to_owned(), Arc::new(opened))
    }

    /// Warnings about the model, each with the name of the file.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().flat_map(|TensorFile { bytes, index, .. }| {
            index.warnings.iter().map(|warning| (bytes.name.as_str(), warning.as_str()))
        })
    }

    /// Returns the decoded bytes of a tensor. Raw bytes that are mapped or in memory are not copied.
    ///
    /// A compressed tensor, or a tensor of a file on disk, is read into memory at the first call. The reader keeps this
    /// memory until it is dropped. To avoid this, use [`Reader::load_tensor`], which returns an owned buffer,
    /// or [`Reader::read_pieces`]. The first call verifies the digest of the tensor, if the format has one.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CHECKSUM` and `FORMAT` if the bytes are damaged; `INVALID_ARGUMENT` for a tensor with several
    /// components.
    #[cfg(native)]
    pub fn tensor_slice(&self, name: &str) -> Result<&[u8]> {
        let (at, tensor) = self.find(name)?;
        self.cached_bytes(at, tensor, only_component(tensor)?)
    }

    /// Returns the decoded bytes of a tensor in a new buffer.
    ///
    /// # Errors
    /// `NOT_FOUND`; `CHECKSUM` and `FORMAT` if the bytes are damaged; `INVALID_ARGUMENT` for a tensor with several
    /// components.
    #[cfg(web)]
    pub fn tensor_slice(&self, name: &str) -> Result<Vec<u8>> {
        let (at, tensor) = self.find(name)?;
        self.cached_bytes(at, tensor, only_component(tensor)?).map(<[u8]>::to_vec)
    }

    /// Reads a component in pieces, in order. Returns the algorithm of the verified digest, if the format has one.
    /// Buffers one block at a time, independent of the tensor's size.
    ///
    /// # Errors
    /// As for [`Reader::tensor_slice`]; errors of `emit`. `emit` may receive pieces before damage is detected.
    pub fn read_pieces(
        &self,
        name: &str,
        role: &str,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        let (_, tensor) = self.find(name)?;
        let component = tensor.components.iter().find(|component| *component.role == *role);
        let component = component.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("it has no component \"{role}\"")).in_tensor(name)
        })?;
        self.read_component(tensor, component, None, &mut |_, _| (), emit)
    }

    /// Like [`Reader::read_pieces`] of a dense tensor, but converts floats and quantized elements to `dtype`: F32, F16
    /// or BF16. Tensors of integers and booleans keep their dtype.
    ///
    /// # Errors
    /// As for [`Reader::read_pieces`]; `UNSUPPORTED` for a tensor that cannot be converted.
    pub fn read_pieces_as(
        &self,
        name: &str,
        dtype: &Dtype,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        let (_, tensor) = self.find(name)?;
        let Some(conversion) = Conversion::of(tensor, &tensor.shape, dtype)? else {
            return self.read_pieces(name, "data", emit);
        };
        let component = tensor.components.get(only_component(tensor)?).ok_or_else(lost)?;
        self.read_component(tensor, component, Some(conversion), &mut |_, _| (), emit)
    }

    /// Runs a parser over the first file.
    #[cfg(writes)]
    pub(crate) fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        self.files.first().map_or(Ok(()), |file| file.bytes.parse(parse))
    }

    fn find(&self, name: &str) -> Result<(usize, &Tensor)> {
        let at = self.names.find(name, &|at| self.tensors.get(at).map_or("", |tensor| tensor.name.as_str()));
        at.and_then(|at| Some((at, self.tensors.get(at)?)))
            .ok_or_else(|| no_tensor(name, self.tensors.iter().map(|tensor| &*tensor.name)).in_file(&self.name))
    }

    /// The file with a component of a tensor.
    fn file_of(&self, tensor: &Tensor, component: &Component) -> Result<&TensorFile> {
        let missing = || Error::new(ErrorKind::Internal, "a tensor is in a file that was not opened");
        self.files.get(tensor.shard_of(component)).ok_or_else(missing)
    }

    /// Reads a component in pieces, converted if requested. Passes its stored bytes with their offsets to `tap`.
    fn read_component(
        &self,
        tensor: &Tensor,
        component: &Component,
        conversion: Option<Conversion>,
        tap: &mut dyn FnMut(u64, &[u8]),
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        let file = self.file_of(tensor, component)?;
        let read = file.read(component, conversion, tap, emit);
        read.map_err(|e| e.in_tensor(&tensor.name).in_file(&file.bytes.name))
    }

    fn cached_bytes(&self, at: usize, tensor: &Tensor, component: usize) -> Result<&[u8]> {
        let part = tensor.components.get(component).ok_or_else(lost)?;
        let file = self.file_of(tensor, part)?;
        let load = || {
            let slot = self.cached.get(at).and_then(|slots| slots.get(component)).ok_or_else(lost)?;
            let cached = match slot.get() {
                Some(cached) => cached,
                None => {
                    let cached = check(file, part)?;
                    slot.get_or_init(|| cached) // another thread may have set the same bytes
                }
            };
            match cached {
                Cached::InPlace => file.bytes.storage.borrow(&part.range)?.ok_or_else(lost),
                Cached::Decoded(bytes) => Ok(bytes.as_slice()),
            }
        };
        load().map_err(|e: Error| e.in_tensor(&tensor.name).in_file(&file.bytes.name))
    }
}

fn check(file: &TensorFile, component: &Component) -> Result<Cached> {
    let is_in_place = component.encoding == Encoding::Raw && file.bytes.storage.in_memory().is_some();
    match is_in_place {
        true => file.check_in_place(component).map(|()| Cached::InPlace),
        false => file.load(component).map(|(decoded, _)| Cached::Decoded(decoded)),
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Internal, "a component is missing")
}

fn only_component(tensor: &Tensor) -> Result<usize> {
    match tensor.components.len() {
        1 => Ok(0),
        count => {
            let error = Error::new(ErrorKind::InvalidArgument, format!("it has {count} components, not one"));
            Err(error.advise("Load the whole tensor, and use its components.").in_tensor(&tensor.name))
        }
    }
}
