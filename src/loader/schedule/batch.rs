//! The tensors that one call loads: which of their bytes are read, and how they are checked.

mod delivery;
mod memory;

use crate::codec::cast::Conversion;
use crate::codec::pages::Pages;
use crate::error::Result;
use crate::index::{Algorithm, BlockEnd, Component, Digest, Encoding, PageTable, PartTensor, Tensor};
use crate::loader::LoadedComponent;
use crate::loader::request::Order;
use crate::loader::schedule::concurrency::ConcurrencyController;
use crate::loader::schedule::file_checks::WholeChecks;
use crate::loader::schedule::large::LargeComponent;
use crate::loader::schedule::memory_budget::{MemoryBudget, Permit};
use crate::loader::schedule::planned::PlannedTensor;
use crate::loader::schedule::rows::{Rows, pages};
use crate::loader::schedule::target::{Target, unplanned};
use crate::loader::schedule::tied::TiedTensors;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::priority::Prefetching;
use crate::loader::transfer::range_reader::MAX_DIRECT_BYTES;
use crate::loader::transfer::stats::Stats;
use crate::pipeline::{Extent, Pool, Task, expected_digests, is_heavy};
use crate::plan::WantedRange;
use crate::progress::{BytesArrived, Progress};
use crate::small_map::SmallMap;
use crate::source::{BufferOf, ModelSource};
pub(crate) use memory::MemoryWait;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The parameters of a call, besides its tensors.
pub(crate) struct Call {
    /// Whether the decoded bytes are returned. Otherwise they are only checked.
    pub(crate) stores_output: bool,
    /// The checksums of whole files, if the call reads all bytes of all files.
    pub(crate) whole: Option<Rc<WholeChecks>>,
    /// Whether the digests of components are checked.
    pub(crate) verify: bool,
    /// Gaps of up to this many bytes are read instead of starting another request.
    pub(crate) coalesce_gap_bytes: u64,
    pub(crate) budget: Rc<MemoryBudget>,
    pub(crate) observer: Rc<dyn Progress>,
    /// The digests of tensors that the caller pinned.
    pub(crate) pinned: Rc<HashMap<String, Digest>>,
    /// The algorithm of the signed digests that all bytes are compared with before they are returned.
    pub(crate) signed_by: Option<Algorithm>,
    /// The state of prefetching, if the call loads tensors ahead of time.
    pub(crate) prefetching: Option<Rc<Prefetching>>,
    /// The order in which tensors are read.
    pub(crate) order: Order,
    /// Which tensors are copies of others.
    pub(crate) tied: TiedTensors,
}

/// The state that the runs of one call share.
pub(crate) struct Batch<S: ModelSource> {
    planned_tensors: RefCell<Vec<Assembly<BufferOf<S>>>>,
    pub(crate) call: Call,
    /// Decodes and digests on other threads.
    pub(crate) pool: Option<Rc<dyn Pool<BufferOf<S>>>>,
    pub(crate) concurrency: RefCell<ConcurrencyController>,
    /// Large components that are being read.
    pub(crate) large: RefCell<LargeComponents<BufferOf<S>>>,
    stats: Rc<Stats>,
}

/// Large components by target.
pub(crate) type LargeComponents<B> = SmallMap<Target, LargeComponent<B>>;

struct Assembly<B> {
    planned: PlannedTensor<B>,
    /// The state while the tensor is loaded. Boxed, because a model may have 100,000 tensors.
    gathered: Option<Box<Gathered<B>>>,
}

/// The components of a tensor that have arrived.
struct Gathered<B> {
    /// One entry for each component.
    received: Vec<Option<LoadedComponent<B>>>,
    verified: Vec<Option<Algorithm>>,
    /// The memory for the buffers, once the first of them is needed.
    taken: Option<Permit>,
}

impl<B> Assembly<B> {
    fn new(planned: PlannedTensor<B>) -> Self {
        Assembly { planned, gathered: None }
    }

    /// Returns the state of the tensor, and creates it first if necessary.
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

impl<S: ModelSource> Batch<S> {
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

