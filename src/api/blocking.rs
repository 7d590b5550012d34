//! The blocking model, natively.

use super::block_on::block_on;
use super::local::LocalModel;
use super::model;
use super::options::OpenOptions;
use super::place::Place;
use super::request::{LoadRequest, StreamRequest};
use super::tensor::LoadedTensor;
use super::thread::TensorStream;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::loader::{ModelMetadata, Verified};
use crate::native::{ModelFiles, Reader, model_path};
#[cfg(feature = "http")]
use crate::source::Mirror;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A model in a file or at a URL, whose tensors are loaded on demand. The calls are those of
/// [`weightstream::Model`](crate::Model), and block. Several threads can use one model at the same time, and clones
/// share it.
///
/// ```
/// # #[cfg(feature = "safetensors")]
/// # fn main() -> weightstream::Result<()> {
/// use weightstream::blocking::Model;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat())?;
/// let model = Model::open(&path)?; // or "https://…", or "hf:owner/name"
/// for tensor in model.tensors() {
///     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
/// assert_eq!(*model.load("bias")?.as_f32()?, [0.0, 0.0]);
/// assert_eq!(model.verify()?.tensors, 1);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "safetensors"))]
/// # fn main() {}
/// ```
#[derive(Debug, Clone)]
pub struct Model {
    pub(super) reading: Reading,
}

/// What reads the model.
#[derive(Debug, Clone)]
pub(super) enum Reading {
    Local(Arc<LocalModel>),
    Remote(Arc<RemoteModel>),
}

/// A model at a URL.
#[derive(Debug)]
pub(super) struct RemoteModel {
    model: model::Model,
    /// Conversions open the model again: they read it on the thread of the caller.
    #[cfg(feature = "write")]
    pub(super) url: String,
    #[cfg(feature = "write")]
    pub(super) options: OpenOptions,
}

impl Model {
    /// Opens the model at a path, an http(s) URL or an address on a hub, as [`Model::open`](crate::Model::open) does.
    /// Files are read with positioned reads: if another process replaces one by renaming, the model keeps the original.
    ///
    /// # Errors
    /// Those of [`Model::open`](crate::Model::open).
    pub fn open(location: impl AsRef<Path>) -> Result<Model> {
        OpenOptions::new().open_blocking(location)
    }

    /// Opens the model at a path, and maps its files into memory: [`Model::tensor_slice`] then borrows from the map.
    ///
    /// # Safety
    /// While the model exists, no process may write to the files or truncate them. An access to a page beyond the end
    /// of a truncated file terminates this process with a bus error. A write to a file changes bytes behind `&[u8]`,
    /// which is undefined behavior. Replacing a file by renaming is allowed: the model keeps the original file.
    ///
    /// # Errors
    /// Those of [`Model::open`].
    #[cfg(feature = "mmap")]
    #[allow(unsafe_code, reason = "an unsafe constructor with a safety requirement")]
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<Model> {
        let path = &*model_path(path.as_ref())?;
        // SAFETY: the caller guarantees the requirement of `Reader::open_mapped`.
        let reader = unsafe { Reader::open_mapped(path) }?;
        let files = reader.shared_files(path);
        Model::local(reader, files, OpenOptions::new())
    }

    /// Opens the first of `files` (name and content). The others are treated as files in the same folder.
    ///
    /// # Errors
    /// Those of [`Model::open`].
    pub fn from_bytes<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Result<Model> {
        let files: Vec<_> = files.into_iter().map(|(name, bytes)| (name.into(), Arc::new(bytes))).collect();
        let reader = Reader::from_shared(files.iter().cloned())?;
        Model::local(reader, ModelFiles::Memory(Arc::new(files)), OpenOptions::new())
    }

    fn local(reader: Reader, files: ModelFiles, options: OpenOptions) -> Result<Model> {
        Ok(Model { reading: Reading::Local(Arc::new(LocalModel::new(reader, files, options)?)) })
    }

