//! Loads tensors before they are requested.

use crate::error::Result;
use crate::index::Tensor;
use crate::loader::prefetch_progress::{PrefetchProgress, Restarted, report};
use crate::loader::request::Order;
use crate::loader::schedule::batch::Call;
use crate::loader::schedule::planned::Form;
use crate::loader::transfer::priority::Prefetching;
use crate::loader::{Loaded, Loader, Prefetched, PrefetchedReceiver};
use crate::progress::{BytesArrived, Progress};
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::channel::oneshot;
use futures::stream::StreamExt;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

impl<S: ModelSource> Loader<S> {
    /// Starts to load tensors, in this order, that will soon be requested from [`Loader::load_tensor`]. The returned
    /// future does the work: poll it concurrently with other work. Prefetching pauses while `load_tensor` loads another
    /// tensor. Resolves to whether all tensors have arrived that were still wanted; errors are not returned, because
    /// `load_tensor` loads such a tensor again and reports the error.
    pub fn prefetch(
        self: &Rc<Self>,
        names: Vec<String>,
        observer: Rc<dyn Progress>,
    ) -> impl Future<Output = bool> + use<S> {
        let senders = Senders::default();
        let mut wanted = Vec::new();
        for name in names {
            let mut prefetched = self.prefetched.borrow_mut();
            if !prefetched.contains_key(&name) {
                let (sender, receiver) = oneshot::channel();
                let arrival = Rc::<PrefetchProgress>::default();
                prefetched.insert(name.clone(), (receiver, Rc::clone(&arrival)));
                senders.borrow_mut().insert(name.clone(), (sender, arrival));
                wanted.push(name);
            }
        }
        // Outside of the future, which may be dropped before it starts.
        let end = PrefetchEnd { loader: Rc::clone(self), senders: Rc::clone(&senders) };
        async move {
            let loader = Rc::clone(&end.loader);
            loader.priority.yield_to_demands(None).await;
            let mut tensors: Vec<Arc<Tensor>> = Vec::new();
            for name in wanted {
                let Ok(tensor) = loader.find(&name).await else { continue };
                if let Some((_, arrival)) = senders.borrow().get(&name) {
                    arrival.set_tensor(&tensor);
                }
                tensors.push(tensor);
            }
            let budget = Rc::clone(&loader.prefetch_budget);
            let priority = Rc::clone(&loader.priority);
            let prefetching = Some(Rc::new(Prefetching { priority, is_wanted: is_wanted(&senders) }));
            let defaults = loader.call(Rc::new(FollowedProgress { observer, senders: Rc::clone(&senders) }));
            let call = Call { budget: Rc::clone(&budget), prefetching, order: Order::Given, ..defaults };
            let Ok(loads) = loader.stream(tensors, Form::default(), call).await else { return false };
            let mut loads = Box::pin(loads);
            while let Some(Ok(loaded)) = loads.next().await {
                let sender = senders.borrow_mut().remove(&loaded.tensor.name);
                if let Some((sender, _)) = sender {
                    let bytes = loaded.components.iter().map(|component| component.buffer.byte_length()).sum();
                    let permit = budget.take(&loaded.tensor.name, bytes);
                    sender.send((loaded, permit)).ok(); // the receiver is gone if the loader was closed
                }
            }
            senders.borrow().values().all(|(sender, _)| sender.is_canceled())
        }
    }

