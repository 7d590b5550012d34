//! The asynchronous model, natively.

use super::options::OpenOptions;
use super::place::{Place, open_files};
use super::request::{LoadRequest, StreamRequest};
use super::source_model::ModelIndex;
use super::tensor::LoadedTensor;
use super::thread::{ModelThread, TensorStream};
use crate::error::Result;
use crate::index::Tensor;
use crate::loader::{ModelMetadata, Verified};
use crate::native::ModelFiles;
#[cfg(feature = "http")]
use crate::source::Mirror;
use futures::future::FutureExt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A model in a file or at a URL, whose tensors are loaded on demand.
///
/// It is cheap to clone, `Send` and `Sync`, and its futures run under any executor: the model is read on a thread of
/// its own, which ends when the last clone is dropped. Dropping a future stops its load. The module
/// [`blocking`](crate::blocking) has the same calls for code that is not asynchronous. On wasm32, `Model` has the same
/// methods, and stays on its thread.
///
/// ```
/// # #[cfg(feature = "safetensors")]
/// # fn main() -> weightstream::Result<()> {
/// use weightstream::{Dtype, LoadRequest, Model, StreamRequest};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = r#"{"bias":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
/// # std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat())?;
/// # futures::executor::block_on(async {
/// let model = Model::open(&path).await?; // or "https://…", or "hf:owner/name"
/// for tensor in model.tensors() {
///     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
/// let bias = model.load("bias").await?;
/// assert_eq!(*bias.as_f32()?, [0.0, 0.0]);
///
/// let first = model.load(LoadRequest::new("bias").rows(0..1).dtype(Dtype::F32)).await?;
/// assert_eq!(first.shape(), [1]);
///
/// let mut tensors = model.stream(StreamRequest::new());
/// while let Some(tensor) = tensors.next().await {
///     println!("{} has arrived", tensor?.name());
/// }
/// # Ok(())
/// # })
/// # }
/// # #[cfg(not(feature = "safetensors"))]
/// # fn main() {}
/// ```
#[derive(Debug, Clone)]
pub struct Model {
    index: Arc<ModelIndex>,
    thread: ModelThread,
}

impl Model {
    /// Opens the model at a path, at an http(s) URL, or at an address on a model hub such as `hf:owner/name`
    /// (`hf:owner/name@revision/path` for one file of a revision). Of a folder, opens the model in it. Reads the
    /// headers of its files; tensors are read on demand. The end of a file, which may be missing, is read only by calls
    /// that read the whole model, such as [`Model::verify`]. URLs need the feature `http`.
    ///
    /// # Errors
    /// `NOT_FOUND` and `IO` if a file cannot be opened; `NETWORK` and `HTTP` if a request fails; `UNSUPPORTED` for an
    /// unknown format; `FORMAT`, `TRUNCATED` and others if a header, a length or a manifest is invalid.
    pub async fn open(location: impl AsRef<Path>) -> Result<Model> {
        Model::open_with(location.as_ref(), OpenOptions::new()).await
    }

    /// Opens the first of `files` (name and content). The others are treated as files in the same folder.
    ///
    /// # Errors
    /// Those of [`Model::open`].
    pub async fn from_bytes<N: Into<String>>(files: impl IntoIterator<Item = (N, Vec<u8>)>) -> Result<Model> {
        let files: Vec<_> = files.into_iter().map(|(name, bytes)| (name.into(), Arc::new(bytes))).collect();
        let files = ModelFiles::Memory(Arc::new(files));
        let open = move || open_files(files, OpenOptions::new()).boxed_local();
        let (thread, index) = ModelThread::start(open).await?;
        Ok(Model { index, thread })
    }

    pub(super) async fn open_with(location: &Path, options: OpenOptions) -> Result<Model> {
        let place = Place::of(location, &options)?;
        let (thread, index) = ModelThread::start(move || place.open(options)).await?;
        Ok(Model { index, thread })
    }

    /// The format, its version, and the metadata. For a model in several files, the metadata of the manifest and of the
    /// first file, which takes precedence.
    pub fn metadata(&self) -> &ModelMetadata {
        self.index.metadata()
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        self.index.tensors()
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// `NOT_FOUND` if the model has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.index.tensor(name)
    }

    /// Warnings about the files, each with the file's name: what does not prevent reading them, but is unusual.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.index.warnings()
    }

    /// The addresses of the model: the opened URL and its mirrors, and what each has sent. Empty without
    /// [`OpenOptions::mirror`].
    ///
    /// # Errors
    /// `INTERNAL` if the thread of the model ended.
    #[cfg(feature = "http")]
    pub async fn mirrors(&self) -> Result<Vec<Mirror>> {
        self.thread.mirrors().await
    }

    /// Loads a tensor: one with this name, or as a [`LoadRequest`] says. Reads only its bytes.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown name; `INVALID_ARGUMENT` for rows out of range; `UNSUPPORTED` for a tensor that
    /// cannot be converted; `CHECKSUM` and `FORMAT` for damaged bytes; errors of reading.
    pub async fn load(&self, request: impl Into<LoadRequest>) -> Result<LoadedTensor> {
        self.thread.load(request.into()).await
    }

    /// Loads rows of the outermost dimension of a tensor. Reads only their bytes where the file allows it.
    ///
    /// # Errors
    /// Those of [`Model::load`].
    pub async fn rows(&self, name: &str, rows: Range<u64>) -> Result<LoadedTensor> {
        self.thread.load(LoadRequest::new(name).rows(rows)).await
    }

    /// Loads many tensors with few long reads. An error ends the stream, which has it as its last item: those of
    /// [`Model::load`], and `CHECKSUM` if all tensors were requested and the checksum of a file does not match.
    pub fn stream(&self, request: StreamRequest) -> TensorStream {
        self.thread.stream(request)
    }

    /// Verifies the whole model: every block is decoded, and every checksum is compared. Needs little memory.
    ///
    /// # Errors
    /// `CHECKSUM`, `FORMAT` or `TRUNCATED` for the first fault; errors of reading.
    pub async fn verify(&self) -> Result<Verified> {
        self.thread.verify().await
    }

    /// Starts to load tensors, in this order, that will soon be requested with [`Model::load`]. Errors are ignored
    /// here, and reported by the load.
    pub fn prefetch<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) {
        self.thread.prefetch(names.into_iter().map(Into::into).collect());
    }
}

impl OpenOptions {
    /// Like [`Model::open`], with these options.
    ///
    /// # Errors
    /// Those of [`Model::open`]; `INVALID_ARGUMENT` for options of URLs with a path; `NOT_FOUND` for a pinned file or
    /// tensor that the model does not have.
    pub async fn open(self, location: impl AsRef<Path>) -> Result<Model> {
        Model::open_with(location.as_ref(), self).await
    }
}
