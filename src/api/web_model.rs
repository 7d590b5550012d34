//! The model on wasm32: a loader over `fetch`, Blobs and what else JavaScript has.

use super::options::OpenOptions;
use super::request::{LoadRequest, StreamRequest};
use super::source_model::SourceModel;
use super::tensor::LoadedTensor;
use crate::error::Result;
use crate::index::Tensor;
use crate::loader::{Loader, ModelMetadata, Stats, Verified};
use crate::source::Mirror;
use crate::source::fetch::Client;
use crate::source::mirrors::Mirrors;
use crate::source::web::WebSource;
#[cfg(feature = "web-workers")]
use crate::web::{self, Report};
use futures::stream::{LocalBoxStream, Stream, StreamExt};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use wasm_bindgen::JsValue;

/// A model at a URL or in a Blob, whose tensors are loaded on demand, into memory that JavaScript owns.
///
/// It is cheap to clone. Its futures make progress while they are polled; dropping a future stops its requests.
/// Natively, `Model` has the same methods.
///
/// ```no_run
/// # async fn example() -> weightstream::Result<()> {
/// use weightstream::{Model, StreamRequest};
///
/// let model = Model::open("https://example.org/model.safetensors").await?;
/// for tensor in model.tensors() {
///     let loaded = model.load(&tensor.name).await?;
///     let array = loaded.array()?; // a Uint8Array
/// }
/// let rows = model.rows("embeddings.weight", 0..128).await?;
/// let floats = rows.as_f32()?; // copied into the memory of this module
///
/// let mut tensors = model.stream(StreamRequest::new());
/// while let Some(tensor) = tensors.next().await {
///     println!("{} has arrived", tensor?.name());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Model {
    model: Rc<SourceModel<WebSource>>,
    #[cfg(feature = "web-workers")]
    report: Rc<Report>,
    mirrors: Option<Rc<Mirrors>>,
}

impl Model {
    /// Opens the model at an absolute URL, or at an address on a model hub such as `hf:owner/name`. Reads the headers
    /// of its files; tensors are read on demand.
    ///
    /// # Errors
    /// `NETWORK` and `HTTP` if a request fails; `UNSUPPORTED` for an unknown format; `FORMAT`, `TRUNCATED` and others
    /// if a header, a length or a manifest is invalid.
    pub async fn open(location: impl AsRef<str>) -> Result<Model> {
        OpenOptions::new().open(location).await
    }

    /// Opens the model that a JavaScript value represents: an absolute URL as a string, a `Blob` or `File`, an array of
    /// `File`s or a `FileList`, or an object with `byteLength` and `slice(start, end)`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for any other value; `NOT_FOUND` for missing files of the model; those of [`Model::open`].
    pub async fn open_value(value: &JsValue) -> Result<Model> {
        OpenOptions::new().open_value(value).await
    }

    /// The format, its version, and the metadata. For a model in several files, the metadata of the manifest and of the
    /// first file, which takes precedence.
    pub fn metadata(&self) -> &ModelMetadata {
        self.model.metadata()
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        self.model.tensors()
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// `NOT_FOUND` if the model has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.model.tensor(name)
    }

