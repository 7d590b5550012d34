//! Plans the reads for the requested tensors, and streams the tensors from them.

use crate::error::Result;
use crate::index::Tensor;
use crate::loader::request::{Order, TensorsRequest};
use crate::loader::schedule::batch::{Batch, Call};
use crate::loader::schedule::connections::Connections;
use crate::loader::schedule::early_parts::split_early;
use crate::loader::schedule::file_checks::WholeChecks;
use crate::loader::schedule::memory_budget::MemoryBudget;
use crate::loader::schedule::planned::{Form, PlannedTensor, check_into};
use crate::loader::schedule::rows::{Rows, pages};
use crate::loader::schedule::target::Target;
use crate::loader::schedule::tied::TiedTensors;
use crate::loader::shard::Shard;
use crate::loader::whole_files::TensorDigests;
use crate::loader::{Loaded, Loader, Options};
use crate::plan::{self, Run, WantedRange};
use crate::progress::Progress;
use crate::source::{BufferOf, ModelSource};
use futures::future::Either;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

impl<S: ModelSource> Loader<S> {
    /// Loads many tensors with few long reads, and yields each tensor when it is complete. Tensors that one connection
    /// reads are yielded in file order. `None` loads all tensors; the checksum of each file is then verified too, and
    /// the stream ends with an error if a checksum does not match.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown name; the errors of [`Loader::load_index`]. Errors of single tensors are items of
    /// the stream.
    pub async fn tensors(
        self: &Rc<Self>,
        names: Option<Vec<String>>,
        observer: Rc<dyn Progress>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        self.tensors_with(TensorsRequest::default().with_names(names), observer).await
    }

    /// Loads tensors one after another over one connection, and yields them in the order of their names. Tensors that
    /// follow each other both in `names` and in their file are read with one request.
    ///
    /// # Errors
    /// The errors of [`Loader::tensors`].
    pub async fn tensors_in_order(
        self: &Rc<Self>,
        names: Vec<String>,
        observer: Rc<dyn Progress>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let request = TensorsRequest { order: Order::Given, ..TensorsRequest::default().with_names(Some(names)) };
        self.tensors_with(request, observer).await
    }

    /// Like [`Loader::tensors`] and [`Loader::tensors_in_order`], with the options of a [`TensorsRequest`].
    ///
    /// # Errors
    /// As for [`Loader::tensors`]; `UNSUPPORTED` for a tensor that cannot be converted.
    pub async fn tensors_with(
        self: &Rc<Self>,
        request: TensorsRequest,
        observer: Rc<dyn Progress>,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let TensorsRequest { names, order, dtype, is_dense } = request;
        let is_whole = names.is_none() && (self.options.verify || !self.options.digests.files.is_empty());
        let whole = is_whole.then(Rc::default);
        let tensors = match names {
            None => self.load_index().await?.to_vec(),
            Some(names) => self.find_all(names).await?,
        };
        let form = Form { dtype: dtype.as_ref(), is_dense };
        let call = Call { whole, order, ..self.call(observer) };
        if self.may_have_substitutes(&tensors).await && self.load_substitute_code().await {
            return self.stream_substitutes(tensors, form, call).await.map(Either::Left);
        }
        Ok(Either::Right(self.stream(tensors, form, call).await?))
    }

    pub(super) async fn find_all(&self, names: Vec<String>) -> Result<Vec<Arc<Tensor>>> {
        let mut tensors = Vec::with_capacity(names.len());
        for name in names {
            tensors.push(self.find(&name).await?);
        }
        Ok(tensors)
    }

    pub(super) async fn stream(
        self: &Rc<Self>,
        tensors: Vec<Arc<Tensor>>,
        form: Form<'_>,
        call: Call,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        let mut planned = Vec::with_capacity(tensors.len());
        let is_prefetch = call.prefetching.is_some(); // what is prefetched gets its form when it is requested
        for tensor in tensors {
            let form = if is_prefetch { form } else { form.of(&tensor) };
            planned.push(self.plan(tensor, None, None, form)?);
        }
        // A copy would be out of order, or lost with a prefetched tensor that is no longer wanted.
        let tied = match (call.order, &call.prefetching) {
            (Order::File, None) => TiedTensors::find(&planned, |tensor| call.pinned.contains_key(&tensor.name)),
            _ => TiedTensors::default(),
        };
        self.stream_planned(planned, Call { tied, ..call }).await
    }

    /// Plans to load a tensor, or rows of it, in a form.
    pub(super) fn plan(
        &self,
        tensor: Arc<Tensor>,
        rows: Option<Rows>,
        into: Option<BufferOf<S>>,
        form: Form<'_>,
    ) -> Result<PlannedTensor<BufferOf<S>>> {
        let planned = PlannedTensor::new(tensor, rows, into, form)?;
        check_into(&planned)?;
        if let PlannedTensor { tensor, into: None, expansion: Some(expansion), .. } = &planned {
            expansion.check_size(tensor, self.options.max_memory_bytes)?;
        }
        Ok(planned)
    }

