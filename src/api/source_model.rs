//! A model over any source, on one thread.

use super::options::OpenOptions;
use super::request::{LoadRequest, StreamRequest};
use super::tensor::{LoadedTensor, Memory};
use crate::adapter::Adapter;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
#[cfg(web)]
use crate::loader::Stats;
use crate::loader::{Loader, ModelMetadata, Verified};
use crate::name_index::NameIndex;
use crate::on_progress::OnProgress;
use crate::progress::Progress;
use crate::similar_names::no_tensor;
#[cfg(http_client)]
use crate::source::Mirror;
use crate::source::{Body, ModelSource};
use futures::stream::{LocalBoxStream, StreamExt, TryStreamExt};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A model that is read from a [`ModelSource`] of your own: the calls of [`Model`](crate::Model), on the thread that
/// opened it. Its futures are not `Send`, and make progress while they are polled; dropping a future stops its
/// requests.
///
/// ```
/// # #[cfg(all(feature = "safetensors", not(target_arch = "wasm32")))]
/// # fn main() -> weightstream::Result<()> {
/// # use weightstream::internals::source::memory::MemorySource;
/// use weightstream::{OpenOptions, SourceModel};
///
/// # let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
/// futures::executor::block_on(async {
///     # let source = MemorySource::new(vec![("model.safetensors".to_owned(), file.into())])?;
///     // `source` implements `weightstream::source::ModelSource`
///     let model = SourceModel::open(source, OpenOptions::new()).await?;
///     assert_eq!(*model.load("bias").await?.as_f32()?, [0.0, 0.0]);
///     Ok(())
/// })
/// # }
/// # #[cfg(not(all(feature = "safetensors", not(target_arch = "wasm32"))))]
/// # fn main() {}
/// ```
pub struct SourceModel<S: ModelSource> {
    loader: Rc<Loader<S>>,
    index: Arc<ModelIndex>,
    on_progress: OnProgress,
}

/// What is known of a model once it is open.
#[derive(Debug)]
pub(super) struct ModelIndex {
    metadata: ModelMetadata,
    tensors: Vec<Tensor>,
    names: NameIndex,
    warnings: Vec<(String, String)>,
}

impl ModelIndex {
    pub(super) fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    pub(super) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    pub(super) fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.warnings.iter().map(|(file, warning)| (file.as_str(), warning.as_str()))
    }

    pub(super) fn tensor(&self, name: &str) -> Result<&Tensor> {
        let name_at = |at: usize| self.tensors.get(at).map_or("", |tensor| tensor.name.as_str());
        let found = self.names.find(name, &name_at).and_then(|at| self.tensors.get(at));
        found.ok_or_else(|| no_tensor(name, self.tensors.iter().map(|tensor| &*tensor.name)))
    }
}

impl<S: ModelSource<Body: Body<Buffer = Memory>>> SourceModel<S> {
    /// Reads the headers of all files of the model. Of the options, those of URLs are up to the source.
    ///
    /// # Errors
    /// Those of [`Model::open`](crate::Model::open), and of the source.
    pub async fn open(source: S, options: OpenOptions) -> Result<Self> {
        if let Some(adapter) = options.adapters.first() {
            let error = Error::new(ErrorKind::InvalidArgument, "a source of your own cannot open other locations");
            let error = error.in_file(&adapter.location().display().to_string());
            return Err(error.advise("Give the adapter with `SourceModel::open_with_adapters`."));
        }
        SourceModel::open_with_adapters(source, Vec::new(), options).await
    }

    /// Like [`SourceModel::open`], with LoRA adapters and the sources of their files: the locations of the adapters
    /// are not used.
    ///
    /// # Errors
    /// Those of [`SourceModel::open`]; `UNSUPPORTED`, `NOT_FOUND` and `FORMAT` for what is no adapter of this model.
    pub async fn open_with_adapters(source: S, adapters: Vec<(S, Adapter)>, options: OpenOptions) -> Result<Self> {
        let loader = Loader::open(source, options.loader).await?.with_adapters(adapters).await?;
        SourceModel::with_loader(Rc::new(loader), options.on_progress).await
    }

