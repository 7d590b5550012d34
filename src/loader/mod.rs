//! The engine: opens a model over any [`Source`], lists it, and streams its tensors.
//!
//! Futures here belong to one thread and do nothing unless they are polled; dropping one stops its
//! requests. Nothing knows JavaScript, threads or a clock.

mod file;
mod kept;
mod operation;
mod reading;
mod run;
mod stats;
mod unpack;
mod whole;

pub use file::FIRST_READ_BYTES;
pub(crate) use kept::Kept;
pub use stats::{Arrived, Observer, Stats};

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format;
use crate::index::{Index, Manifest, Metadata, Parsed, Part, Tensor, check_elsewhere};
use crate::plan::{self, DEFAULT_COALESCE_GAP_BYTES};
use crate::retry::Policy;
use crate::source::{Body, Buffer, Source};
use crate::split::Split;
use file::ModelFile;
use futures::channel::oneshot;
use futures::future::{FutureExt, LocalBoxFuture, Shared, WeakShared};
use futures::lock::Mutex;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use operation::{Operation, Order, rows_of};
use run::RunReader;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// How a loader works.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many connections one operation may use at once.
    pub concurrency: usize,
    /// Two wanted ranges closer than this many bytes are read as one.
    pub coalesce_gap_bytes: u64,
    /// Whether to check what the format allows for the bytes that are read.
    pub verify: bool,
    /// When to try again after a failure.
    pub retry: Policy,
}

impl Default for Options {
    fn default() -> Self {
        // 4 connections are what browser loaders settled on: a browser has 6 to a host, and the page needs some.
        Options {
            concurrency: 4,
            coalesce_gap_bytes: DEFAULT_COALESCE_GAP_BYTES,
            verify: true,
            retry: Policy::default(),
        }
    }
}

/// The format of a model, its version and what the model says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelMetadata {
    /// The format's name.
    pub format: &'static str,
    /// The version, as the file states it.
    pub version: String,
    /// What the model says of itself.
    pub metadata: Metadata,
}

/// A tensor whose bytes have arrived.
#[derive(Debug)]
pub struct Loaded<B> {
    /// What the index says of it.
    pub tensor: Rc<Tensor>,
    /// The shape of what was loaded: with rows, of those.
    pub shape: Vec<u64>,
    /// Its components, in the order of the index.
    pub components: Vec<LoadedComponent<B>>,
    /// The algorithm by which the tensor's own bytes were checked, if the format has a digest for them.
    pub verified: Option<&'static str>,
}

/// The bytes of one component.
#[derive(Debug)]
pub struct LoadedComponent<B> {
    /// What it is to the tensor.
    pub role: Box<str>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its decoded bytes.
    pub buffer: B,
}

/// What to load of a tensor, and where to.
#[derive(Debug)]
pub struct TensorRequest<B> {
    /// Only these rows of the outermost dimension, half-open.
    pub rows: Option<Range<u64>>,
    /// A buffer of exactly the right length to put the bytes into.
    pub into: Option<B>,
}

impl<B> Default for TensorRequest<B> {
    fn default() -> Self {
        TensorRequest { rows: None, into: None }
    }
}

type BufferOf<S> = <<S as Source>::Body as Body>::Buffer;
type SharedLoad<B> = Shared<LocalBoxFuture<'static, Result<Rc<Loaded<B>>>>>;
type WeakLoad<B> = WeakShared<LocalBoxFuture<'static, Result<Rc<Loaded<B>>>>>;

