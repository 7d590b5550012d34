//! The engine: opens a model over any [`ModelSource`], lists it, and streams its tensors.
//!
//! The futures are not `Send` and make progress only while they are polled. Dropping a future stops its requests. The
//! engine does not depend on JavaScript or threads; a [`Host`](crate::source::Host) provides the clock.

mod adapters;
mod component_reader;
mod dense_copies;
mod differences;
mod digests;
mod find;
#[cfg(feature = "safetensors")]
mod kept_tensors;
mod load_tensor;
mod loaded;
mod metadata;
mod options;
mod pieces;
mod prefetch;
mod prefetch_progress;
mod previous;
mod quantized;
mod related_files;
mod remote_file;
mod request;
#[cfg(feature = "safetensors")]
mod safetensors_view;
pub(crate) mod schedule;
mod shard;
mod signed_digests;
mod stored_bytes;
mod stream_rows;
mod tensor_list;
mod tensor_reader;
mod tensors;
pub(crate) mod transfer;
mod verified;
mod verify;
mod whole_files;

pub use crate::pipeline::LoadedComponent;
pub use digests::Digests;
pub use loaded::Loaded;
pub use metadata::ModelMetadata;
pub use options::Options;
pub use pieces::PieceReader;
pub use previous::PreviousTensors;
pub use remote_file::{FileReader, RemoteFile};
pub use request::{Order, TensorRequest, TensorsRequest};
#[cfg(feature = "safetensors")]
pub use safetensors_view::{SafeTensorsView, ViewReader};
pub use signed_digests::SignedDigests;
pub use tensor_list::{TensorList, TensorListIter};
pub use tensor_reader::{BegunTensor, TensorReader};
#[cfg(workers)]
pub(crate) use transfer::SCRATCH_BYTES;
pub use transfer::file::FIRST_READ_BYTES;
#[cfg(all(http_client, writes))]
pub(crate) use transfer::range_reader::Tap;
pub use transfer::stats::Stats;
pub use verified::Verified;
#[cfg(all(http_client, writes))]
pub(crate) use whole_files::TensorDigests;