    /// The model of an open loader.
    pub(super) async fn with_loader(loader: Rc<Loader<S>>, on_progress: OnProgress) -> Result<Self> {
        let tensors: Vec<_> = loader.load_index().await?.iter().map(Arc::unwrap_or_clone).collect();
        let names = NameIndex::new(tensors.len(), &|at| tensors.get(at).map_or("", |tensor| tensor.name.as_str()));
        let (metadata, warnings) = (loader.load_metadata().await?, loader.warnings().await?);
        let index = Arc::new(ModelIndex { metadata, tensors, names, warnings });
        Ok(SourceModel { loader, index, on_progress })
    }

    /// Like [`Model::metadata`](crate::Model::metadata).
    pub fn metadata(&self) -> &ModelMetadata {
        self.index.metadata()
    }

    /// Like [`Model::tensors`](crate::Model::tensors).
    pub fn tensors(&self) -> &[Tensor] {
        self.index.tensors()
    }

    /// Like [`Model::tensor`](crate::Model::tensor).
    ///
    /// # Errors
    /// `NOT_FOUND` if the model has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.index.tensor(name)
    }

    /// Like [`Model::warnings`](crate::Model::warnings).
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.index.warnings()
    }

    /// Like [`Model::mirrors`](crate::Model::mirrors).
    #[cfg(http_client)]
    pub(super) fn mirrors(&self) -> Vec<Mirror> {
        self.loader.mirrors()
    }

    /// Like [`Model::load`](crate::Model::load).
    ///
    /// # Errors
    /// Those of [`Model::load`](crate::Model::load).
    pub async fn load(&self, request: impl Into<LoadRequest>) -> Result<LoadedTensor> {
        let request = request.into();
        let observer = self.observer(&request.on_progress);
        let (name, request) = request.into_parts();
        Ok(LoadedTensor { loaded: self.loader.load_tensor(&name, request, observer).await? })
    }

    /// Like [`Model::rows`](crate::Model::rows).
    ///
    /// # Errors
    /// Those of [`Model::load`](crate::Model::load).
    pub async fn rows(&self, name: &str, rows: Range<u64>) -> Result<LoadedTensor> {
        self.load(LoadRequest::new(name).rows(rows)).await
    }

    /// Like [`Model::stream`](crate::Model::stream).
    pub fn stream(&self, request: StreamRequest) -> LocalBoxStream<'static, Result<LoadedTensor>> {
        let observer = self.observer(&request.on_progress);
        let loader = Rc::clone(&self.loader);
        let begin = async move { loader.tensors_with(request.into_inner(), observer).await };
        futures::stream::once(begin).try_flatten().map_ok(|loaded| LoadedTensor { loaded }).boxed_local()
    }

    /// Like [`Model::verify`](crate::Model::verify).
    ///
    /// # Errors
    /// Those of [`Model::verify`](crate::Model::verify).
    pub async fn verify(&self) -> Result<Verified> {
        self.loader.verify_in_detail(self.observer(&OnProgress::default())).await
    }

    /// Starts to load tensors, in this order, that will soon be requested with [`SourceModel::load`]. Poll the future
    /// beside other work. Errors are ignored here, and reported by the load.
    pub fn prefetch<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> impl Future<Output = ()> + 'static {
        let names = names.into_iter().map(Into::into).collect();
        let loader = Rc::clone(&self.loader);
        let observer = self.observer(&OnProgress::default());
        async move {
            loader.prefetch(names, observer).await;
        }
    }

    /// Counters of requests and bytes.
    #[cfg(web)]
    pub(super) fn stats(&self) -> &Stats {
        self.loader.stats()
    }

    /// What is known of the model.
    #[cfg(native)]
    pub(super) fn index(&self) -> &Arc<ModelIndex> {
        &self.index
    }

    fn observer(&self, of_call: &OnProgress) -> Rc<dyn Progress> {
        Rc::new(of_call.or(&self.on_progress).meter())
    }
}

impl<S: ModelSource> std::fmt::Debug for SourceModel<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceModel").field("tensors", &self.index.tensors.len()).finish_non_exhaustive()
    }
}