/// A model that is read from a [`Source`]: the four verbs of the APR specification's `StreamingLoader`, asynchronous.
///
/// ```
/// use futures::executor::block_on;
/// use std::rc::Rc;
/// use weightstream::loader::{Loader, Options, TensorRequest};
/// use weightstream::source::memory::MemorySource;
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
pub struct Loader<S: Source> {
    manifest: Option<Manifest>,
    /// What the file that was opened first says of all files, where there is no manifest.
    split: Option<Split>,
    shards: Vec<Shard<S>>,
    options: Options,
    stats: Rc<Stats>,
    /// Loads that run, by name: a second caller joins the first.
    loading: RefCell<HashMap<String, WeakLoad<BufferOf<S>>>>,
    prefetched: RefCell<HashMap<String, oneshot::Receiver<Loaded<BufferOf<S>>>>>,
    /// The algorithm that every file as a whole was checked by, when all of it was last read.
    verified_by: Cell<Option<&'static str>>,
}

struct Shard<S: Source> {
    file: Rc<ModelFile<S>>,
    part: Option<Part>,
    opened: Mutex<Option<Rc<OpenShard>>>,
}

struct OpenShard {
    index: Index,
    tensors: Vec<Rc<Tensor>>,
    by_name: HashMap<String, usize>,
}

impl<S: Source> Loader<S> {
    /// Reads the head of the model: a request or two, whatever its size.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a file of no known format, and whatever the source and the format's parser find wrong.
    pub async fn open(source: S, options: Options) -> Result<Self> {
        let stats = Rc::new(Stats::default());
        let file = Rc::new(ModelFile::new(source, Rc::clone(&stats), options.retry));
        let parsed = file.parse().await?;
        if !matches!(parsed, Parsed::Manifest(_)) {
            check_footer(&file)?;
        }
        let (manifest, split, shards) = match parsed {
            Parsed::File(index) => (None, None, vec![Shard::opened(file, index, 0)]),
            Parsed::Manifest(manifest) => {
                let shards = Shard::parts(&file, &manifest)?;
                (Some(manifest), None, shards)
            }
            Parsed::Part(index, split) => {
                let manifest = split.manifest(&index, file.source.file_name().as_deref());
                let manifest = manifest.map_err(|e| e.in_file(file.source.name()))?;
                let mut shards = Shard::parts(&file, &manifest)?;
                if let Some(own) = shards.get_mut(split.number) {
                    *own = Shard::opened(file, index, split.number);
                }
                (Some(manifest), Some(split), shards)
            }
            Parsed::Packed(_) => return Err(Error::new(ErrorKind::Internal, "a packed file was not unpacked")),
        };
        let (loading, prefetched, verified_by) = Default::default();
        Ok(Loader { manifest, split, shards, options, stats, loading, prefetched, verified_by })
    }