    /// Returns the byte ranges to read, and reports their total to the observer. `known_pages` returns page digests.
    pub(crate) fn wanted(
        &self,
        known_pages: impl Fn(usize, &PageTable) -> Option<Arc<Pages>>,
    ) -> Vec<WantedRange<Target>> {
        let planned_tensors = self.planned_tensors.borrow();
        let mut wanted = Vec::with_capacity(planned_tensors.len());
        for (slot, assembly) in planned_tensors.iter().enumerate() {
            if self.call.tied.is_follower(slot) {
                continue;
            }
            let PlannedTensor { tensor, rows, .. } = &assembly.planned;
            for (component, part) in tensor.components.iter().enumerate() {
                let range = extent(part, rows.as_deref()).stored;
                let pages =
                    self.pages(part, rows.as_deref()).and_then(|table| known_pages(tensor.shard_of(part), table));
                let read_range = pages.map_or_else(|| range.clone(), |pages| pages.around(&range));
                let target = Target { slot, component };
                wanted.push(WantedRange { shard: tensor.shard_of(part), range, read_range, target });
            }
        }
        // In files of unknown length, lengths are unchecked: their sum must not overflow.
        self.call
            .observer
            .expects(wanted.iter().fold(0, |sum: u64, w| sum.saturating_add(w.range.end - w.range.start)));
        wanted
    }

    /// Whether several connections can share a run of a file.
    pub(crate) fn can_be_split(&self, file: &ModelFile<S>, shard: usize) -> bool {
        file.is_readable_anywhere() && self.call.whole.as_ref().is_none_or(|checks| checks.take_any_order(shard))
    }

    /// Tells the pool how many bytes it will decode or digest.
    pub(crate) fn announce(&self) {
        let Some(pool) = &self.pool else { return };
        let planned_tensors = self.planned_tensors.borrow();
        let components = planned_tensors.iter().flat_map(|assembly| {
            let PlannedTensor { tensor, conversion, .. } = &assembly.planned;
            tensor.components.iter().map(move |part| (part, conversion.is_some()))
        });
        let mut bytes = 0_u64;
        for (part, is_converted) in components {
            let digest = part.digest.filter(|_| self.call.verify).map(|stated| stated.digest);
            let length = part.range.end - part.range.start;
            if is_converted || is_heavy(part.encoding, digest.into_iter()) {
                bytes = bytes.saturating_add(length);
            }
        }
        pool.expect(bytes);
    }

