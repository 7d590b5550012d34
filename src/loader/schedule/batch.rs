//! One call's work: which tensors it loads, what has arrived of them, who watches.

use crate::codec::pages::Pages;
use crate::error::Result;
use crate::index::{Component, ComponentDigest, Digest, DigestedBytes, Encoding, PageTable, Tensor};
use crate::loader::decode::job::{Received, Task, is_heavy};
use crate::loader::decode::pool::Pool;
use crate::loader::digests;
use crate::loader::schedule::concurrency::ConcurrencyController;
use crate::loader::schedule::file_checks::WholeChecks;
use crate::loader::schedule::large::LargeComponent;
use crate::loader::schedule::memory_budget::{MemoryBudget, Permit};
use crate::loader::schedule::rows::{Rows, stored_range};
use crate::loader::schedule::target::{Target, unplanned};
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::priority::Prefetching;
use crate::loader::transfer::range_reader::MAX_DIRECT_BYTES;
use crate::loader::transfer::stats::Stats;
use crate::loader::{BufferOf, Loaded, LoadedComponent};
use crate::plan::WantedRange;
use crate::progress::{Arrived, Progress};
use crate::source::{Buffer, Source};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A tensor to load.
pub(crate) struct PlannedTensor<B> {
    pub(crate) tensor: Rc<Tensor>,
    /// Which rows, with the bytes that they take once decoded; `None` for all. Boxed, since a model may have 100,000
    /// tensors.
    pub(crate) rows: Option<Box<Rows>>,
    /// Where to put the bytes, if the caller said.
    pub(crate) into: Option<B>,
}

/// What a caller asks for beside the tensors.
pub(crate) struct Call {
    /// Whether buffers are filled; if not, bytes are only decoded and checked.
    pub(crate) keeps: bool,
    /// Where all bytes of all files are read: the checks of their checksums.
    pub(crate) whole: Option<Rc<WholeChecks>>,
    /// Whether the digests that components have are checked.
    pub(crate) verify: bool,
    /// Bytes that nobody wants are read up to this length rather than asked around.
    pub(crate) coalesce_gap_bytes: u64,
    pub(crate) budget: Rc<MemoryBudget>,
    pub(crate) observer: Rc<dyn Progress>,
    /// Digests of tensors that the caller knows.
    pub(crate) pinned: Rc<HashMap<String, Digest>>,
    /// Where nobody waits for the tensors yet.
    pub(crate) prefetching: Option<Rc<Prefetching>>,
}

/// The state that the runs of one call share.
pub(crate) struct Batch<S: Source> {
    planned_tensors: RefCell<Vec<Assembly<BufferOf<S>>>>,
    pub(crate) call: Call,
    /// Who does what takes time.
    pub(crate) pool: Option<Rc<dyn Pool<BufferOf<S>>>>,
    pub(crate) concurrency: RefCell<ConcurrencyController>,
    /// Large components on their way.
    pub(crate) large: RefCell<LargeComponents<BufferOf<S>>>,
    stats: Rc<Stats>,
}

/// Large components that are being read.
pub(crate) type LargeComponents<B> = HashMap<Target, LargeComponent<B>>;

struct Assembly<B> {
    planned: PlannedTensor<B>,
    /// What there is of it, while it is loaded: a model may have 100,000 tensors.
    gathered: Option<Box<Gathered<B>>>,
}

/// What there is of a tensor that is being loaded.
struct Gathered<B> {
    /// One for each component.
    received: Vec<Option<LoadedComponent<B>>>,
    verified: Vec<Option<&'static str>>,
    /// The room for its buffers, once the first of them is to be filled.
    taken: Option<Permit>,
}

impl<B> Assembly<B> {
    fn new(planned: PlannedTensor<B>) -> Self {
        Assembly { planned, gathered: None }
    }

    /// What there is of the tensor; nothing at first.
    fn gathered(&mut self) -> &mut Gathered<B> {
        let components = &self.planned.tensor.components;
        self.gathered.get_or_insert_with(|| {
            let received = components.iter().map(|_| None).collect();
            Box::new(Gathered { received, verified: Vec::new(), taken: None })
        })
    }

