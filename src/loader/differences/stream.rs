//! Streams the tensors of a model of which some are computed from differences.

use crate::algorithm::Algorithm;
use crate::digest::Digest;
use crate::error::Result;
use crate::index::{Component, ComponentDigest, DigestedBytes, Tensor};
use crate::loader::prefetch_progress::{Partial, report, stored_bytes};
use crate::loader::schedule::batch::Call;
use crate::loader::schedule::planned::Form;
use crate::loader::{Loaded, Loader, Order};
use crate::progress::Progress;
use crate::source::{BufferOf, ModelSource};
use futures::StreamExt;
use futures::future::{FutureExt, LocalBoxFuture, ready};
use futures::stream::{self, LocalBoxStream};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

type LoadedStream<S> = LocalBoxStream<'static, Result<Loaded<BufferOf<S>>>>;

/// A sum takes its base and its difference.
const BUFFERS_PER_SUM: u64 = 2;

/// The tensors of a call.
#[derive(Default)]
struct Division {
    /// Those that are loaded one by one: those with differences, and in a given order all.
    alone: Vec<Arc<Tensor>>,
    rest: Vec<Arc<Tensor>>,
}

impl<S: ModelSource> Loader<S> {
    /// Streams tensors: those with differences whose bases are at hand first, unless an order is given.
    ///
    /// # Errors
    /// Those of [`Loader::stream`].
    #[inline(never)]
    pub(in crate::loader) fn stream_by_difference<'a>(
        self: &'a Rc<Self>,
        tensors: Vec<Arc<Tensor>>,
        form: Form<'a>,
        call: Call,
    ) -> LocalBoxFuture<'a, Result<LoadedStream<S>>> {
        let streamed = async move {
            let can_omit_files = call.whole.is_none() || tensors.iter().all(|tensor| has_digests(tensor));
            let Division { alone, rest } = match can_omit_files {
                true => self.divide(&tensors, call.order).await,
                false => Division::default(),
            };
            if alone.is_empty() {
                return Ok(self.stream(tensors, form, call).await?.boxed_local());
            }
            for tensor in &alone {
                self.plan(Arc::clone(tensor), None, None, form)?; // before anything is downloaded
            }
            let (is_whole, observer) = (call.whole.is_some(), Rc::clone(&call.observer));
            observer.expects(tensors.iter().fold(0, |sum: u64, tensor| sum.saturating_add(stored_bytes(tensor))));
            let partial: Rc<dyn Progress> = Rc::new(Partial(Rc::clone(&observer)));
            let summed = self.stream_alone(alone, form, Rc::clone(&partial));
            // The digests of whole files cannot be compared: each tensor has one of its own.
            let rest = self.stream(rest, form, Call { whole: None, observer: partial, ..call }).await?;
            let has_failed = Rc::<Cell<bool>>::default();
            let (failure, loader, failed) = (Rc::clone(&has_failed), Rc::clone(self), Rc::clone(&has_failed));
            let verified_by = sha256_if_all(&tensors);
            let check = stream::once(async move {
                if is_whole && !failed.get() {
                    loader.verified_by.set(verified_by);
                    observer.checked(verified_by);
                }
            });
            let check = check.filter_map(|()| ready(None));
            let all = summed.chain(rest).chain(check).take_while(move |_| ready(!has_failed.get()));
            Ok(all.inspect(move |loaded| failure.set(loaded.is_err())).boxed_local())
        };
        streamed.boxed_local()
    }

    async fn divide(self: &Rc<Self>, tensors: &[Arc<Tensor>], order: Order) -> Division {
        let mut has_base = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            has_base.push(self.has_base(tensor).await);
        }
        let is_one_by_one = order == Order::Given && has_base.contains(&true);
        let mut division = Division::default();
        for (tensor, has_base) in tensors.iter().zip(has_base) {
            let is_alone = has_base || is_one_by_one;
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
    ) -> LoadedStream<S> {
        let largest = tensors.iter().filter_map(|tensor| tensor.byte_length()).max().unwrap_or(0);
        let fitting = self.options.max_memory_bytes / largest.saturating_mul(BUFFERS_PER_SUM).max(1);
        let at_once = usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, self.options.concurrency.max(1));
        let (loader, dtype, is_dense) = (Rc::clone(self), form.dtype.cloned(), form.is_dense);
        let load = move |tensor: Arc<Tensor>| {
            let (loader, dtype, observer) = (Rc::clone(&loader), dtype.clone(), Rc::clone(&observer));
            async move {
                let form = Form { dtype: dtype.as_ref(), is_dense };
                match loader.summed(&tensor).await {
                    Some(loaded) => {
                        report(&tensor, 0..u64::MAX, &*observer);
                        loader.in_form(loaded, form)
                    }
                    None => loader.load_planned(loader.plan(tensor, None, None, form)?, observer).await,
                }
            }
        };
        stream::iter(tensors).map(load).buffered(at_once).boxed_local()
    }
}

fn has_digests(tensor: &Tensor) -> bool {
    tensor.components.iter().all(|component| component.range.is_empty() || component.digest.is_some())
}

/// SHA-256, which verifies sums, if it also verifies the tensors that are read.
fn sha256_if_all(tensors: &[Arc<Tensor>]) -> Option<Algorithm> {
    let is_sha256 = |digest: Digest| digest.algorithm() == Algorithm::Sha256;
    let is_verified = |component: &Component| match (component.streams(), component.digest) {
        (Some(streams), Some(ComponentDigest { over: DigestedBytes::Streams, .. })) => {
            streams.iter().all(|stream| stream.digest.is_some_and(is_sha256))
        }
        (_, stated) => stated.is_some_and(|stated| is_sha256(stated.digest)),
    };
    let mut components = tensors.iter().flat_map(|tensor| &tensor.components);
    components.all(|component| component.range.is_empty() || is_verified(component)).then_some(Algorithm::Sha256)
}
