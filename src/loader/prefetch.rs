//! Tensors that are loaded before they are asked for.

use super::operation::Call;
use super::room::Taken;
use super::stats::Observer;
use super::{Loaded, Loader};
use crate::source::{Buffer, Source};
use futures::channel::oneshot;
use futures::stream::StreamExt;
use std::collections::HashMap;
use std::rc::Rc;

/// A tensor that waits to be asked for, and the room that it takes.
pub(super) type Prefetched<B> = (Loaded<B>, Taken);

impl<S: Source> Loader<S> {
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
            let room = Rc::clone(&loader.prefetch_room);
            let call = Call { room: Rc::clone(&room), ..loader.call(observer) };
            let Ok(loads) = loader.stream(tensors, call).await else { return };
            let mut loads = Box::pin(loads);
            while let Some(Ok(loaded)) = loads.next().await {
                if let Some(sender) = senders.remove(&loaded.tensor.name) {
                    let bytes = loaded.components.iter().map(|component| component.buffer.byte_length()).sum();
                    let taken = room.take(&loaded.tensor.name, bytes);
                    sender.send((loaded, taken)).ok(); // nobody waits for it if the loader was closed
                }
            }
        }
    }

    /// Forgets what was prefetched, which stops its requests once nothing else runs.
    pub fn forget_prefetched(&self) {
        self.prefetched.borrow_mut().clear();
    }
}