    fn has_memory(&self) -> bool {
        self.gathered.as_ref().is_some_and(|gathered| gathered.taken.is_some())
    }
}

impl<S: Source> Batch<S> {
    pub(crate) fn new(
        planned_tensors: Vec<PlannedTensor<BufferOf<S>>>,
        call: Call,
        pool: Option<Rc<dyn Pool<BufferOf<S>>>>,
        stats: Rc<Stats>,
        max_connections: usize,
    ) -> Self {
        let planned_tensors = RefCell::new(planned_tensors.into_iter().map(Assembly::new).collect());
        let (concurrency, large) = (RefCell::new(ConcurrencyController::new(max_connections)), RefCell::default());
        Batch { planned_tensors, call, pool, concurrency, large, stats }
    }

    /// The bytes that the orders need, and tells the observer how many. `known_pages` gives the digests of pages.
    pub(crate) fn wanted(
        &self,
        known_pages: impl Fn(usize, &PageTable) -> Option<Arc<Pages>>,
    ) -> Vec<WantedRange<Target>> {
        let mut wanted = Vec::new();
        for (planned, assembly) in self.planned_tensors.borrow().iter().enumerate() {
            let PlannedTensor { tensor, rows, .. } = &assembly.planned;
            for (component, part) in tensor.components.iter().enumerate() {
                let range = stored_range(part, rows.as_deref());
                let pages = self.pages(part, rows.is_none()).and_then(|table| known_pages(tensor.shard, table));
                let read_range = pages.map_or_else(|| range.clone(), |pages| pages.around(&range));
                let target = Target { planned, component };
                wanted.push(WantedRange { shard: tensor.shard, range, read_range, target });
            }
        }
        // Files of unknown length may claim anything: the sum over them must not overflow.
        self.call
            .observer
            .expects(wanted.iter().fold(0, |sum: u64, w| sum.saturating_add(w.range.end - w.range.start)));
        wanted
    }

    /// Whether several connections can read what one was to read of a file.
    pub(crate) fn can_be_split(&self, file: &ModelFile<S>, shard: usize) -> bool {
        !file.comes_from_start() && self.call.whole.as_ref().is_none_or(|checks| checks.take_any_order(shard))
    }

    /// Tells the pool what comes that is for it.
    pub(crate) fn announce(&self) {
        let Some(pool) = &self.pool else { return };
        let planned_tensors = self.planned_tensors.borrow();
        let components = planned_tensors.iter().flat_map(|assembly| &assembly.planned.tensor.components);
        let heavy = components.filter(|part| {
            let own = part.digest.filter(|_| self.call.verify);
            is_heavy(part.encoding, own.map(|stated| stated.digest).into_iter())
        });
        pool.expect(heavy.fold(0, |sum, part| sum.saturating_add(part.range.end - part.range.start)));
    }