    /// Like [`Model::metadata`](crate::Model::metadata).
    pub fn metadata(&self) -> &ModelMetadata {
        match &self.reading {
            Reading::Local(local) => local.reader.metadata(),
            Reading::Remote(remote) => remote.model.metadata(),
        }
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        match &self.reading {
            Reading::Local(local) => local.reader.tensors(),
            Reading::Remote(remote) => remote.model.tensors(),
        }
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// `NOT_FOUND` if the model has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        match &self.reading {
            Reading::Local(local) => local.reader.tensor(name),
            Reading::Remote(remote) => remote.model.tensor(name),
        }
    }

    /// Like [`Model::warnings`](crate::Model::warnings).
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        let warnings: Box<dyn Iterator<Item = _>> = match &self.reading {
            Reading::Local(local) => Box::new(local.reader.warnings()),
            Reading::Remote(remote) => Box::new(remote.model.warnings()),
        };
        warnings
    }

    /// Like [`Model::mirrors`](crate::Model::mirrors).
    ///
    /// # Errors
    /// Those of [`Model::mirrors`](crate::Model::mirrors).
    #[cfg(feature = "http")]
    pub fn mirrors(&self) -> Result<Vec<Mirror>> {
        match &self.reading {
            Reading::Local(_) => Ok(Vec::new()),
            Reading::Remote(remote) => block_on(remote.model.mirrors()),
        }
    }

    /// Loads a tensor: one with this name, or as a [`LoadRequest`] says. Reads only its bytes.
    ///
    /// # Errors
    /// Those of [`Model::load`](crate::Model::load).
    pub fn load(&self, request: impl Into<LoadRequest>) -> Result<LoadedTensor> {
        match &self.reading {
            Reading::Local(local) => local.load(request.into()),
            Reading::Remote(remote) => block_on(remote.model.load(request)),
        }
    }

    /// Loads rows of the outermost dimension of a tensor. Reads only their bytes where the file allows it.
    ///
    /// # Errors
    /// Those of [`Model::load`].
    pub fn rows(&self, name: &str, rows: Range<u64>) -> Result<LoadedTensor> {
        self.load(LoadRequest::new(name).rows(rows))
    }

    /// Loads many tensors with few long reads, as [`Model::stream`](crate::Model::stream) does. The next tensors are
    /// read while the caller uses one.
    pub fn stream(&self, request: StreamRequest) -> TensorIterator {
        let stream = match &self.reading {
            Reading::Local(local) => local.thread().map(|thread| thread.stream(request)),
            Reading::Remote(remote) => Ok(remote.model.stream(request)),
        };
        match stream {
            Ok(stream) => TensorIterator { stream: Some(stream), failure: None },
            Err(error) => TensorIterator { stream: None, failure: Some(error) },
        }
    }

    /// Verifies the whole model: every block is decoded, and every checksum is compared. Local files are verified on
    /// all cores. Needs little memory.
    ///
    /// # Errors
    /// Those of [`Model::verify`](crate::Model::verify).
    pub fn verify(&self) -> Result<Verified> {
        match &self.reading {
            Reading::Local(local) => local.verify(),
            Reading::Remote(remote) => block_on(remote.model.verify()),
        }
    }

    /// Starts to load tensors that will soon be requested with [`Model::load`]. Errors are ignored here, and reported
    /// by the load. Of local files, the system is advised to read mapped ones.
    pub fn prefetch<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) {
        match &self.reading {
            Reading::Local(local) => local.prefetch(names.into_iter().map(Into::into).collect()),
            Reading::Remote(remote) => remote.model.prefetch(names),
        }
    }

    /// The decoded bytes of a tensor of local files. Raw bytes that are mapped or in memory are not copied; others are
    /// read and verified at the first call, and kept until the model is dropped.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a tensor of several components; `UNSUPPORTED` for a model at a URL or with pinned
    /// digests; those of [`Model::load`].
    pub fn tensor_slice(&self, name: &str) -> Result<&[u8]> {
        match &self.reading {
            Reading::Local(local) => local.unpinned_reader("slices of tensors")?.tensor_slice(name),
            Reading::Remote(_) => {
                let error = Error::new(ErrorKind::Unsupported, "only tensors of local files can be borrowed");
                Err(error.in_tensor(name).advise("Load it with `Model::load`."))
            }
        }
    }
}

impl OpenOptions {
    /// Like [`blocking::Model::open`](crate::blocking::Model::open), with these options.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`].
    pub fn open_blocking(self, location: impl AsRef<Path>) -> Result<Model> {
        match Place::of(location.as_ref(), &self)? {
            Place::Path(path) => {
                // Only once, because a later file in the folder may be preferred.
                let path = &*model_path(&path)?;
                let reader = Reader::open_with(path, self.loader.config.as_ref(), &self.adapters)?;
                let files = reader.shared_files(path);
                Model::local(reader, files, self)
            }
            Place::Url(url) => {
                let model = block_on(model::Model::open_with(Path::new(&url), self.clone()))?;
                let remote = RemoteModel {
                    model,
                    #[cfg(feature = "write")]
                    url,
                    #[cfg(feature = "write")]
                    options: self,
                };
                Ok(Model { reading: Reading::Remote(Arc::new(remote)) })
            }
        }
    }
}

/// The tensors of a [`StreamRequest`], each as soon as it is complete. Dropping it stops the load.
#[derive(Debug)]
pub struct TensorIterator {
    stream: Option<TensorStream>,
    failure: Option<Error>,
}

impl Iterator for TensorIterator {
    type Item = Result<LoadedTensor>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.failure.take() {
            Some(error) => Some(Err(error)),
            None => {
                let stream = self.stream.as_mut()?;
                block_on(async { Ok(stream.next().await) }).unwrap_or_else(|error| {
                    self.stream = None; // an error is the last item
                    Some(Err(error))
                })
            }
        }
    }
}
