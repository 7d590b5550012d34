//! Models at URLs with a blocking API: the remote counterpart of [`Reader`](super::Reader).

use super::Verified;
use crate::adapter::Adapter;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "write")]
use crate::identity::Identity;
use crate::index::{Algorithm, Tensor};
use crate::loader::{Loader, ModelMetadata, Options, PieceReader, RemoteFile};
use crate::progress::{BytesArrived, Progress};
use crate::retry::RetryPolicy;
use crate::source::http::HttpSource;
use crate::source::{ModelSource, Source};
#[cfg(feature = "write")]
use crate::window::{Stop, Window};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::MissedTickBehavior;

/// The interval at which a blocked call checks for cancellation, short enough for Ctrl-C to appear immediate.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A model at a URL. Opening it reads the heads of its files; tensors are read on demand, with little memory.
///
/// The reader has its own runtime, which runs only during calls. Async code uses [`Loader`] with a [`HttpSource`]
/// instead.
#[derive(Debug)]
pub struct RemoteReader<S: ModelSource = HttpSource> {
    // Declared before the runtime, so that it is dropped first and stops its requests.
    pieces: RefCell<PieceReader<S>>,
    loader: Rc<Loader<S>>,
    metadata: ModelMetadata,
    tensors: Vec<Tensor>,
    warnings: Vec<(String, String)>,
    /// The URL of the file that was opened.
    #[cfg(feature = "write")]
    url: String,
    runtime: Runtime,
}

impl RemoteReader {
    /// Reads the heads of all files of the model at `url`. `headers` (name and value) are sent only to its origin.
    ///
    /// # Errors
    /// As for [`HttpSource::new`], [`Loader::open`] and [`Loader::load_index`].
    pub fn open(url: &str, headers: &[(String, String)], options: Options) -> Result<Self> {
        RemoteReader::open_source(HttpSource::new(url, headers)?, options)
    }
}

impl<S: ModelSource> RemoteReader<S> {
    /// Like [`RemoteReader::open`], for another source, or one with options such as [`HttpSource::same_origin_only`].
    ///
    /// # Errors
    /// As for [`Loader::open`] and [`Loader::load_index`].
    pub fn open_source(source: S, options: Options) -> Result<Self> {
        RemoteReader::open_with(source, Vec::new(), options)
    }

    /// Like [`RemoteReader::open_source`], with adapters and the sources of their files: the locations of the adapters
    /// are not used.
    ///
    /// # Errors
    /// As for [`RemoteReader::open_source`]; `UNSUPPORTED`, `NOT_FOUND` and `FORMAT` for what is no adapter of this
    /// model.
    pub fn open_with(source: S, adapters: Vec<(S, Adapter)>, options: Options) -> Result<Self> {
        #[cfg(feature = "write")]
        let url = source.name().to_owned();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (loader, metadata, tensors, warnings) = runtime.block_on(async {
            let loader = Rc::new(Loader::open(source, options).await?.with_adapters(adapters).await?);
            let tensors = loader.load_index().await?.iter().map(Arc::unwrap_or_clone).collect();
            let (metadata, warnings) = (loader.load_metadata().await?, loader.warnings().await?);
            Ok::<_, Error>((loader, metadata, tensors, warnings))
        })?;
        let pieces = RefCell::new(PieceReader::new(Rc::clone(&loader)));
        Ok(RemoteReader {
            pieces,
            loader,
            metadata,
            tensors,
            warnings,
            #[cfg(feature = "write")]
            url,
            runtime,
        })
    }