    /// The page digests that a component is checked by, read whole or not.
    fn pages<'a>(&self, component: &'a Component, is_read_whole: bool) -> Option<&'a PageTable> {
        component.checking_pages(is_read_whole).filter(|_| self.call.verify)
    }

    /// The page digests that the component of an order is checked by.
    pub(crate) fn pages_of(&self, planned: usize, component: usize) -> Option<PageTable> {
        let planned_tensors = self.planned_tensors.borrow();
        let PlannedTensor { tensor, rows, .. } = &planned_tensors.get(planned)?.planned;
        self.pages(tensor.components.get(component)?, rows.is_none()).cloned()
    }

    pub(crate) fn tensor(&self, planned: usize) -> Result<Rc<Tensor>> {
        let planned_tensors = self.planned_tensors.borrow();
        planned_tensors.get(planned).map(|assembly| Rc::clone(&assembly.planned.tensor)).ok_or_else(unplanned)
    }

    /// What is to be done with the component of an order, of which `stored` is read.
    pub(crate) fn task(&self, planned: usize, component: &Component, stored: &Range<u64>) -> Result<Task> {
        let keep = self.keep(planned, component)?;
        let is_complete = *stored == component.range && keep == (0..component.decoded_length.unwrap_or(keep.end));
        let (keeps, digests) = (self.keeps(planned), self.digests(planned, component, is_complete));
        Ok(Task { component: component.clone(), keep, keeps, is_complete, digests })
    }

    /// Whether the bytes go straight into the component's own buffer. What is digested here is digested in small steps:
    /// while the bytes of one are, those of the next arrive.
    pub(crate) fn is_direct(&self, task: &Task) -> bool {
        let takes_whole = self.pool.as_ref().is_some_and(|pool| pool.takes_whole(task));
        task.component.encoding == Encoding::Raw && task.keeps && (takes_whole || !task.is_heavy())
    }

    /// Whether what is wanted goes into a buffer of ours as a whole.
    pub(crate) fn is_read_whole(&self, wanted: &WantedRange<Target>) -> bool {
        let Target { planned, component } = wanted.target;
        let planned_tensors = self.planned_tensors.borrow();
        let Some(PlannedTensor { tensor, into: None, .. }) =
            planned_tensors.get(planned).map(|assembly| &assembly.planned)
        else {
            return false;
        };
        let task = tensor.components.get(component).map(|part| self.task(planned, part, &wanted.range));
        let is_small = wanted.range.end - wanted.range.start <= MAX_DIRECT_BYTES;
        is_small && task.is_some_and(|task| task.is_ok_and(|task| self.is_direct(&task)))
    }

    /// The digests that a component is checked by while it arrives: its own, then that of its tensor where it is all of
    /// it.
    pub(crate) fn digests(&self, planned: usize, component: &Component, is_complete: bool) -> Vec<ComponentDigest> {
        if !is_complete {
            return Vec::new();
        }
        let own = component.digest.filter(|_| self.call.verify);
        let pinned = self.pinned(planned).filter(|(_, components)| *components == 1);
        let pinned = pinned.map(|(digest, _)| ComponentDigest { digest, over: DigestedBytes::Decoded });
        own.into_iter().chain(pinned).collect()
    }

    /// The pinned digest of the tensor of an order, if all of it is loaded, and how many components it has.
    fn pinned(&self, planned: usize) -> Option<(Digest, usize)> {
        let planned_tensors = self.planned_tensors.borrow();
        let PlannedTensor { tensor, rows: None, .. } = &planned_tensors.get(planned)?.planned else { return None };
        self.call.pinned.get(&tensor.name).map(|digest| (*digest, tensor.components.len()))
    }

    /// Whether there are buffers for an order: its components may come in another order than they are digested in.
    pub(crate) fn keeps(&self, planned: usize) -> bool {
        self.call.keeps || self.pinned(planned).is_some_and(|(_, components)| components > 1)
    }

    /// Which decoded bytes of the component are kept; up to `u64::MAX` where nobody knows how many come.
    pub(crate) fn keep(&self, planned: usize, component: &Component) -> Result<Range<u64>> {
        let planned_tensors = self.planned_tensors.borrow();
        match &planned_tensors.get(planned).ok_or_else(unplanned)?.planned.rows {
            Some(rows) => Ok(rows.bytes.clone()),
            None => Ok(0..component.decoded_length.unwrap_or(u64::MAX)),
        }
    }

    /// Whether the tensor of an order need not be loaded any more; what there is of it is dropped then.
    pub(crate) fn is_given_up(&self, planned: usize) -> bool {
        let mut planned_tensors = self.planned_tensors.borrow_mut();
        let (Some(prefetching), Some(assembly)) = (&self.call.prefetching, planned_tensors.get_mut(planned)) else {
            return false;
        };
        if (prefetching.is_wanted)(&assembly.planned.tensor.name) {
            return false;
        }
        assembly.gathered = None;
        true
    }

    /// Waits until there is room for the tensor of an order, unless it has some or is given up, or is needed to finish
    /// what was begun.
    pub(crate) async fn reserve_memory(&self, planned: usize, is_needed: bool) -> Result<()> {
        let keeps = self.keeps(planned);
        let (tensor, bytes) = match self.planned_tensors.borrow().get(planned).ok_or_else(unplanned)? {
            // The caller's memory takes none of ours.
            assembly if !keeps || assembly.has_memory() || assembly.planned.into.is_some() => return Ok(()),
            Assembly { planned: PlannedTensor { tensor, rows, .. }, .. } => {
                let whole = || tensor.byte_length().unwrap_or_else(|| tensor.stored_length());
                let bytes = rows.as_ref().map_or_else(whole, |rows| rows.bytes.end - rows.bytes.start);
                // What waits to be decoded elsewhere takes room, too.
                let packed = tensor.components.iter().filter(|part| !part.encoding.keeps_positions());
                let waiting = packed.fold(0, |sum: u64, part| sum.saturating_add(part.range.end - part.range.start));
                let bytes = if self.pool.is_some() { bytes.saturating_add(waiting) } else { bytes };
                (Rc::clone(tensor), bytes)
            }
        };
        if self.call.budget.wait(bytes, || is_needed || self.is_amid_components() || self.is_given_up(planned)).await {
            self.concurrency.borrow_mut().restart();
        }
        let taken = self.call.budget.take(&tensor.name, bytes);
        if let Some(assembly) = self.planned_tensors.borrow_mut().get_mut(planned) {
            assembly.gathered().taken = Some(taken);
        }
        Ok(())
    }

    /// Whether a tensor was begun of which more components are to come, perhaps behind what waits for room.
    fn is_amid_components(&self) -> bool {
        let is_amid = |assembly: &Assembly<_>| assembly.has_memory() && assembly.planned.tensor.components.len() > 1;
        self.planned_tensors.borrow().iter().any(is_amid)
    }

    /// Where the caller wants the bytes of an order.
    pub(crate) fn take_into(&self, planned: usize) -> Option<BufferOf<S>> {
        self.planned_tensors.borrow_mut().get_mut(planned)?.planned.into.take()
    }

    /// Takes a component that has arrived, and gives the tensor if it was the last one.
    pub(crate) fn deliver(
        &self,
        planned: usize,
        component: usize,
        received: Received<BufferOf<S>>,
    ) -> Result<Option<Loaded<BufferOf<S>>>> {
        let Received { buffer: Some(buffer), verified } = received else { return Ok(None) };
        self.stats.count_decoded(buffer.byte_length());
        let pinned = self.pinned(planned).filter(|(_, components)| *components > 1);
        let mut planned_tensors = self.planned_tensors.borrow_mut();
        let assembly = planned_tensors.get_mut(planned).ok_or_else(unplanned)?;
        let part = assembly.planned.tensor.components.get(component).ok_or_else(unplanned)?;
        let arrived = LoadedComponent { role: part.role.clone(), dtype: part.dtype.clone(), buffer };
        let gathered = assembly.gathered();
        gathered.verified.push(verified);
        *gathered.received.get_mut(component).ok_or_else(unplanned)? = Some(arrived);
        if gathered.received.iter().any(Option::is_none) {
            return Ok(None);
        }
        let Gathered { received, verified, .. } = *assembly.gathered.take().ok_or_else(unplanned)?;
        let components: Vec<_> = received.into_iter().flatten().collect();
        let tensor = Rc::clone(&assembly.planned.tensor);
        let mut verified = common(&verified);
        if let Some((digest, _)) = pinned {
            let checked = digests::check(components.iter().map(|component| &component.buffer), digest);
            verified = Some(checked.map_err(|e| digests::as_pinned_mismatch(e).in_tensor(&tensor.name))?);
        }
        let shape = assembly.planned.rows.as_ref().map_or_else(|| tensor.shape.clone(), |rows| rows.shape.clone());
        Ok(Some(Loaded { tensor, shape, components, verified }))
    }

    pub(crate) fn arrived(&self, arrived: Arrived<'_>, now_ms: u64) {
        let bytes = arrived.range.end - arrived.range.start;
        self.concurrency.borrow_mut().arrived(arrived.connection, bytes, now_ms);
        self.call.observer.arrived(arrived);
    }
}

/// The algorithm that all components were checked by.
fn common(verified: &[Option<&'static str>]) -> Option<&'static str> {
    let first = verified.first().copied().flatten();
    if verified.iter().all(|algorithm| *algorithm == first) { first } else { None }
}