    /// Returns the tensor if it was prefetched or is being prefetched. A tensor whose transfer has not started is
    /// removed from prefetching: loading it directly is faster than waiting for the tensors before it, and it might
    /// never get memory.
    ///
    /// Otherwise, returns the observer for a load of the tensor.
    pub(super) async fn take_prefetched(
        self: &Rc<Self>,
        name: &str,
        observer: Rc<dyn Progress>,
    ) -> Result<Loaded<BufferOf<S>>, Rc<dyn Progress>> {
        let Some((mut receiver, arrival)) = self.prefetched.borrow_mut().remove(name) else { return Err(observer) };
        let mut arrived = receiver.try_recv().unwrap_or_default();
        let is_arriving = arrived.is_none() && self.prefetch_budget.is_admitted(name);
        if arrived.is_some() || is_arriving {
            arrival.follow(&observer);
        }
        if is_arriving {
            let _goes_first = self.priority.join(name);
            let receiver = Some((receiver, Rc::clone(&arrival)));
            let mut joined = Joined { loader: Rc::clone(self), name: name.to_owned(), receiver };
            if let Some((receiver, _)) = &mut joined.receiver {
                arrived = receiver.await.ok();
            }
            joined.receiver = None;
        } else {
            drop(receiver);
            self.prefetch_budget.wake(); // the removed tensor may be the one that waits for memory
        }
        let reported = arrival.unfollow();
        match arrived {
            Some((loaded, _)) => {
                report(&loaded.tensor, reported..u64::MAX, &*observer);
                Ok(loaded)
            }
            None if is_arriving => Err(Rc::new(Restarted { observer, reported: Cell::new(reported) })),
            None => Err(observer),
        }
    }

    /// Drops the prefetched tensors. Running prefetch requests stop once no other load runs.
    pub fn forget_prefetched(&self) {
        self.prefetched.borrow_mut().clear();
        self.prefetch_budget.wake();
    }
}

/// When prefetching ends or is dropped, the tensors that have not arrived are no longer prefetched: a later call of
/// [`Loader::prefetch`] can start again.
struct PrefetchEnd<S: ModelSource> {
    loader: Rc<Loader<S>>,
    senders: Senders<BufferOf<S>>,
}

impl<S: ModelSource> Drop for PrefetchEnd<S> {
    fn drop(&mut self) {
        let mut prefetched = self.loader.prefetched.borrow_mut();
        for (name, (_, arrival)) in self.senders.take() {
            let is_own = prefetched.get(&name).is_some_and(|(_, known)| Rc::ptr_eq(known, &arrival));
            if is_own {
                prefetched.remove(&name);
            }
        }
    }
}

type Senders<B> = Rc<RefCell<HashMap<String, (oneshot::Sender<Prefetched<B>>, Rc<PrefetchProgress>)>>>;

/// The progress of `prefetch` itself, which also informs the calls that wait for its tensors.
struct FollowedProgress<B> {
    observer: Rc<dyn Progress>,
    senders: Senders<B>,
}

impl<B> Progress for FollowedProgress<B> {
    fn expects(&self, total_bytes: u64) {
        self.observer.expects(total_bytes);
    }

    fn arrived(&self, arrived: BytesArrived<'_>) {
        let arrival = arrived.tensor.and_then(|name| Some(Rc::clone(&self.senders.borrow().get(name)?.1)));
        if let Some(arrival) = arrival {
            arrival.add(&arrived);
        }
        self.observer.arrived(arrived);
    }
}

fn is_wanted<B: 'static>(senders: &Senders<B>) -> Box<dyn Fn(&str) -> bool> {
    let senders = Rc::clone(senders);
    Box::new(move |name| senders.borrow().get(name).is_some_and(|(sender, _)| !sender.is_canceled()))
}

/// A caller that waits for a tensor that is being prefetched. If the caller is dropped first, the receiver is put back,
/// unless prefetching has ended or was started again.
struct Joined<S: ModelSource> {
    loader: Rc<Loader<S>>,
    name: String,
    receiver: Option<PrefetchedReceiver<BufferOf<S>>>,
}

impl<S: ModelSource> Drop for Joined<S> {
    fn drop(&mut self) {
        let Some((mut receiver, arrival)) = self.receiver.take() else { return };
        arrival.unfollow();
        let receiver = match receiver.try_recv() {
            Ok(None) => receiver,
            Ok(Some(arrived)) => {
                let (sender, receiver) = oneshot::channel();
                sender.send(arrived).ok(); // the receiver exists
                receiver
            }
            Err(_) => return,
        };
        let mut prefetched = self.loader.prefetched.borrow_mut();
        prefetched.entry(std::mem::take(&mut self.name)).or_insert((receiver, arrival));
    }
}