    /// The page digests that the call verifies a component with.
    fn pages<'a>(&self, component: &'a Component, rows: Option<&Rows>) -> Option<&'a PageTable> {
        pages(component, rows).filter(|_| self.call.verify)
    }

    /// The page digests that verify a component of a planned tensor.
    pub(crate) fn pages_of(&self, slot: usize, component: usize) -> Option<PageTable> {
        let planned_tensors = self.planned_tensors.borrow();
        let PlannedTensor { tensor, rows, .. } = &planned_tensors.get(slot)?.planned;
        self.pages(tensor.components.get(component)?, rows.as_deref()).cloned()
    }

    pub(crate) fn tensor(&self, slot: usize) -> Result<Arc<Tensor>> {
        let planned_tensors = self.planned_tensors.borrow();
        planned_tensors.get(slot).map(|assembly| Arc::clone(&assembly.planned.tensor)).ok_or_else(unplanned)
    }

    /// The task for a component of a planned tensor.
    pub(crate) fn task(&self, slot: usize, component: &Component) -> Result<Task> {
        let extent = self.extent_of(slot, component)?;
        let tensor = self.tensor(slot)?;
        let pinned = self.pinned(slot).map(|(digest, _)| digest);
        let rule = component.rule.filter(|_| self.call.verify);
        let is_verification = self.call.verify && !self.call.stores_output;
        let beside_streams = component.digest_beside_streams().filter(|_| is_verification);
        let expected = expected_digests(&tensor, component, pinned, self.call.verify);
        let digests = beside_streams.into_iter().chain(expected);
        Ok(Task {
            stores_output: self.stores_output(slot),
            digests: if extent.is_whole { digests.collect() } else { Vec::new() },
            conversion: self.conversion(slot)?,
            ..Task::unchecked(&Component { rule, ..component.clone() }, &extent)
        })
    }

    /// The conversion of a planned tensor.
    pub(crate) fn conversion(&self, slot: usize) -> Result<Option<Conversion>> {
        let planned_tensors = self.planned_tensors.borrow();
        let planned = &planned_tensors.get(slot).ok_or_else(unplanned)?.planned;
        Ok(planned.conversion.as_deref().cloned())
    }

    /// Whether the bytes are read directly into the component's own buffer. Bytes that this thread digests are read in
    /// small chunks instead, so that one chunk is digested while the next one arrives.
    pub(crate) fn is_direct(&self, task: &Task) -> bool {
        let takes_whole = self.pool.as_ref().is_some_and(|pool| pool.takes_whole(task));
        task.component.encoding == Encoding::Raw
            && task.stores_output
            && task.conversion.is_none()
            && (takes_whole || !task.is_heavy())
    }

    /// Whether the range is read as a whole into one buffer that the loader allocates.
    pub(crate) fn is_read_whole(&self, wanted: &WantedRange<Target>) -> bool {
        let Target { slot, component } = wanted.target;
        let planned_tensors = self.planned_tensors.borrow();
        let Some(PlannedTensor { tensor, into: None, .. }) =
            planned_tensors.get(slot).map(|assembly| &assembly.planned)
        else {
            return false;
        };
        let task = tensor.components.get(component).map(|part| self.task(slot, part));
        let is_small = wanted.range.end - wanted.range.start <= MAX_DIRECT_BYTES;
        is_small && task.is_some_and(|task| task.is_ok_and(|task| self.is_direct(&task)))
    }

    /// The pinned digest of a planned tensor, if the whole tensor is loaded, and the number of its components.
    fn pinned(&self, slot: usize) -> Option<(Digest, usize)> {
        let planned_tensors = self.planned_tensors.borrow();
        let PlannedTensor { tensor, rows: None, .. } = &planned_tensors.get(slot)?.planned else { return None };
        // A digest for a name that a part of a quantized tensor has, too, is that of the part.
        let is_of_part = |part: &PartTensor| part.name == tensor.name;
        if tensor.quantized().is_some_and(|quantized| quantized.parts.iter().any(is_of_part)) {
            return None;
        }
        self.call.pinned.get(&tensor.name).map(|digest| (*digest, tensor.components.len()))
    }

    /// Whether a planned tensor is kept in buffers. A pinned digest over several components needs buffers, because the
    /// components may arrive in another order, as do the indices of sparse tensors.
    pub(crate) fn stores_output(&self, slot: usize) -> bool {
        let checks_together = || {
            let has_checked_indices = || self.tensor(slot).is_ok_and(|tensor| tensor.is_sparse());
            self.pinned(slot).is_some_and(|(_, components)| components > 1)
                || (self.call.verify && has_checked_indices())
        };
        self.call.stores_output || checks_together()
    }

    /// Which bytes of a component of a planned tensor are read.
    pub(crate) fn extent_of(&self, slot: usize, component: &Component) -> Result<Extent> {
        let planned_tensors = self.planned_tensors.borrow();
        let planned = &planned_tensors.get(slot).ok_or_else(unplanned)?.planned;
        Ok(extent(component, planned.rows.as_deref()))
    }

    /// Where the compressed blocks that are read begin in their component, if only some of them are read.
    pub(crate) fn span_start(&self, slot: usize) -> Option<BlockEnd> {
        self.planned_tensors.borrow().get(slot)?.planned.rows.as_ref()?.span.map(|span| span.at)
    }

    /// Whether a prefetched tensor is no longer wanted. Its state is then dropped.
    pub(crate) fn is_cancelled(&self, slot: usize) -> bool {
        let mut planned_tensors = self.planned_tensors.borrow_mut();
        let (Some(prefetching), Some(assembly)) = (&self.call.prefetching, planned_tensors.get_mut(slot)) else {
            return false;
        };
        if (prefetching.is_wanted)(&assembly.planned.tensor.name) {
            return false;
        }
        assembly.gathered = None;
        true
    }

    /// Takes the caller's buffer for the bytes of a component. That for a dense tensor is not one of its components.
    pub(crate) fn take_into(&self, slot: usize) -> Option<BufferOf<S>> {
        let mut planned_tensors = self.planned_tensors.borrow_mut();
        let planned = &mut planned_tensors.get_mut(slot)?.planned;
        if planned.expansion.is_some() { None } else { planned.into.take() }
    }

    pub(crate) fn arrived(&self, arrived: BytesArrived<'_>, now_ms: u64) {
        let bytes = arrived.range.end - arrived.range.start;
        self.concurrency.borrow_mut().arrived(arrived.connection, bytes, now_ms);
        self.call.observer.arrived(arrived);
    }
}

/// Which bytes of a component are read for rows of its tensor, or for all of it.
fn extent(component: &Component, rows: Option<&Rows>) -> Extent {
    rows.map_or_else(|| Extent::whole(component), |rows| rows.extent(component))
}
