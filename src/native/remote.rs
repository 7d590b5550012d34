//! Models at URLs, without async: what a [`Reader`](super::Reader) is to files.

use super::Verified;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::loader::{Loader, ModelMetadata, Options, PieceReader};
use crate::progress::{Arrived, Progress};
use crate::source::http::HttpSource;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::MissedTickBehavior;

/// How often a blocked call checks whether it was cancelled: Ctrl-C should seem to work at once.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A model at a URL: its head is read by the opening, its tensors' bytes when they are asked for, in little memory.
///
/// It has a runtime of its own, which works only while it is called. What is async uses
/// [`Loader`] over a [`HttpSource`] instead.
#[derive(Debug)]
pub struct RemoteReader {
    // Before the runtime: what is dropped with it stops its requests.
    pieces: RefCell<PieceReader<HttpSource>>,
    loader: Rc<Loader<HttpSource>>,
    metadata: ModelMetadata,
    tensors: Vec<Tensor>,
    warnings: Vec<(String, String)>,
    runtime: Runtime,
}

impl RemoteReader {
    /// Reads the heads of all files of the model at `url`. `headers` (name and value) are sent to its origin and to no
    /// other.
    ///
    /// # Errors
    /// Those of [`HttpSource::new`], of [`Loader::open`] and of [`Loader::load_index`].
    pub fn open(url: &str, headers: &[(String, String)], options: Options) -> Result<Self> {
        RemoteReader::open_source(HttpSource::new(url, headers)?, options)
    }

    /// As [`RemoteReader::open`], for a source that was made with options of its own, such as
    /// [`HttpSource::same_origin_only`].
    ///
    /// # Errors
    /// Those of [`Loader::open`] and of [`Loader::load_index`].
    pub fn open_source(source: HttpSource, options: Options) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (loader, metadata, tensors, warnings) = runtime.block_on(async {
            let loader = Rc::new(Loader::open(source, options).await?);
            let tensors = loader.load_index().await?.iter().map(|tensor| Tensor::clone(tensor)).collect();
            let (metadata, warnings) = (loader.load_metadata().await?, loader.warnings().await?);
            Ok::<_, Error>((loader, metadata, tensors, warnings))
        })?;
        let pieces = RefCell::new(PieceReader::new(Rc::clone(&loader)));
        Ok(RemoteReader { pieces, loader, metadata, tensors, warnings, runtime })
    }

    /// The model's format, its version and what it says of itself.
    pub fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    /// Every tensor, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// How many files hold tensors.
    pub fn file_count(&self) -> usize {
        self.loader.file_count()
    }

    /// Things a user may want to know that are no reason to refuse the model, each with the file's URL.
    pub fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.warnings.iter().map(|(file, warning)| (file.as_str(), warning.as_str()))
    }

    /// Reads a component in pieces, in order, and gives the algorithm by which it was checked, if there is one. To read
    /// the tensors in their order takes one long request a file.
    ///
    /// While nothing arrives, `emit` gets an empty piece a few times a second: an error from it ends the reading.
    ///
    /// # Errors
    /// As for [`PieceReader::read`]; `INVALID_ARGUMENT` where `emit` itself reads.
    pub fn read_pieces(
        &self,
        tensor: &Tensor,
        role: &str,
        emit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<&'static str>> {
        let mut pieces = self.pieces.try_borrow_mut().map_err(|_| {
            let what = "a component was to be read from within the reading of another one";
            Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name)
        })?;
        let emit = RefCell::new(emit);
        let pass_on = |bytes: &[u8]| match emit.try_borrow_mut() {
            Ok(mut emit) => emit(bytes),
            Err(_) => Err(Error::new(ErrorKind::Internal, "a piece was passed on while another one was")),
        };
        let mut own = pass_on;
        self.block_on(pieces.read(tensor, role, &mut own), || pass_on(&[]))
    }

    /// Reads and checks everything that the files let one check, holding no more than a piece of a tensor for each
    /// connection.
    ///
    /// # Errors
    /// `CHECKSUM` or `FORMAT` for the first thing that is wrong; those of the network.
    pub fn verify(&self, progress: &(dyn Progress + Sync)) -> Result<Verified> {
        let meter = Rc::new(Meter::default());
        let work = self.loader.verify_in_detail(Rc::clone(&meter) as Rc<dyn Progress>);
        let verified = self.block_on(work, || {
            meter.tell(progress);
            match progress.is_cancelled() {
                true => Err(Error::new(ErrorKind::Network, "the check was interrupted").advise("Run it again.")),
                false => Ok(()),
            }
        });
        meter.tell(progress);
        verified
    }

    /// Runs `work` to its end, or until `check` fails, which is called whenever bytes have arrived and a few times a
    /// second while none do.
    fn block_on<T>(&self, work: impl Future<Output = Result<T>>, mut check: impl FnMut() -> Result<()>) -> Result<T> {
        let mut work = pin!(work);
        self.runtime.block_on(async {
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
}

/// What an operation tells while it runs, kept until the one who watches can be told: an observer outlives no call.
#[derive(Default)]
struct Meter {
    expected: Cell<Option<u64>>,
    arrived: Cell<u64>,
}

impl Meter {
    fn tell(&self, progress: &(dyn Progress + Sync)) {
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

    fn arrived(&self, arrived: Arrived<'_>) {
        if arrived.tensor.is_some() {
            self.arrived.set(self.arrived.get() + (arrived.range.end - arrived.range.start));
        }
    }
}
