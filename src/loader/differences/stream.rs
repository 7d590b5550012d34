//! Streams the tensors of a model of which some need not be downloaded.

use crate::error::Result;
use crate::index::Tensor;
use crate::loader::prefetch_progress::{Partial, report, stored_bytes};
use crate::loader::related_files::has_streams;
use crate::loader::schedule::batch::Call;
use crate::loader::schedule::file_checks::WholeChecks;
use crate::loader::schedule::planned::Form;
use crate::loader::{Loaded, Loader, Order};
use crate::progress::Progress;
use crate::source::{BufferOf, ModelSource};
use futures::StreamExt;
use futures::future::{FutureExt, LocalBoxFuture, ready};
use futures::stream::{self, LocalBoxStream};
use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::Arc;

type LoadedStream<S> = LocalBoxStream<'static, Result<Loaded<BufferOf<S>>>>;

/// A sum takes its base and its difference.
const MAX_BUFFERS: u64 = 2;

/// The tensors of a call.
#[derive(Default)]
struct Division {
    /// Those that are loaded one by one: those that need not be downloaded, and in a given order all.
    alone: Vec<Arc<Tensor>>,
    rest: Vec<Arc<Tensor>>,
}

impl<S: ModelSource> Loader<S> {
    /// Streams tensors: those that need not be downloaded first, unless an order is given.
    ///
    /// # Errors
    /// Those of [`Loader::stream`].
    #[inline(never)]
    pub(in crate::loader) fn stream_substitutes<'a>(
        self: &'a Rc<Self>,
        tensors: Vec<Arc<Tensor>>,
        form: Form<'a>,
        call: Call,
    ) -> LocalBoxFuture<'a, Result<LoadedStream<S>>> {
        let streamed = async move {
            let Division { alone, rest } = self.divide(&tensors, &call).await;
            if alone.is_empty() {
                return Ok(self.stream(tensors, form, call).await?.boxed_local());
            }
            for tensor in &alone {
                self.plan(Arc::clone(tensor), None, None, form)?; // before anything is downloaded
            }
            if let Some(checks) = &call.whole {
                let read: BTreeSet<_> = rest.iter().map(|tensor| tensor.shard).collect();
                alone.iter().for_each(|tensor| checks.omit(tensor.shard, read.contains(&tensor.shard)));
            }
            let alone_bytes = alone.iter().fold(0, |sum: u64, tensor| sum.saturating_add(stored_bytes(tensor)));
            let part = |other_bytes| -> Rc<dyn Progress> {
                Rc::new(Partial { observer: Rc::clone(&call.observer), other_bytes })
            };
            let summed = self.stream_alone(alone, form, part(None), call.whole.clone());
            let rest = self.stream(rest, form, Call { observer: part(Some(alone_bytes)), ..call }).await?;
            let has_failed = Rc::<Cell<bool>>::default();
            let failure = Rc::clone(&has_failed);
            let all = summed.chain(rest).take_while(move |_| ready(!has_failed.get()));
            Ok(all.inspect(move |loaded| failure.set(loaded.is_err())).boxed_local())
        };
        streamed.boxed_local()
    }

    async fn divide(self: &Rc<Self>, tensors: &[Arc<Tensor>], call: &Call) -> Division {
        // Of such files, only the checksum of the whole file verifies what is read.
        let is_unverified = |tensor: &&Arc<Tensor>| call.whole.is_some() && !has_digests(tensor);
        let unverified: BTreeSet<_> = tensors.iter().filter(is_unverified).map(|tensor| tensor.shard).collect();
        let with_streams: Vec<_> = tensors.iter().filter(|tensor| has_streams(tensor)).cloned().collect();
        let copies = match with_streams.is_empty() || self.is_bound_to_files() {
            true => HashSet::new(),
            false => self.find_dense_copies(&with_streams).await,
        };
        let mut is_substituted = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let is_at_hand = copies.contains(&tensor.name) || self.has_base(tensor).await;
            is_substituted.push(is_at_hand && !unverified.contains(&tensor.shard));
        }
        let is_one_by_one = call.order == Order::Given && is_substituted.contains(&true);
        let mut division = Division::default();
        for (tensor, is_substituted) in tensors.iter().zip(is_substituted) {
            let is_alone = is_substituted || is_one_by_one;
            if is_alone { &mut division.alone } else { &mut division.rest }.push(Arc::clone(tensor));
        }
        division
    }

    /// Loads tensors one by one, as many at once as there are connections and memory for.
    fn stream_alone(
        self: &Rc<Self>,
        tensors: Vec<Arc<Tensor>>,
        form: Form<'_>,
        observer: Rc<dyn Progress>,
        whole: Option<Rc<WholeChecks>>,
    ) -> LoadedStream<S> {
        let largest = tensors.iter().filter_map(|tensor| tensor.byte_length()).max().unwrap_or(0);
        let fitting = self.options.max_memory_bytes / largest.saturating_mul(MAX_BUFFERS).max(1);
        let at_once = usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, self.options.concurrency.max(1));
        let (loader, dtype, is_dense) = (Rc::clone(self), form.dtype.cloned(), form.is_dense);
        let load = move |tensor: Arc<Tensor>| {
            let (loader, dtype, observer) = (Rc::clone(&loader), dtype.clone(), Rc::clone(&observer));
            let whole = whole.clone();
            async move {
                let (shard, form) = (tensor.shard, Form { dtype: dtype.as_ref(), is_dense });
                let loaded = match loader.substitute(&tensor).await {
                    Some(loaded) => {
                        report(&tensor, 0..u64::MAX, &*observer);
                        loader.in_form(loaded, form)?
                    }
                    None => loader.load_planned(loader.plan(tensor, None, None, form)?, observer).await?,
                };
                whole.iter().for_each(|checks| checks.add_component(shard, loaded.verified));
                Ok(loaded)
            }
        };
        stream::iter(tensors).map(load).buffered(at_once).boxed_local()
    }
}

fn has_digests(tensor: &Tensor) -> bool {
    tensor.components.iter().all(|component| component.range.is_empty() || component.digest.is_some())
}
