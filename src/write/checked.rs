//! A model for one call that passes its bytes on: whatever `verify` compares is compared before the call commits.

use super::cancellation::check_cancelled;
use super::input::{Extent, Input};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Algorithm, Component, Tensor};
use crate::loader::ModelMetadata;
use crate::native::stored::{StoredFiles, StoredTap};
use crate::pipeline::{LoadedComponent, check_indices};
use crate::progress::Progress;
use crate::trust::{FilePlan, Sums};
use crate::window::{Stop, Window};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

/// The maximum number of bytes of a file at a URL that a call reads, besides the tensors that it needs, to compare a
/// digest of the file. A file of a published model has 24 MiB.
const MAX_EXTRA_BYTES: u64 = 64 << 20;

/// A model whose digests of whole files are computed while its tensors are read.
pub(super) struct Checked<'a, F: StoredFiles> {
    files: &'a F,
    input: &'a dyn Input,
    plans: Vec<FilePlan>,
    /// By file, the offset of the first tensor.
    data_starts: Vec<u64>,
    /// What was computed of each file.
    sums: Rc<RefCell<Vec<Sums>>>,
    reading: RefCell<F::Reading>,
    /// The components of sparse tensors that were read, by tensor: their indices are checked together.
    sparse: RefCell<HashMap<String, Vec<LoadedComponent<Vec<u8>>>>>,
    /// By file, the range of the tensors that were read without a digest of their own.
    unverified: RefCell<Vec<Option<Range<u64>>>>,
}

impl<'a, F: StoredFiles + Input> Checked<'a, F> {
    /// Begins a call.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a pinned digest that cannot be compared; errors of reading.
    pub(super) fn begin(files: &'a F) -> Result<Self> {
        let plans = files.plans()?;
        let sums = Rc::new(RefCell::new(plans.iter().map(FilePlan::begin).collect::<Vec<_>>()));
        let computed = Rc::clone(&sums);
        let tap: StoredTap = Rc::new(move |shard, at, bytes| {
            if let Some(sums) = computed.borrow_mut().get_mut(shard) {
                sums.update(at, bytes);
            }
        });
        let unverified = RefCell::new(vec![None; plans.len()]);
        let reading = RefCell::new(StoredFiles::begin(files, tap));
        let mut data_starts = vec![u64::MAX; plans.len()];
        for tensor in Input::tensors(files) {
            if let Some(start) = data_starts.get_mut(tensor.shard) {
                *start = tensor.first_byte().min(*start);
            }
        }
        let sparse = RefCell::default();
        Ok(Checked { files, input: files, plans, data_starts, sums, reading, sparse, unverified })
    }

    /// Adds the bytes between the last component and this one, such as the head and padding, if they are few.
    fn fill_gap(&self, shard: usize, component: &Component) -> Result<()> {
        let start = component.range.start;
        let gap = self.sums.borrow().get(shard).and_then(|sums| {
            let is_head = !sums.take_any_order() && self.data_starts.get(shard) == Some(&start);
            sums.gap_before(start, if is_head { start } else { F::MAX_GAP_BYTES })
        });
        gap.map_or(Ok(()), |gap| self.read_missing(shard, gap, &()))
    }

    fn read_missing(&self, shard: usize, range: Range<u64>, progress: &(dyn Progress + Sync)) -> Result<()> {
        let mut add = |at: u64, bytes: &[u8]| {
            if let Some(sums) = self.sums.borrow_mut().get_mut(shard) {
                sums.update(at, bytes);
            }
        };
        self.files.read_stored(shard, range, &mut add, &|| check_cancelled(progress))
    }

    /// Reads what is missing of a file, and compares its digests.
    fn compare_file(&self, shard: usize, plan: &FilePlan, progress: &(dyn Progress + Sync)) -> Result<()> {
        let missing = || self.sums.borrow().get(shard).and_then(Sums::missing);
        while let Some(range) = missing() {
            self.read_missing(shard, range, progress)?;
        }
        let crc32s = self.files.footers(shard, plan)?;
        let sums = self.sums.borrow();
        let compared = plan.compare(&crc32s, |over, like| {
            let computed = sums.get(shard).and_then(|sums| sums.digest(over, like));
            computed.ok_or_else(|| Error::new(ErrorKind::Internal, "a file was not read completely").at(over.clone()))
        });
        compared.map(drop).map_err(|e| e.in_file(&self.files.file_name(shard)))
    }