    /// The algorithm that every file as a whole was checked by when all of the model was last read; `None` where a
    /// file has no such checksum, or the model was not read whole.
    pub fn verified_by(&self) -> Option<&'static str> {
        self.verified_by.get()
    }

    /// Counters over the life of the loader.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// As [`Loader::stats`], for whoever outlives the loader.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn shared_stats(&self) -> Rc<Stats> {
        Rc::clone(&self.stats)
    }

    /// What the model says of itself. For a model in several files: its manifest, then its first file.
    ///
    /// # Errors
    /// Those of reading the first file's head.
    pub async fn load_metadata(&self) -> Result<ModelMetadata> {
        let mut metadata = self.manifest.as_ref().map(|m| m.metadata.clone()).unwrap_or_default();
        let (mut format, mut version) =
            self.manifest.as_ref().map_or(("", String::new()), |m| (m.format, m.version.clone()));
        if !self.shards.is_empty() {
            let first = self.open_shard(0).await?;
            metadata.extend(first.index.metadata.clone());
            (format, version) = (first.index.format, first.index.version.clone());
        }
        Ok(ModelMetadata { format, version, metadata })
    }

    /// Every tensor, in file order. Reads the heads of all files.
    ///
    /// # Errors
    /// Those of reading the heads; `FORMAT` where a name occurs in two files, or the manifest names a tensor
    /// that is not in its file.
    pub async fn load_index(&self) -> Result<Vec<Rc<Tensor>>> {
        let opening = stream::iter(0..self.shards.len()).map(|shard| self.open_shard(shard));
        let opened: Vec<_> = opening.buffered(self.options.concurrency).try_collect().await?;
        let mut tensors = Vec::new();
        let mut shard_of_name: HashMap<&str, usize> = HashMap::new();
        for (shard, open) in opened.iter().enumerate() {
            for tensor in &open.tensors {
                if let Some(other) = shard_of_name.insert(&tensor.name, shard) {
                    let what = format!("it is in two files of the model, {other} and {shard}");
                    return Err(malformed(what).in_tensor(&tensor.name));
                }
                tensors.push(Rc::clone(tensor));
            }
        }
        if let Some(manifest) = &self.manifest {
            let catalog = manifest.catalog.as_ref().and_then(|catalog| opened.get(catalog.part));
            for stated in manifest.stated_parts(catalog.map(|open| &open.index.elsewhere)) {
                let (name, part) = stated?;
                if shard_of_name.get(name) != Some(&part) {
                    let what = "the manifest says that it is in this file, but it is not";
                    return Err(self.place(part, malformed(what).in_tensor(name)));
                }
            }
        }
        if let Some(split) = &self.split {
            split.check_tensor_count(tensors.len()).map_err(|e| self.place(split.number, e))?;
        }
        Ok(tensors)
    }

    /// Loads one tensor, reading only its bytes. A caller that asks for a tensor while it is being
    /// loaded joins that load.
    ///
    /// # Errors
    /// `NOT_FOUND` for a name that is not in the index; `INVALID_ARGUMENT` for impossible rows or a buffer of
    /// another length; whatever the source and the decoders find wrong.
    pub async fn load_tensor(
        self: &Rc<Self>,
        name: &str,
        request: TensorRequest<BufferOf<S>>,
        observer: Rc<dyn Observer>,
    ) -> Result<Loaded<BufferOf<S>>> {
        if request.rows.is_some() || request.into.is_some() {
            return self.load_alone(name.to_owned(), request, observer).await;
        }
        let prefetched = self.prefetched.borrow_mut().remove(name);
        if let Some(prefetched) = prefetched
            && let Ok(loaded) = prefetched.await
        {
            return Ok(loaded);
        }
        let running = self.loading.borrow().get(name).and_then(WeakShared::upgrade);
        let load = running.unwrap_or_else(|| self.start_load(name, observer));
        let loaded = load.clone().await;
        drop(load);
        Rc::try_unwrap(loaded?).or_else(|shared| shared.duplicate())
    }

    /// Loads many tensors in few long reads and yields each as it completes, in file order within a file.
    /// `None` for all of them: then each file's checksum is checked too, and the stream ends in an error
    /// where one does not match.
    pub async fn tensors(
        self: &Rc<Self>,
        names: Option<Vec<String>>,
        observer: Rc<dyn Observer>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let whole = names.is_none() && self.options.verify;
        let tensors = match names {
            None => self.load_index().await?,
            Some(names) => {
                let mut tensors = Vec::new();
                for name in names {
                    tensors.push(self.find(&name).await?);
                }
                tensors
            }
        };
        self.stream(tensors, true, whole, observer).await
    }

    /// Starts loading tensors that [`Loader::load_tensor`] will be asked for soon. The future does the work: let it
    /// run beside everything else. What fails is left to `load_tensor`, which tries and reports.
    pub fn prefetch(
        self: &Rc<Self>,
        names: Vec<String>,
        observer: Rc<dyn Observer>,
    ) -> impl Future<Output = ()> + use<S> {
        let mut senders = HashMap::new();
        for name in names {
            let mut prefetched = self.prefetched.borrow_mut();
            if !prefetched.contains_key(&name) {
                let (sender, receiver) = oneshot::channel();
                prefetched.insert(name.clone(), receiver);
                senders.insert(name, sender);
            }
        }
        let loader = Rc::clone(self);
        async move {
            let mut tensors = Vec::new();
            for name in senders.keys() {
                tensors.extend(loader.find(name).await.ok());
            }
            senders.retain(|name, _| tensors.iter().any(|tensor| tensor.name == *name));
            let Ok(loads) = loader.stream(tensors, true, false, observer).await else { return };
            let mut loads = Box::pin(loads);
            while let Some(Ok(loaded)) = loads.next().await {
                if let Some(sender) = senders.remove(&loaded.tensor.name) {
                    sender.send(loaded).ok(); // nobody waits for it if the loader was closed
                }
            }
        }
    }

    /// Reads and checks the whole model, keeping nothing, and gives the algorithm that all of it was checked by.
    ///
    /// # Errors
    /// `CHECKSUM`, `FORMAT` or `TRUNCATED` for the first thing that is wrong.
    pub async fn verify(self: &Rc<Self>, observer: Rc<dyn Observer>) -> Result<Option<&'static str>> {
        let tensors = self.load_index().await?;
        let mut stream = Box::pin(self.stream(tensors, false, true, observer).await?);
        while stream.try_next().await?.is_some() {}
        Ok(self.verified_by.get())
    }

    /// Forgets what was prefetched, which stops its requests once nothing else runs.
    pub fn forget_prefetched(&self) {
        self.prefetched.borrow_mut().clear();
    }

    fn start_load(self: &Rc<Self>, name: &str, observer: Rc<dyn Observer>) -> SharedLoad<BufferOf<S>> {
        let loader = Rc::clone(self);
        let owned_name = name.to_owned();
        let load = async move { loader.load_alone(owned_name, TensorRequest::default(), observer).await.map(Rc::new) };
        let load = load.boxed_local().shared();
        let mut loading = self.loading.borrow_mut();
        loading.retain(|_, load| load.upgrade().is_some());
        loading.extend(load.downgrade().map(|weak| (name.to_owned(), weak)));
        load
    }

    async fn load_alone(
        self: &Rc<Self>,
        name: String,
        request: TensorRequest<BufferOf<S>>,
        observer: Rc<dyn Observer>,
    ) -> Result<Loaded<BufferOf<S>>> {
        let tensor = self.find(&name).await?;
        let rows = request.rows.map(|rows| rows_of(&tensor, rows)).transpose()?;
        if let Some(into) = &request.into {
            check_into(into.byte_length(), &tensor, rows.as_ref().map(|rows| &rows.bytes))?;
        }
        let orders = vec![Order { tensor, rows, into: request.into }];
        let mut loads = Box::pin(self.stream_orders(orders, true, false, observer).await?);
        match loads.try_next().await? {
            Some(loaded) => Ok(loaded),
            None => Err(Error::new(ErrorKind::Internal, "the load ended without its tensor").in_tensor(&name)),
        }
    }

    async fn stream(
        self: &Rc<Self>,
        tensors: Vec<Rc<Tensor>>,
        keeps: bool,
        whole: bool,
        observer: Rc<dyn Observer>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let orders = tensors.into_iter().map(|tensor| Order { tensor, rows: None, into: None }).collect();
        self.stream_orders(orders, keeps, whole, observer).await
    }

    async fn stream_orders(
        self: &Rc<Self>,
        orders: Vec<Order<BufferOf<S>>>,
        keeps: bool,
        whole: bool,
        observer: Rc<dyn Observer>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let verify = whole || self.options.verify;
        if verify {
            self.read_pages(&orders).await?;
        }
        let operation = Rc::new(Operation::new(orders, keeps, whole, verify, observer, Rc::clone(&self.stats)));
        let mut wanted = operation.wanted(|shard, table| self.shards.get(shard)?.file.known_pages(table));
        let mut begun = Ok(());
        if whole {
            begun = self.shards.iter().try_for_each(|shard| whole::begin(&shard.file, shard.part.as_ref()));
            whole::add_gaps(&mut wanted, self.shards.iter().map(|shard| shard.file.length()));
        }
        let runs = plan::plan(wanted, self.options.coalesce_gap_bytes);
        let files: Vec<_> = self.shards.iter().map(|shard| Rc::clone(&shard.file)).collect();
        let readers = runs.into_iter().filter_map(move |run| {
            let file = Rc::clone(files.get(run.shard)?);
            Some(RunReader::new(Rc::clone(&operation), file, run))
        });
        let streams = readers.map(|reader| {
            let step = async |mut reader: RunReader<S>| Ok(reader.next().await?.map(|loaded| (loaded, reader)));
            stream::try_unfold(reader, step).boxed_local()
        });
        let loader = Rc::clone(self);
        let check = async move { if whole { loader.finish_files().await } else { Ok(()) } };
        let check = stream::once(check).filter_map(async |outcome: Result<()>| outcome.err().map(Err));
        let begun = stream::iter(begun.err().map(Err));
        Ok(begun.chain(stream::iter(streams).flatten_unordered(self.options.concurrency)).chain(check))
    }

    /// Reads the digests of the pages that orders will be checked by.
    async fn read_pages(&self, orders: &[Order<BufferOf<S>>]) -> Result<()> {
        for Order { tensor, rows, .. } in orders {
            for table in tensor.components.iter().filter_map(|component| component.checking_pages(rows.is_none())) {
                if let Some(shard) = self.shards.get(tensor.shard) {
                    shard.file.read_pages(table).await.map_err(|e| e.in_tensor(&tensor.name))?;
                }
            }
        }
        Ok(())
    }

    async fn finish_files(&self) -> Result<()> {
        let mut algorithms = Vec::new();
        for shard in &self.shards {
            algorithms.push(whole::finish(&shard.file).await?);
        }
        let first = algorithms.first().copied().flatten();
        self.verified_by.set(first.filter(|_| algorithms.iter().all(|algorithm| *algorithm == first)));
        Ok(())
    }

    /// The tensor of that name, opening only the file that the manifest says it is in.
    async fn find(&self, name: &str) -> Result<Rc<Tensor>> {
        let candidates = self.stated_part(name).await?.map_or(0..self.shards.len(), |shard| shard..shard + 1);
        for shard in candidates {
            let open = self.open_shard(shard).await?;
            if let Some(tensor) = open.by_name.get(name).and_then(|&at| open.tensors.get(at)) {
                return Ok(Rc::clone(tensor));
            }
        }
        Err(Error::new(ErrorKind::NotFound, "the model has no tensor of this name").in_tensor(name))
    }

    /// The file that the tensor of that name is in, if the manifest or its catalog says.
    async fn stated_part(&self, name: &str) -> Result<Option<usize>> {
        let Some(manifest) = &self.manifest else { return Ok(None) };
        match (manifest.tensor_parts.get(name), &manifest.catalog) {
            (Some(part), _) => Ok(Some(*part)),
            (None, Some(catalog)) => {
                let open = self.open_shard(catalog.part).await?;
                open.index.elsewhere.get(name).map(|shard| catalog.part_of(name, *shard)).transpose()
            }
            (None, None) => Ok(None),
        }
    }

    async fn open_shard(&self, shard: usize) -> Result<Rc<OpenShard>> {
        let Shard { file, part, opened } = self.shards.get(shard).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("file {shard} of {} was to be opened", self.shards.len()))
        })?;
        let mut opened = opened.lock().await;
        if let Some(open) = &*opened {
            return Ok(Rc::clone(open));
        }
        let (index, split) = match file.look(format::parse).await? {
            Parsed::File(index) => (index, None),
            Parsed::Part(index, split) => (index, Some(split)),
            Parsed::Manifest(_) => {
                return Err(self.place(shard, malformed("a manifest names another manifest as a file of the model")));
            }
            // Its length and its digest, as the manifest states them, would be those of the packed file.
            Parsed::Packed(_) => {
                let what = "a manifest names a file that is compressed as a whole, which no tool writes";
                return Err(self.place(shard, Error::new(ErrorKind::Unsupported, what)));
            }
        };
        if let Some(first) = &self.split {
            first.check_part(split.as_ref(), shard).map_err(|e| self.place(shard, e))?;
        }
        check_footer(file)?;
        check_length(part.as_ref(), file.length()).map_err(|e| self.place(shard, e))?;
        check_elsewhere(&index, self.manifest.as_ref(), shard).map_err(|e| self.place(shard, e))?;
        file.expect_contents(&index);
        let open = Rc::new(OpenShard::new(index, shard));
        *opened = Some(Rc::clone(&open));
        Ok(open)
    }

    fn place(&self, shard: usize, error: Error) -> Error {
        match self.shards.get(shard) {
            Some(shard) => error.in_file(shard.file.source.name()),
            None => error,
        }
    }
}

