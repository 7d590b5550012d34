//! The thread of a model: the loader and its source are not `Send`, so they stay on a thread of their own, and calls
//! are messages to it.

use super::block_on::mark_model_thread;
use super::request::{LoadRequest, StreamRequest};
use super::source_model::{ModelIndex, SourceModel};
use super::tensor::LoadedTensor;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::Verified;
#[cfg(feature = "http")]
use crate::source::Mirror;
use crate::source::{Body, ModelSource};
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures::channel::oneshot;
use futures::future::{Either, FutureExt, LocalBoxFuture, select};
use futures::sink::SinkExt;
use futures::stream::{FuturesUnordered, LocalBoxStream, Stream, StreamExt};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

/// A model that its thread calls, over any source.
pub(super) trait Served {
    fn index(&self) -> Arc<ModelIndex>;
    fn load(&self, request: LoadRequest) -> LocalBoxFuture<'_, Result<LoadedTensor>>;
    fn stream(&self, request: StreamRequest) -> LocalBoxStream<'static, Result<LoadedTensor>>;
    fn verify(&self) -> LocalBoxFuture<'_, Result<Verified>>;
    fn prefetch(&self, names: Vec<String>) -> LocalBoxFuture<'static, ()>;
    #[cfg(feature = "http")]
    fn mirrors(&self) -> Vec<Mirror>;
}

impl<S: ModelSource<Body: Body<Buffer = Vec<u8>>>> Served for SourceModel<S> {
    fn index(&self) -> Arc<ModelIndex> {
        Arc::clone(SourceModel::index(self))
    }

    fn load(&self, request: LoadRequest) -> LocalBoxFuture<'_, Result<LoadedTensor>> {
        SourceModel::load(self, request).boxed_local()
    }

    fn stream(&self, request: StreamRequest) -> LocalBoxStream<'static, Result<LoadedTensor>> {
        SourceModel::stream(self, request)
    }

    fn verify(&self) -> LocalBoxFuture<'_, Result<Verified>> {
        SourceModel::verify(self).boxed_local()
    }

    fn prefetch(&self, names: Vec<String>) -> LocalBoxFuture<'static, ()> {
        SourceModel::prefetch(self, names).boxed_local()
    }

    #[cfg(feature = "http")]
    fn mirrors(&self) -> Vec<Mirror> {
        SourceModel::mirrors(self)
    }
}

/// A call: what the thread does with the model.
type Job = Box<dyn FnOnce(Rc<dyn Served>) -> LocalBoxFuture<'static, ()> + Send>;

/// A handle to the thread of a model. The thread ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub(super) struct ModelThread {
    jobs: UnboundedSender<Job>,
}

impl ModelThread {
    /// Starts a thread that opens a model. Dropping the future ends it.
    ///
    /// # Errors
    /// Those of `open`; `IO` if the thread or its runtime cannot be started.
    pub(super) async fn start<F>(open: F) -> Result<(ModelThread, Arc<ModelIndex>)>
    where
        F: FnOnce() -> LocalBoxFuture<'static, Result<Rc<dyn Served>>> + Send + 'static,
    {
        let (jobs, received) = mpsc::unbounded();
        let (sender, opened) = oneshot::channel();
        thread::Builder::new().name("weightstream".to_owned()).spawn(move || run(open, sender, received))?;
        let index = opened.await.unwrap_or_else(|_| Err(lost()))?;
        Ok((ModelThread { jobs }, index))
    }

    pub(super) async fn load(&self, request: LoadRequest) -> Result<LoadedTensor> {
        self.call(|model| async move { model.load(request).await }.boxed_local()).await
    }

    #[cfg(feature = "http")]
    pub(super) async fn mirrors(&self) -> Result<Vec<Mirror>> {
        self.call(|model| async move { Ok(model.mirrors()) }.boxed_local()).await
    }

    pub(super) async fn verify(&self) -> Result<Verified> {
        self.call(|model| async move { model.verify().await }.boxed_local()).await
    }

    /// Continues until the tensors are loaded, or the thread ends.
    pub(super) fn prefetch(&self, names: Vec<String>) {
        let job: Job = Box::new(|model| model.prefetch(names));
        self.jobs.unbounded_send(job).ok(); // a thread that ended fails the next load
    }