use crate::adapter::AdapterFile;
use crate::error::Result;
#[cfg(writes)]
use crate::identity::Identity;
#[cfg(all(http_client, writes))]
use crate::index::Part;
use crate::index::{Algorithm, Digest};
use crate::model::assembly::{Assembly, Opened};
use crate::pipeline::Pool;
#[cfg(http_client)]
use crate::source::Mirror;
use crate::source::{BufferOf, ModelSource};
use digests::check_whole;
use futures::channel::oneshot;
use futures::future::{LocalBoxFuture, WeakShared};
use futures::lock::Mutex;
use prefetch_progress::PrefetchProgress;
use related_files::RelatedFiles;
use schedule::memory_budget::{MemoryBudget, Permit};
use shard::{OpenShard, Shard, check_footer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use transfer::file::ModelFile;
use transfer::priority::Priority;

/// Reads a model from a [`ModelSource`]: the operations of the APR specification's `StreamingLoader`, asynchronous.
///
/// ```
/// use futures::executor::block_on;
/// use std::rc::Rc;
/// use weightstream::internals::loader::{Loader, Options, TensorRequest};
/// use weightstream::internals::source::memory::MemorySource;
///
/// let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
/// block_on(async {
///     let source = MemorySource::new(vec![("model.safetensors".to_owned(), file.into())])?;
///     let loader = Rc::new(Loader::open(source, Options::default()).await?);
///     for tensor in loader.load_index().await? {
///         println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
///     }
///     let bias = loader.load_tensor("bias", TensorRequest::default(), Rc::new(())).await?;
///     assert_eq!(bias.components[0].buffer, [0; 8]);
///     Ok::<_, weightstream::Error>(())
/// })
/// .unwrap();
/// ```
pub struct Loader<S: ModelSource> {
    assembly: Assembly,
    shards: Vec<Shard<S>>,
    /// The files with one tensor for each quantized tensor of several parts, if there may be such tensors.
    grouped: Mutex<Option<Vec<Rc<OpenShard>>>>,
    /// The adapters whose updates are added. Their files are the last ones.
    adapters: Vec<AdapterFile>,
    options: Options,
    stats: Rc<Stats>,
    /// Decodes and digests components on other threads; `None` if the loader's own thread does this.
    pool: Option<Rc<dyn Pool<BufferOf<S>>>>,
    /// Running loads by tensor name. A second caller joins the first.
    loading: RefCell<HashMap<String, WeakLoad<BufferOf<S>>>>,
    prefetched: RefCell<HashMap<String, PrefetchedReceiver<BufferOf<S>>>>,
    prefetch_budget: Rc<MemoryBudget>,
    priority: Rc<Priority>,
    /// The digests of tensors that the caller pinned.
    pinned: Rc<HashMap<String, Digest>>,
    /// See [`Loader::verified_by`].
    verified_by: Cell<Option<Algorithm>>,
    /// The warnings of the last call that read the whole model, with the numbers of the files.
    late_warnings: RefCell<Vec<(usize, String)>>,
    /// The files with differences to the previous revision, and those of that revision.
    related: RelatedFiles<S>,
}

/// A running load, as long as a caller waits for it.
type WeakLoad<B> = WeakShared<LocalBoxFuture<'static, Result<Rc<Loaded<B>>>>>;

/// A prefetched tensor that was not requested yet, and the permit for its memory.
type Prefetched<B> = (Loaded<B>, Permit);

type PrefetchedReceiver<B> = (oneshot::Receiver<Prefetched<B>>, Rc<PrefetchProgress>);

impl<S: ModelSource> Loader<S> {
    /// Reads the header and index of the file, or the manifest. Takes one or two requests, whatever the model's size.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an invalid option; `UNSUPPORTED` for a file of an unknown format; those of
    /// [`ModelSource::located`]; errors of the source and of the format's parser.
    pub async fn open(source: S, options: Options) -> Result<Self> {
        options.check()?;
        Loader::open_counted(source.located().await?, options, Rc::default()).await
    }

    /// Like [`Loader::open`], for a file whose bytes are counted with those of others.
    async fn open_counted(source: S, options: Options, stats: Rc<Stats>) -> Result<Self> {
        let file = ModelFile::new(source, Rc::clone(&stats), options.retry);
        let file = Rc::new(file.with_signature(options.signature.as_ref())?);
        let digests = &options.digests;
        file.expect_whole(file.signed_digest().or_else(|| digests.of_whole_file(&file.source, None)));
        let parsed = file.parse().await?;
        let (assembly, opened) =
            Assembly::of(parsed, file.source.file_name().as_deref()).map_err(|e| e.in_file(file.source.name()))?;
        let is_manifest = matches!(opened, Opened::Document);
        if !is_manifest {
            check_footer(&file)?;
        }
        let shards = Shard::all(&file, &assembly, opened, digests)?;
        let (loading, prefetched, priority, verified_by, late_warnings) = Default::default();
        let parts = shards.iter().map(|shard| (&shard.file.source, shard.part()));
        digests.check_files(parts.chain(is_manifest.then_some((&file.source, None))))?;
        if let Some((_, digest)) = digests.of_file(&file.source, None).filter(|_| is_manifest) {
            check_whole(&file, digest).await.map_err(|e| e.in_file(file.source.name()))?;
        }
        let pinned = Rc::new(options.digests.tensors.clone());
        let related = RelatedFiles::of(file, assembly.manifest.as_ref());
        let prefetch_budget = MemoryBudget::new(options.max_memory_bytes);
        Ok(Loader {
            assembly,
            shards,
            grouped: Mutex::new(None),
            adapters: Vec::new(),
            options,
            stats,
            pool: None,
            loading,
            prefetched,
            prefetch_budget,
            priority,
            pinned,
            verified_by,
            late_warnings,
            related,
        })
    }

    /// Decodes and digests components on other threads where that takes long.
    #[doc(hidden)]
    #[must_use]
    pub fn with_pool(self, pool: Rc<dyn Pool<BufferOf<S>>>) -> Self {
        Loader { pool: Some(pool), ..self }
    }

    /// The algorithm that verified every file, in the last completed call that read the whole model: see
    /// [`Loader::verify`]. `None` if a tensor has no checksum, or if no call has read the whole model.
    /// [`Progress::checked`](crate::progress::Progress::checked) reports the algorithm for each call.
    pub fn verified_by(&self) -> Option<Algorithm> {
        self.verified_by.get()
    }

    /// The files that hold tensors: their names, and their lengths in bytes as far as they are known. A tensor's
    /// `shard` is a position in this list.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, Option<u64>)> {
        self.shards.iter().map(|shard| (shard.file.source.name(), shard.file.file_length()))
    }

    /// What names and describes these files, and those that follow each other in one; `None` for the file that was
    /// opened.
    #[doc(hidden)]
    #[cfg(all(http_client, writes))]
    pub fn parts(&self) -> impl Iterator<Item = Option<&Part>> {
        self.shards.iter().flat_map(|shard| {
            let opened = shard.parts.is_empty().then_some(None);
            opened.into_iter().chain(shard.parts.iter().map(Some))
        })
    }

    /// The sources of these files.
    #[cfg(npm)]
    pub(crate) fn sources(&self) -> impl Iterator<Item = &S> {
        self.shards.iter().map(|shard| &shard.file.source)
    }

    /// The addresses of the model, if it was opened with mirrors, and what each has sent.
    #[cfg(http_client)]
    pub fn mirrors(&self) -> Vec<Mirror> {
        let all = self.shards.iter().map(|shard| shard.file.source.mirrors());
        all.into_iter().find(|mirrors| !mirrors.is_empty()).unwrap_or_default()
    }

    /// The number of files that hold tensors.
    pub fn file_count(&self) -> usize {
        self.shards.len()
    }

    /// The versions of these files, as far as their servers state them.
    #[cfg(writes)]
    pub(crate) fn identities(&self) -> impl Iterator<Item = Option<Identity>> {
        self.shards.iter().map(|shard| shard.file.identity())
    }

    /// Counters over the lifetime of the loader.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Like [`Loader::stats`], for owners that outlive the loader.
    #[cfg(npm)]
    pub(crate) fn shared_stats(&self) -> Rc<Stats> {
        Rc::clone(&self.stats)
    }

    /// All tensors, in file order. Reads the headers of all files.
    ///
    /// # Errors
    /// Errors of reading the headers; `NOT_FOUND` for a pinned tensor that the model does not have; `FORMAT` if a name
    /// occurs in two files, or if the manifest assigns a tensor to a file that does not contain it.
    pub async fn load_index(&self) -> Result<TensorList> {
        let stored = self.load_stored_index().await?;
        let tensors = self.grouped_list(&stored).await?;
        let grouped = tensors.iter().flat_map(TensorList::names);
        self.options.digests.check_tensors(stored.names().chain(grouped))?;
        Ok(tensors.unwrap_or(stored))
    }

    /// All tensors of the files, in file order: the parts of a quantized tensor, instead of the tensor.
    ///
    /// # Errors
    /// As for [`Loader::load_index`], except for pinned tensors.
    pub(crate) async fn load_stored_index(&self) -> Result<TensorList> {
        let opened = self.read_shards().await?;
        let names = self.shards.iter().take(self.own_files()).map(|shard| shard.file.source.name());
        let contents: Vec<_> = names.zip(opened.iter().map(|open| &open.index)).collect();
        self.assembly.check(&contents)?;
        Ok(TensorList::new(opened))
    }
}

impl<S: ModelSource> std::fmt::Debug for Loader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("shards", &self.shards.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
