//! Loads tensors before they are requested.

use crate::index::Tensor;
use crate::loader::schedule::batch::{Call, Form, Order};
use crate::loader::schedule::memory_budget::Permit;
use crate::loader::transfer::priority::Prefetching;
use crate::loader::{BufferOf, Loaded, Loader};
use crate::progress::Progress;
use crate::source::{Buffer, Source};
use futures::channel::oneshot;
use futures::stream::StreamExt;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A prefetched tensor that was not requested yet, and the permit for its memory.
pub(super) type Prefetched<B> = (Loaded<B>, Permit);

impl<S: Source> Loader<S> {
    /// Starts to load tensors, in this order, that will soon be requested from [`Loader::load_tensor`]. The returned
    /// future does the work: poll it concurrently with other work. Prefetching pauses while `load_tensor` loads another
    /// tensor. Errors are ignored here: `load_tensor` loads such a tensor again and reports the error.
    pub fn prefetch(
        self: &Rc<Self>,
        names: Vec<String>,
        observer: Rc<dyn Progress>,
    ) -> impl Future<Output = ()> + use<S> {
        let senders: Rc<RefCell<HashMap<_, _>>> = Rc::default();
        let mut wanted = Vec::new();
        for name in names {
            let mut prefetched = self.prefetched.borrow_mut();
            if !prefetched.contains_key(&name) {
                let (sender, receiver) = oneshot::channel();
                prefetched.insert(name.clone(), receiver);
                senders.borrow_mut().insert(name.clone(), sender);
                wanted.push(name);
            }
        }
        let loader = Rc::clone(self);
        async move {
            loader.priority.yield_to_demands(None).await;
            let mut tensors: Vec<Rc<Tensor>> = Vec::new();
            for name in wanted {
                match loader.find(&name).await {
                    Ok(tensor) => tensors.push(tensor),
                    Err(_) => drop(senders.borrow_mut().remove(&name)), // `load_tensor` reports it
                }
            }
            let budget = Rc::clone(&loader.prefetch_budget);
            let priority = Rc::clone(&loader.priority);
            let prefetching = Some(Rc::new(Prefetching { priority, is_wanted: is_wanted(&senders) }));
            let defaults = loader.call(observer);
            let call = Call { budget: Rc::clone(&budget), prefetching, order: Order::Given, ..defaults };
            let Ok(loads) = loader.stream(tensors, Form::default(), call).await else { return };
            let mut loads = Box::pin(loads);
            while let Some(Ok(loaded)) = loads.next().await {
                let sender = senders.borrow_mut().remove(&loaded.tensor.name);
                if let Some(sender) = sender {
                    let bytes = loaded.components.iter().map(|component| component.buffer.byte_length()).sum();
                    let permit = budget.take(&loaded.tensor.name, bytes);
                    sender.send((loaded, permit)).ok(); // the receiver is gone if the loader was closed
                }
            }
        }
    }

    /// Returns the tensor if it was prefetched or is being prefetched. A tensor whose transfer has not started is
    /// removed from prefetching: loading it directly is faster than waiting for the tensors before it, and it might
    /// never get memory.
    pub(super) async fn take_prefetched(self: &Rc<Self>, name: &str) -> Option<Loaded<BufferOf<S>>> {
        let receiver = self.prefetched.borrow_mut().remove(name)?;
        let mut joined = Joined { loader: Rc::clone(self), name: name.to_owned(), receiver: Some(receiver) };
        let arrived = joined.receiver.as_mut()?.try_recv();
        match arrived {
            Ok(None) if self.prefetch_budget.is_admitted(name) => {}
            arrived => {
                joined.receiver = None;
                self.prefetch_budget.wake(); // the removed tensor may be the one that waits for memory
                return arrived.ok().flatten().map(|(loaded, _)| loaded);
            }
        }
        let _goes_first = self.priority.join(name);
        let arrived = joined.receiver.as_mut()?.await;
        joined.receiver = None;
        arrived.ok().map(|(loaded, _)| loaded)
    }

    /// Drops the prefetched tensors. Running prefetch requests stop once no other load runs.
    pub fn forget_prefetched(&self) {
        self.prefetched.borrow_mut().clear();
        self.prefetch_budget.wake();
    }
}

type Senders<B> = Rc<RefCell<HashMap<String, oneshot::Sender<Prefetched<B>>>>>;

fn is_wanted<B: 'static>(senders: &Senders<B>) -> Box<dyn Fn(&str) -> bool> {
    let senders = Rc::clone(senders);
    Box::new(move |name| senders.borrow().get(name).is_some_and(|sender| !sender.is_canceled()))
}

/// A caller that waits for a tensor that is being prefetched. If the caller is dropped first, the receiver is put back.
struct Joined<S: Source> {
    loader: Rc<Loader<S>>,
    name: String,
    receiver: Option<oneshot::Receiver<Prefetched<BufferOf<S>>>>,
}

impl<S: Source> Drop for Joined<S> {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            self.loader.prefetched.borrow_mut().entry(std::mem::take(&mut self.name)).or_insert(receiver);
        }
    }
}