    pub(super) fn stream(&self, request: StreamRequest) -> TensorStream {
        let (mut sender, tensors) = mpsc::channel(0);
        let (alive, dropped) = oneshot::channel::<()>();
        let job: Job = Box::new(|model| {
            let work = async move {
                let mut loads = model.stream(request);
                while let Some(loaded) = loads.next().await {
                    sender.send(Step::Tensor(loaded)).await.ok(); // `dropped` ends this
                }
                sender.send(Step::End).await.ok();
            };
            async move { drop(select(pin!(work), dropped).await) }.boxed_local()
        });
        self.jobs.unbounded_send(job).ok(); // the stream then ends with an error
        TensorStream { tensors: Some(tensors), _alive: alive, _thread: self.clone() }
    }

    /// Runs a call on the thread, until its future is dropped.
    fn call<T, W>(&self, work: W) -> impl Future<Output = Result<T>> + Send + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(Rc<dyn Served>) -> LocalBoxFuture<'static, Result<T>> + Send + 'static,
    {
        let (mut sender, outcome) = oneshot::channel();
        let job: Job = Box::new(move |model| {
            async move {
                let finished = match select(work(model), sender.cancellation()).await {
                    Either::Left((finished, _)) => finished,
                    Either::Right(_) => return,
                };
                sender.send(finished).ok();
            }
            .boxed_local()
        });
        let sent = self.jobs.unbounded_send(job);
        async move {
            sent.map_err(|_| lost())?;
            outcome.await.unwrap_or_else(|_| Err(lost()))
        }
    }
}

/// Opens the model, and runs the calls beside each other until the last handle is dropped.
async fn serve<F>(open: F, mut opened: oneshot::Sender<Result<Arc<ModelIndex>>>, mut jobs: UnboundedReceiver<Job>)
where
    F: FnOnce() -> LocalBoxFuture<'static, Result<Rc<dyn Served>>>,
{
    let model = match select(open(), opened.cancellation()).await {
        Either::Left((Ok(model), _)) => model,
        Either::Left((Err(error), _)) => return drop(opened.send(Err(error))),
        Either::Right(_) => return,
    };
    if opened.send(Ok(model.index())).is_err() {
        return;
    }
    let mut running = FuturesUnordered::new();
    poll_fn(|context| {
        loop {
            match jobs.poll_next_unpin(context) {
                Poll::Ready(Some(job)) => running.push(job(Rc::clone(&model))),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        while let Poll::Ready(Some(())) = running.poll_next_unpin(context) {}
        Poll::Pending
    })
    .await;
}

/// Runs the thread. HTTP requires tokio.
fn run<F>(open: F, opened: oneshot::Sender<Result<Arc<ModelIndex>>>, jobs: UnboundedReceiver<Job>)
where
    F: FnOnce() -> LocalBoxFuture<'static, Result<Rc<dyn Served>>>,
{
    mark_model_thread();
    #[cfg(feature = "http")]
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(serve(open, opened, jobs)),
        Err(error) => drop(opened.send(Err(error.into()))),
    }
    #[cfg(not(feature = "http"))]
    super::block_on::wait(serve(open, opened, jobs));
}

fn lost() -> Error {
    let error = Error::new(ErrorKind::Internal, "the thread of the model ended");
    error.advise("Open the model again, and please report it.")
}

enum Step {
    Tensor(Result<LoadedTensor>),
    End,
}

/// The tensors of a [`StreamRequest`], each as soon as it is complete: a [`Stream`]. An error is the last item.
/// Dropping the stream stops the load.
pub struct TensorStream {
    /// `None` after the last tensor.
    tensors: Option<mpsc::Receiver<Step>>,
    _alive: oneshot::Sender<()>,
    _thread: ModelThread,
}

impl TensorStream {
    /// The next tensor; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<LoadedTensor>> {
        StreamExt::next(self).await
    }
}

impl Stream for TensorStream {
    type Item = Result<LoadedTensor>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(tensors) = &mut self.tensors else { return Poll::Ready(None) };
        let step = match tensors.poll_next_unpin(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Step::Tensor(loaded))) => return Poll::Ready(Some(loaded)),
            Poll::Ready(Some(Step::End)) => None,
            Poll::Ready(None) => Some(Err(lost())),
        };
        self.tensors = None;
        Poll::Ready(step)
    }
}

impl std::fmt::Debug for TensorStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorStream").finish_non_exhaustive()
    }
}