impl<S: Source> std::fmt::Debug for Loader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("shards", &self.shards.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<S: Source> Shard<S> {
    /// A file whose head was read.
    fn opened(file: Rc<ModelFile<S>>, index: Index, shard: usize) -> Self {
        file.expect_contents(&index);
        Shard { file, part: None, opened: Mutex::new(Some(Rc::new(OpenShard::new(index, shard)))) }
    }

    /// The files that a manifest names, beside `file` and not yet read.
    fn parts(file: &ModelFile<S>, manifest: &Manifest) -> Result<Vec<Self>> {
        let part = |part: &Part| {
            let file = Rc::new(file.part(part)?);
            Ok(Shard { file, part: Some(part.clone()), opened: Mutex::new(None) })
        };
        manifest.parts.iter().map(part).collect()
    }
}

impl OpenShard {
    fn new(mut index: Index, shard: usize) -> Self {
        let tensors = std::mem::take(&mut index.tensors).into_iter().map(|tensor| Rc::new(Tensor { shard, ..tensor }));
        let tensors: Vec<_> = tensors.collect();
        let by_name = tensors.iter().enumerate().map(|(at, tensor)| (tensor.name.clone(), at)).collect();
        OpenShard { index, tensors, by_name }
    }
}

impl<B: Buffer> Loaded<B> {
    fn duplicate(self: Rc<Self>) -> Result<Self> {
        let components = self.components.iter().map(|component| {
            let LoadedComponent { role, dtype, buffer } = component;
            Ok(LoadedComponent { role: role.clone(), dtype: dtype.clone(), buffer: buffer.duplicate()? })
        });
        let components = components.collect::<Result<_>>()?;
        Ok(Loaded { tensor: Rc::clone(&self.tensor), shape: self.shape.clone(), components, verified: self.verified })
    }
}

/// A file so small that its footer came with the head is checked at once for being whole.
fn check_footer<S: Source>(file: &ModelFile<S>) -> Result<()> {
    if file.length().is_some() {
        file.glance(format::check_tail)?;
    }
    Ok(())
}

/// Checks that a file is as long as its manifest says.
pub(crate) fn check_length(part: Option<&Part>, length: Option<u64>) -> Result<()> {
    match (part.and_then(|part| part.byte_length), length) {
        (Some(stated), Some(length)) if stated != length => {
            let kind = if length < stated { ErrorKind::Truncated } else { ErrorKind::Format };
            let error = Error::new(kind, format!("the manifest says {stated} bytes, but the file has {length}"));
            Err(error
                .advise("The manifest and this file do not belong together: upload the model again, all files of it."))
        }
        _ => Ok(()),
    }
}

fn check_into(into_length: u64, tensor: &Tensor, rows: Option<&Range<u64>>) -> Result<()> {
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name));
    if tensor.components.len() != 1 {
        return refuse("`into` takes one buffer, and this tensor has several components".to_owned());
    }
    let needed = rows.map(|bytes| bytes.end - bytes.start).or_else(|| tensor.byte_length());
    match needed {
        Some(needed) if needed == into_length => Ok(()),
        Some(needed) => refuse(format!("`into` has {into_length} bytes, but {needed} are loaded")),
        None => refuse("`into` takes what is known to fit, and the file does not say how long this is".to_owned()),
    }
}