    pub(super) async fn stream_planned(
        self: &Rc<Self>,
        planned_tensors: Vec<PlannedTensor<BufferOf<S>>>,
        call: Call,
    ) -> Result<impl Stream<Item = Result<Loaded<BufferOf<S>>>> + use<S>> {
        if call.verify {
            self.read_pages(&planned_tensors).await?;
        }
        let whole = call.whole.clone();
        let of_tensors = tensor_digests(&call);
        let observer = Rc::clone(&call.observer);
        let order = call.order;
        let is_prefetch = call.prefetching.is_some();
        // Over several connections, tensors would complete in another order.
        let is_ordered = order == Order::Given && !is_prefetch;
        let max_connections = if is_ordered { 1 } else { self.options.concurrency };
        let (pool, stats) = (self.pool.clone(), Rc::clone(&self.stats));
        let batch = Rc::new(Batch::new(planned_tensors, call, pool, stats, max_connections));
        batch.announce();
        let wanted = batch.wanted(|shard, table| self.shards.get(shard)?.file.known_pages(table));
        let mut ends = Vec::new();
        if let Some(checks) = &whole {
            checks.begin(&self.shards, self.file_plans(of_tensors).await?)?;
            let known_end = |(number, shard): (usize, &Shard<S>)| checks.known_end(number, &shard.file);
            ends = self.shards.iter().enumerate().map(known_end).collect();
        }
        let runs = self.plan_runs(wanted, order, is_prefetch, ends, whole.as_deref());
        let runs = runs.into_iter().filter_map(|run| Some((Rc::clone(&self.shards.get(run.shard)?.file), run)));
        let connections = Connections::new(batch, runs, self.options.coalesce_gap_bytes);
        let step =
            async |mut connections: Connections<S>| Ok(connections.next().await?.map(|loaded| (loaded, connections)));
        let has_failed = Rc::<Cell<bool>>::default();
        let failure = Rc::clone(&has_failed);
        let loads = stream::try_unfold(connections, step).inspect_err(move |_| failure.set(true));
        let loader = Rc::clone(self);
        let check = async move {
            match whole.filter(|_| !has_failed.get()) {
                Some(checks) => loader.finish_checks(&checks, &*observer).await,
                None => Ok(()),
            }
        };
        let check = stream::once(check).filter_map(async |outcome: Result<()>| outcome.err().map(Err));
        Ok(loads.chain(check))
    }

    /// The reads of the wanted ranges, in their order. `ends` has the lengths of files that are read as a whole.
    fn plan_runs(
        &self,
        wanted: Vec<WantedRange<Target>>,
        order: Order,
        is_prefetch: bool,
        mut ends: Vec<Option<u64>>,
        whole: Option<&WholeChecks>,
    ) -> Vec<Run<Target>> {
        // A file whose bodies always start at its first byte is read once, with all gaps.
        let from_start = |shard: usize| self.shards.get(shard).is_some_and(|shard| shard.file.comes_from_start());
        let has_checks = |shard: usize| whole.is_some_and(|checks| checks.include(shard, &(0..u64::MAX)));
        let [early, wanted] = match order {
            Order::Given => [Vec::new(), wanted],
            Order::File => {
                split_early(wanted, self.options.max_memory_bytes / 2, |shard| !from_start(shard) && !has_checks(shard))
            }
        };
        for part in &early {
            if let Some(end) = ends.get_mut(part.shard) {
                *end = None; // no checksum needs the bytes between tensors
            }
        }
        let is_whole = |shard: usize| ends.get(shard).is_some_and(Option::is_some);
        let is_one_run = |shard| from_start(shard) || is_whole(shard);
        let gap = |shard| if is_one_run(shard) { u64::MAX } else { self.options.coalesce_gap_bytes };
        let mut runs = match order {
            // In the given order, such a file would be read from its start again and again.
            Order::Given if is_prefetch && wanted.iter().any(|wanted| from_start(wanted.shard)) => {
                plan::merge_ranges(wanted, gap)
            }
            Order::Given => plan::merge_in_order(wanted, gap),
            Order::File => plan::merge_ranges(wanted, gap),
        };
        plan::extend_to_whole_files(&mut runs, &ends);
        let mut all = plan::merge_ranges(early, gap);
        all.append(&mut runs);
        all
    }

    /// Compares the checksums of whole files, after a call has read them. Bytes that a checksum lacks are read again: a
    /// manifest may state wrong states of a digest.
    async fn finish_checks(&self, checks: &WholeChecks, observer: &dyn Progress) -> Result<()> {
        self.compare_rest(checks).await?; // a component that was read again, or a wrong state, leaves bytes out
        self.verified_by.set(checks.verified_by());
        *self.late_warnings.borrow_mut() = checks.take_warnings();
        observer.checked(checks.verified_by());
        Ok(())
    }

    /// The parameters of a call that returns tensors.
    pub(super) fn call(&self, observer: Rc<dyn Progress>) -> Call {
        let budget = MemoryBudget::new(self.options.max_memory_bytes);
        let Options { verify, coalesce_gap_bytes, .. } = self.options;
        let pinned = Rc::clone(&self.pinned);
        Call {
            signed_by: self.options.signature.as_ref().and_then(|signature| signature.files.algorithm()),
            stores_output: true,
            whole: None,
            verify,
            coalesce_gap_bytes,
            budget,
            observer,
            pinned,
            prefetching: None,
            order: Order::File,
            tied: TiedTensors::default(),
        }
    }

    /// Reads the page digests that the planned tensors are verified with.
    async fn read_pages(&self, planned_tensors: &[PlannedTensor<BufferOf<S>>]) -> Result<()> {
        for PlannedTensor { tensor, rows, .. } in planned_tensors {
            let pages = |component| pages(component, rows.as_deref());
            for table in tensor.components.iter().filter_map(pages) {
                if let Some(shard) = self.shards.get(tensor.shard) {
                    shard.file.read_pages(table).await.map_err(|e| e.in_tensor(&tensor.name))?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a call compares the digests of the tensors that it reads.
fn tensor_digests(call: &Call) -> TensorDigests {
    match call.verify && call.stores_output {
        true => TensorDigests::Compared,
        false => TensorDigests::NotCompared,
    }
}