    /// Notes a component that was read, and checks the indices of a sparse tensor when its last component was read.
    fn note(
        &self,
        tensor: &Tensor,
        component: &Component,
        verified: Option<Algorithm>,
        bytes: Option<Vec<u8>>,
    ) -> Result<()> {
        if verified.is_none()
            && let Some(noted) = self.unverified.borrow_mut().get_mut(tensor.shard_of(component))
        {
            let Range { start, end } = component.range;
            *noted = Some(noted.take().map_or(start..end, |noted| noted.start.min(start)..noted.end.max(end)));
        }
        let Some(buffer) = bytes else { return Ok(()) };
        let mut sparse = self.sparse.borrow_mut();
        let read = sparse.entry(tensor.name.clone()).or_default();
        read.retain(|earlier| earlier.role != component.role);
        read.push(LoadedComponent { role: component.role.clone(), dtype: component.dtype.clone(), buffer });
        if read.len() < tensor.components.len() {
            return Ok(());
        }
        let mut components = sparse.remove(&tensor.name).unwrap_or_default();
        let position = |role: &str| tensor.components.iter().position(|component| *component.role == *role);
        components.sort_by_key(|component| position(&component.role));
        let place = |e: Error| e.in_tensor(&tensor.name).in_file(&self.files.file_name(tensor.shard));
        check_indices(tensor, &components).map_err(place)
    }
}

impl<F: StoredFiles + Input> Input for Checked<'_, F> {
    fn metadata(&self) -> &ModelMetadata {
        self.input.metadata()
    }

    fn tensors(&self) -> &[Tensor] {
        self.input.tensors()
    }

    fn read_pieces(&self, tensor: &Tensor, role: &str, emit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let component = tensor.components.iter().find(|component| *component.role == *role).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("it has no component \"{role}\"")).in_tensor(&tensor.name)
        })?;
        self.fill_gap(tensor.shard_of(component), component)?;
        let mut reading = self.reading.try_borrow_mut().map_err(|_| {
            let what = "a component cannot be read while another one is being read";
            Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name)
        })?;
        let mut kept = tensor.is_sparse().then(Vec::new);
        let verified = self.files.read_component(&mut reading, tensor, component, &mut |bytes| {
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(bytes);
            }
            emit(bytes)
        })?;
        self.note(tensor, component, verified, kept)
    }

    fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        self.input.parse_first(parse)
    }

    fn modified(&self) -> Option<SystemTime> {
        self.input.modified()
    }

    fn version(&self) -> Option<String> {
        self.input.version()
    }

    fn paths(&self) -> Vec<&Path> {
        self.input.paths()
    }

    fn urls(&self) -> Vec<&str> {
        self.input.urls()
    }

    fn compare_files(&self, extent: Extent, progress: &(dyn Progress + Sync)) -> Result<Vec<String>> {
        let mut left_out = Vec::new();
        for (shard, plan) in self.plans.iter().enumerate() {
            if extent == Extent::Read {
                let unverified = self.unverified.borrow().get(shard).cloned().flatten();
                let covers = |range: &Range<u64>| self.sums.borrow().get(shard).is_some_and(|sums| sums.include(range));
                let Some(read) = unverified.filter(covers) else { continue };
                let whole = self.sums.borrow().get(shard).and_then(Sums::end).unwrap_or(0);
                let extra = whole.saturating_sub(read.end - read.start);
                if F::MAX_GAP_BYTES == 0 && extra > MAX_EXTRA_BYTES {
                    left_out.push(self.files.file_name(shard));
                    continue;
                }
            }
            self.compare_file(shard, plan, progress)?;
        }
        Ok(left_out)
    }
}