    /// Warnings about the files, each with the file's name: what does not prevent reading them, but is unusual.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.model.warnings()
    }

    /// Loads a tensor: one with this name, or as a [`LoadRequest`] says. Reads only its bytes.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown name; `INVALID_ARGUMENT` for rows out of range; `UNSUPPORTED` for a tensor that
    /// cannot be converted; `CHECKSUM` and `FORMAT` for damaged bytes; errors of reading.
    pub async fn load(&self, request: impl Into<LoadRequest>) -> Result<LoadedTensor> {
        self.model.load(request).await
    }

    /// Loads rows of the outermost dimension of a tensor. Reads only their bytes where the file allows it.
    ///
    /// # Errors
    /// Those of [`Model::load`].
    pub async fn rows(&self, name: &str, rows: Range<u64>) -> Result<LoadedTensor> {
        self.model.rows(name, rows).await
    }

    /// Loads many tensors with few long reads. An error ends the stream, which has it as its last item: those of
    /// [`Model::load`], and `CHECKSUM` if all tensors were requested and the checksum of a file does not match.
    pub fn stream(&self, request: StreamRequest) -> TensorStream {
        TensorStream(self.model.stream(request))
    }

    /// Verifies the whole model: every block is decoded, and every checksum is compared. Needs little memory.
    ///
    /// # Errors
    /// `CHECKSUM`, `FORMAT` or `TRUNCATED` for the first fault; errors of reading.
    pub async fn verify(&self) -> Result<Verified> {
        self.model.verify().await
    }

    /// Starts to load tensors, in this order, that will soon be requested with [`Model::load`]. Errors are ignored
    /// here, and reported by the load.
    pub fn prefetch<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) {
        wasm_bindgen_futures::spawn_local(self.model.prefetch(names));
    }

    /// Counters of requests and bytes.
    pub fn stats(&self) -> &Stats {
        self.model.stats()
    }

    /// The addresses of the model: the opened URL and its mirrors, and what each has sent. Empty without
    /// [`OpenOptions::mirror`].
    pub fn mirrors(&self) -> Vec<Mirror> {
        self.mirrors.as_ref().map_or_else(Vec::new, |mirrors| mirrors.report())
    }

    /// Why files are not cached, or no longer, if [`OpenOptions::cache`] asks for it. The model is then loaded from the
    /// network.
    #[cfg(feature = "web-workers")]
    pub fn cache_error(&self) -> Option<String> {
        self.report.cache_error()
    }

    /// Why no workers are used although there was enough work for them, if [`OpenOptions::workers`] asks for some.
    #[cfg(feature = "web-workers")]
    pub fn workers_error(&self) -> Option<String> {
        self.report.workers_error()
    }
}

impl OpenOptions {
    /// Like [`Model::open`], with these options.
    ///
    /// # Errors
    /// Those of [`Model::open`]; `NOT_FOUND` for a pinned file or tensor that the model does not have.
    pub async fn open(self, location: impl AsRef<str>) -> Result<Model> {
        self.open_value(&JsValue::from_str(location.as_ref())).await
    }

    /// Like [`Model::open_value`], with these options.
    ///
    /// # Errors
    /// Those of [`Model::open_value`] and [`OpenOptions::open`].
    pub async fn open_value(self, value: &JsValue) -> Result<Model> {
        let mut client = Client::default();
        (client.hub, client.part_urls) = (self.hub(), self.part_urls());
        (client.fetch, client.credentials, client.headers) = (self.fetch, self.credentials, self.headers);
        let client = Rc::new(client.for_url(value.as_string().as_deref()));
        let mut adapters = Vec::with_capacity(self.adapters.len());
        for adapter in self.adapters {
            let location = JsValue::from_str(&adapter.location().to_string_lossy());
            adapters.push((WebSource::new(&location, Rc::clone(&client))?.into_root().await?, adapter));
        }
        let mut source = WebSource::new(value, client)?.into_root().await?;
        let first = value.as_string().unwrap_or_default();
        let mirrors = (!self.mirrors.is_empty()).then(|| Mirrors::new(first, self.mirrors));
        if let Some(mirrors) = &mirrors {
            source = source.with_mirrors(mirrors)?;
        }
        #[cfg(feature = "web-workers")]
        let report = Rc::<Report>::default();
        #[cfg(feature = "web-workers")]
        let source = web::add_cache(source, self.cache, &report).await?;
        let loader = Loader::open(source, self.loader).await?.with_adapters(adapters).await?;
        #[cfg(feature = "web-workers")]
        let loader = web::add_workers(loader, self.workers, &report);
        let model = Rc::new(SourceModel::with_loader(Rc::new(loader), self.on_progress).await?);
        Ok(Model {
            model,
            #[cfg(feature = "web-workers")]
            report,
            mirrors,
        })
    }
}

/// The tensors of a [`StreamRequest`], each as soon as it is complete: a [`Stream`]. An error is the last item.
/// Dropping the stream stops the load.
pub struct TensorStream(LocalBoxStream<'static, Result<LoadedTensor>>);

impl TensorStream {
    /// The next tensor; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<LoadedTensor>> {
        StreamExt::next(&mut self.0).await
    }
}

impl Stream for TensorStream {
    type Item = Result<LoadedTensor>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl std::fmt::Debug for TensorStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorStream").finish_non_exhaustive()
    }
}