    /// The model's format, version and metadata.
    pub fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    /// Every tensor, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The files with tensors: their URLs, and their lengths in bytes if the server states them. A tensor's `shard` is
    /// a position in this list.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, Option<u64>)> {
        self.loader.files()
    }

    /// The URLs of all files: the one that was opened, and the files with tensors.
    #[cfg(feature = "write")]
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.url.as_str()).chain(self.files().map(|(url, _)| url))
    }

    /// The number of files with tensors.
    pub fn file_count(&self) -> usize {
        self.loader.file_count()
    }

    /// Warnings about the model, each with the URL of the file.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.warnings.iter().map(|(file, warning)| (file.as_str(), warning.as_str()))
    }

    /// Reads a component in pieces, in order. Returns the algorithm of the verified digest, if there is one. Reading
    /// the tensors in their order takes one long request per file.
    ///
    /// While no bytes arrive, `emit` receives an empty piece several times a second; an error from it stops the read.
    ///
    /// # Errors
    /// As for [`PieceReader::read`]; `INVALID_ARGUMENT` if `emit` calls this function.
    pub fn read_pieces(
        &self,
        tensor: &Tensor,
        role: &str,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        let mut pieces = self.pieces.try_borrow_mut().map_err(|_| {
            let what = "a component cannot be read while another one is being read";
            Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name)
        })?;
        self.read_with(&mut pieces, tensor, role, emit)
    }

    /// Like [`RemoteReader::read_pieces`], with another reader of components.
    pub(super) fn read_with(
        &self,
        pieces: &mut PieceReader<S>,
        tensor: &Tensor,
        role: &str,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<Algorithm>> {
        let emit = RefCell::new(emit);
        let forward = |bytes: &[u8]| match emit.try_borrow_mut() {
            Ok(mut emit) => emit(bytes),
            Err(_) => Err(Error::new(ErrorKind::Internal, "a piece was emitted while another one was being emitted")),
        };
        let mut forward_pieces = forward;
        self.block_on(pieces.read(tensor, role, &mut forward_pieces), || forward(&[]))
    }

    /// Describes the versions of the files; `None` if a server states neither an ETag nor a date.
    #[cfg(feature = "write")]
    pub(crate) fn version(&self) -> Option<String> {
        let describe = |identity: Option<Identity>| {
            let Identity { length, etag, last_modified } = identity?;
            Some(format!("{} bytes, {}; ", length?, etag.or(last_modified)?))
        };
        self.loader.identities().map(describe).collect()
    }

    /// Runs a parser over the first file.
    #[cfg(feature = "write")]
    pub(crate) fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        self.block_on(self.loader.parse_first(parse), || Ok(()))
    }

    /// Verifies the whole model: every block is decoded, and every checksum is compared. Buffers at most a piece of a
    /// tensor for each connection.
    ///
    /// # Errors
    /// `CHECKSUM` or `FORMAT` for the first error found; network errors.
    pub fn verify(&self, progress: &(dyn Progress + Sync)) -> Result<Verified> {
        let meter = Rc::new(Meter::default());
        let work = self.loader.verify_in_detail(Rc::clone(&meter) as Rc<dyn Progress>);
        let verified = self.block_on(work, || {
            meter.report_to(progress);
            match progress.is_cancelled() {
                true => Err(Error::new(ErrorKind::Network, "the check was interrupted").advise("Run it again.")),
                false => Ok(()),
            }
        });
        meter.report_to(progress);
        verified
    }

    /// Runs calls of the loader to completion: those of the crates for candle and burn, for example.
    ///
    /// # Errors
    /// Those of `work`.
    ///
    /// ```no_run
    /// # use weightstream::{Result, internals::loader::Options, internals::native::RemoteReader};
    /// # fn main() -> Result<()> {
    /// let reader = RemoteReader::open("https://example.org/model.gguf", &[], Options::default())?;
    /// let metadata = reader.run(async |loader| loader.load_metadata().await)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<T>(&self, work: impl AsyncFnOnce(Rc<Loader<S>>) -> Result<T>) -> Result<T> {
        self.runtime.block_on(work(Rc::clone(&self.loader)))
    }

    #[cfg(feature = "write")]
    pub(super) fn loader(&self) -> &Rc<Loader<S>> {
        &self.loader
    }

    pub(super) fn block_on<T>(
        &self,
        work: impl Future<Output = Result<T>>,
        check: impl FnMut() -> Result<()>,
    ) -> Result<T> {
        block_on(&self.runtime, work, check)
    }
}

/// Runs `work` to completion, or until `check` fails. Calls `check` when bytes have arrived, and several times a second
/// while none arrive.
///
/// # Errors
/// Those of `work` and `check`.
pub fn block_on<T>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T>>,
    mut check: impl FnMut() -> Result<()>,
) -> Result<T> {
    let mut work = pin!(work);
    runtime.block_on(async {
        let mut ticks = tokio::time::interval(CANCEL_CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        poll_fn(|context| {
            let outcome = work.as_mut().poll(context);
            if outcome.is_ready() {
                return outcome;
            }
            while ticks.poll_tick(context).is_ready() {}
            check().map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending)
        })
        .await
    })
}

/// Reads a whole file of any format at a URL, which must not be longer than `limit`.
///
/// # Errors
/// `LIMIT` for a longer file; those of the source.
pub fn read_url(source: HttpSource, limit: u64) -> Result<Vec<u8>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let file = RemoteFile::open(source, RetryPolicy::default(), None).await?;
        let mut reader = file.read(0..limit.saturating_add(1));
        let mut bytes = Vec::new();
        let mut take = |buffer: &Vec<u8>, length: u64| {
            bytes.extend_from_slice(buffer.get(..length as usize).unwrap_or_default());
        };
        while reader.chunk(&mut take).await?.is_some() {}
        if bytes.len() as u64 > limit {
            let error = Error::new(ErrorKind::Limit, format!("the file has more than {limit} bytes"));
            return Err(error.in_file(file.source().name()));
        }
        Ok(bytes)
    })
}

/// Collects progress while an operation runs: the caller's `Progress` is borrowed only during a call.
#[derive(Default)]
struct Meter {
    expected: Cell<Option<u64>>,
    arrived: Cell<u64>,
}

impl Meter {
    fn report_to(&self, progress: &(dyn Progress + Sync)) {
        if let Some(expected) = self.expected.take() {
            progress.expects(expected);
        }
        match self.arrived.take() {
            0 => {}
            bytes => progress.advanced(bytes),
        }
    }
}

impl Progress for Meter {
    fn expects(&self, payload_bytes: u64) {
        self.expected.set(Some(payload_bytes));
    }

    fn arrived(&self, arrived: BytesArrived<'_>) {
        if arrived.tensor.is_some() {
            self.arrived.set(self.arrived.get() + (arrived.range.end - arrived.range.start));
        }
    }
}
