//! A model of any format, in any number of files, as one SafeTensors file that is decoded when it is read.

use crate::error::{Error, ErrorKind, Result};
use crate::format::safetensors::layout::{self, ALIGNMENT};
use crate::index::{Component, Metadata, Tensor};
use crate::loader::component_reader::{ComponentReader, PreparedComponent, WantedComponent};
use crate::loader::kept_tensors::KeptTensors;
use crate::loader::pieces::{Rest, run_end};
use crate::loader::schedule::file_checks::WholeChecks;
use crate::loader::schedule::planned::Form;
use crate::loader::transfer::range_reader::Tap;
use crate::loader::whole_files::TensorDigests;
use crate::loader::{Loaded, Loader, Options, TensorRequest};
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::stream::TryStreamExt;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The share of [`Options::max_memory_bytes`] for decoded tensors that are kept for further reads.
const KEPT_SHARE: u64 = 4;

/// Tensors up to this size, such as biases, are read together with their neighbours: a request takes longer than the
/// transfer of their bytes. Runtimes read them one after another, in an order of their own.
const SMALL_BYTES: u64 = 64 << 10;

/// The maximum number of bytes of small tensors that are read at once. They take 0.1 s at 100 Mb/s.
const TOGETHER_BYTES: u64 = 1 << 20;

/// The maximum number of small tensors that are read at once. Each takes memory besides its bytes.
const MAX_TOGETHER: usize = 1024;

/// A model as one SafeTensors file.
///
/// The header is compact JSON without `__metadata__`, padded with spaces to a multiple of 8 bytes, with the tensors in
/// the order of [`Loader::load_index`]. Dtypes that SafeTensors does not have are U8. `weightstream convert` with
/// `--no-metadata` writes the same file.
pub struct SafeTensorsView<S: ModelSource> {
    loader: Rc<Loader<S>>,
    head: Vec<u8>,
    tensors: Vec<Arc<Tensor>>,
    /// The end of each tensor in the file.
    ends: Vec<u64>,
    /// Decoded tensors that were read in part or with a neighbour.
    kept: RefCell<KeptTensors<BufferOf<S>>>,
    /// A compressed tensor that was read in part, too large to be kept: a read that follows continues there.
    unfinished: RefCell<Option<(usize, Box<ComponentReader<S>>)>>,
}

impl<S: ModelSource> SafeTensorsView<S> {
    /// Determines the layout of the file. Reads the index of the model, but no tensor.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a tensor that SafeTensors cannot store, such as a sparse one; errors of
    /// [`Loader::load_index`].
    pub async fn new(loader: Rc<Loader<S>>) -> Result<Self> {
        if loader.has_adapters() {
            let error = Error::new(ErrorKind::Unsupported, "a model with adapters is in no file that could be read");
            return Err(error.advise("Load its tensors, or convert it with `--adapter`."));
        }
        let tensors = loader.load_stored_index().await?.to_vec();
        loader.shards.iter().for_each(|shard| shard.file.keep_one_version());
        let head = layout::head(tensors.iter().map(|tensor| &**tensor), &Metadata::new(), ALIGNMENT)?;
        let ranges = layout::ranges(head.len() as u64, tensors.iter().map(|tensor| &**tensor))?;
        let ends = ranges.into_iter().map(|range| range.end).collect();
        let kept = RefCell::new(KeptTensors::new(loader.options.max_memory_bytes / KEPT_SHARE));
        Ok(SafeTensorsView { loader, head, tensors, ends, kept, unfinished: RefCell::default() })
    }

    /// The length of the file in bytes.
    pub fn byte_length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.head.len() as u64)
    }

    /// Reads the bytes of `range`, or up to the end of the file if that comes first. Requests nothing yet.
    pub fn read(self: &Rc<Self>, range: Range<u64>) -> ViewReader<S> {
        let end = range.end.min(self.byte_length());
        let start = range.start.min(end);
        let (current, rest, whole) = (None, Rest::default(), None);
        ViewReader { start, position: start, end, current, rest, whole, view: Rc::clone(self) }
    }

    /// Whether a read of the whole file compares more than reads of each tensor do: checksums of the model's files.
    ///
    /// # Errors
    /// Errors of the source, if the length of a file must be requested.
    pub async fn has_file_checks(&self) -> Result<bool> {
        Ok(self.file_checks().await?.is_some())
    }

    /// The checksums of the model's files that a read of the whole file compares.
    async fn file_checks(&self) -> Result<Option<Rc<WholeChecks>>> {
        let Options { verify, digests, .. } = &self.loader.options;
        if !verify && digests.files.is_empty() {
            return Ok(None);
        }
        let whole = Rc::<WholeChecks>::default();
        let of_tensors = if *verify { TensorDigests::Compared } else { TensorDigests::NotCompared };
        whole.begin(&self.loader.shards, self.loader.file_plans(of_tensors).await?)?;
        let is_checked = (0..self.loader.shards.len()).any(|shard| whole.include(shard, &(0..u64::MAX)));
        Ok(is_checked.then_some(whole))
    }

    /// The range of a tensor in the file.
    fn range_of(&self, number: usize) -> Range<u64> {
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or(self.head.len() as u64);
        start..self.ends.get(number).copied().unwrap_or(start)
    }

    /// Whether a part of the tensor is read by way of the whole tensor: because the bytes before it must be decoded
    /// anyway, or because only the whole tensor can be verified.
    fn is_read_whole(&self, tensor: &Tensor, component: &Component) -> bool {
        let is_verified = self.loader.pinned.contains_key(&tensor.name)
            || self.loader.options.verify && component.digest.is_some() && component.pages.is_none();
        let is_small = component.decoded_length.is_some_and(|length| length <= self.kept.borrow().max_bytes());
        is_small && (is_verified || !component.encoding.keeps_positions())
    }

    /// The small tensors of the same file around a small tensor, including itself, that are not kept yet. `None` if
    /// there are no others.
    fn small_neighbours(&self, number: usize) -> Option<Range<usize>> {
        let shard = self.tensors.get(number)?.shard;
        let length = |number: usize| {
            let Range { start, end } = self.range_of(number);
            let is_wanted = self.tensors.get(number)?.shard == shard && !self.kept.borrow().has(number);
            (is_wanted && end - start <= SMALL_BYTES).then_some(end - start)
        };
        let mut left = TOGETHER_BYTES.min(self.kept.borrow().max_bytes()).checked_sub(length(number)?)?;
        let mut take = |number: &usize| {
            let rest = length(*number).and_then(|length| left.checked_sub(length));
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let (after, before) = (number + 1..self.tensors.len(), (0..number).rev());
        let last = after.take(MAX_TOGETHER / 2).take_while(&mut take).last().unwrap_or(number);
        let first = before.take(MAX_TOGETHER / 2).take_while(&mut take).last().unwrap_or(number);
        (first < last).then_some(first..last + 1)
    }

    /// Loads tensors with one request, and keeps them. Stops at the first error, which may concern any of them.
    async fn load_together(&self, numbers: Range<usize>) -> Result<()> {
        let tensors = self.tensors.get(numbers.clone()).unwrap_or_default().to_vec();
        let mut loads = Box::pin(self.loader.stream(tensors, Form::default(), self.loader.call(Rc::new(()))).await?);
        while let Some(loaded) = loads.try_next().await? {
            let number = numbers
                .clone()
                .find(|&number| self.tensors.get(number).is_some_and(|tensor| Arc::ptr_eq(tensor, &loaded.tensor)));
            if let Some(number) = number {
                self.kept.borrow_mut().keep(number, Rc::new(loaded));
            }
        }
        Ok(())
    }
}

impl<S: ModelSource> std::fmt::Debug for SafeTensorsView<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafeTensorsView").field("loader", &self.loader).finish_non_exhaustive()
    }
}

/// Reads a range of a [`SafeTensorsView`] from its start to its end.
///
/// The checksums of the model's files are compared if the whole file is read, before its last bytes are returned. A
/// tensor that is read completely is verified before its last bytes are returned. A part of a tensor is verified too,
/// unless the tensor is larger than a quarter of [`Options::max_memory_bytes`]: then only page digests verify it.
pub struct ViewReader<S: ModelSource> {
    view: Rc<SafeTensorsView<S>>,
    start: u64,
    position: u64,
    end: u64,
    current: Option<(usize, Content<S>)>,
    rest: Rest<S>,
    /// The checksums of the model's files, once the first bytes of the whole file are read.
    whole: Option<Rc<WholeChecks>>,
}

/// The bytes of a tensor.
enum Content<S: ModelSource> {
    /// A decoded tensor in memory.
    Kept(Rc<Loaded<BufferOf<S>>>),
    Stream(Box<ComponentReader<S>>),
}

impl<S: ModelSource> ViewReader<S> {
    /// The number of bytes that were not read yet.
    pub fn remaining(&self) -> u64 {
        self.end - self.position
    }

    /// Fills `at` of `into` with the next bytes, and returns how many there are: fewer than fit only at the end of the
    /// range.
    ///
    /// # Errors
    /// Errors of the source and the decoders; `CHECKSUM` if the last bytes complete a tensor that does not match its
    /// digest.
    pub async fn fill(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let end = at.start + (at.end - at.start).min(self.remaining());
        let loader = Rc::clone(&self.view.loader);
        let _goes_first = loader.priority.demand();
        let mut filled = at.start;
        if self.position == 0 && filled < end {
            self.begin_checks().await?;
        }
        while filled < end {
            let count = self.fill_part(into, filled..end).await?;
            filled += count;
            self.position += count;
        }
        if self.remaining() == 0
            && let Some(whole) = self.whole.take()
        {
            loader.compare_rest(&whole).await?;
        }
        Ok(filled - at.start)
    }

    /// Begins to compute the checksums of the model's files, if the whole file will be read.
    async fn begin_checks(&mut self) -> Result<()> {
        if self.end < self.view.byte_length() {
            return Ok(());
        }
        let Some(whole) = self.view.file_checks().await? else { return Ok(()) };
        let checks = Rc::clone(&whole);
        let taps = move |shard| {
            let tap = Rc::clone(&checks);
            let tap: Tap = Rc::new(move |at, bytes| tap.update(shard, at, bytes));
            checks.include(shard, &(0..u64::MAX)).then_some(tap)
        };
        self.rest = Rest::default().with_taps(Rc::new(taps));
        self.whole = Some(whole);
        Ok(())
    }

    /// Fills a part of `at`: the header, or the bytes of one tensor.
    async fn fill_part(&mut self, into: &mut BufferOf<S>, at: Range<u64>) -> Result<u64> {
        let head = self.view.head.get(usize::try_from(self.position).unwrap_or(usize::MAX)..).unwrap_or_default();
        if !head.is_empty() {
            let part = head.get(..usize::try_from(at.end - at.start).unwrap_or(usize::MAX)).unwrap_or(head);
            into.write(at.start, part)?;
            return Ok(part.len() as u64);
        }
        let number = self.view.ends.partition_point(|end| *end <= self.position);
        let Range { start, end } = self.view.range_of(number);
        let part = self.position - start..(end - start).min(self.position - start + (at.end - at.start));
        let mut content = match self.current.take() {
            Some((current, content)) if current == number => content,
            _ => self.open(number, part.start..self.end.min(end) - start).await?,
        };
        let at = at.start..at.start + (part.end - part.start);
        let count = match &mut content {
            Content::Kept(loaded) => copy(loaded, part, into, at.start)?,
            Content::Stream(reader) => reader.fill(into, at).await?,
        };
        if count == 0 {
            return Err(Error::new(ErrorKind::Internal, "a tensor ended before its length"));
        }
        self.view.loader.stats.count_decoded(count);
        if self.position + count < end {
            self.current = Some((number, content));
        } else if let (Content::Stream(reader), Some(tensor)) = (content, self.view.tensors.get(number)) {
            self.rest.keep(tensor.shard, reader.into_reading()); // the next tensor may follow in the file
        }
        Ok(count)
    }

    /// Begins to read `part` of a tensor.
    async fn open(&mut self, number: usize, part: Range<u64>) -> Result<Content<S>> {
        let view = Rc::clone(&self.view);
        if let Some(loaded) = view.kept.borrow_mut().get(number) {
            return Ok(Content::Kept(loaded));
        }
        let is_next =
            |(of, reader): &mut (usize, Box<ComponentReader<S>>)| *of == number && reader.position() == part.start;
        if let Some((_, reader)) = view.unfinished.borrow_mut().take_if(is_next) {
            return Ok(Content::Stream(reader));
        }
        // A read that goes on with the next tensors needs no other request for them.
        let is_alone = self.start >= view.range_of(number).start && self.end <= view.range_of(number).end;
        if is_alone && let Some(neighbours) = view.small_neighbours(number) {
            view.load_together(neighbours).await.ok();
            if let Some(loaded) = view.kept.borrow_mut().get(number) {
                return Ok(Content::Kept(loaded));
            }
        }
        let missing = || Error::new(ErrorKind::Internal, "there is no such tensor");
        let tensor = view.tensors.get(number).ok_or_else(missing)?;
        let component = tensor.components.first().ok_or_else(missing)?;
        let length = component.decoded_length.unwrap_or(part.end);
        let is_whole = part == (0..length);
        if !is_whole && view.is_read_whole(tensor, component) {
            let loaded = view.loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await?;
            let loaded = Rc::new(loaded);
            view.kept.borrow_mut().keep(number, Rc::clone(&loaded));
            return Ok(Content::Kept(loaded));
        }
        // A read that follows can continue in a compressed tensor.
        let range = if component.encoding.keeps_positions() { part } else { part.start..length };
        let file = view.loader.file_of(tensor)?;
        let in_range = view.ends.partition_point(|end| *end <= self.end).max(number + 1);
        let following = view.tensors.get(number + 1..in_range).unwrap_or_default();
        let gap_bytes = view.loader.options.coalesce_gap_bytes;
        let run_end = || run_end(tensor, following.iter().map(|tensor| &**tensor), gap_bytes);
        let wanted = WantedComponent { tensor, component, range: Some(range) };
        let prepared = PreparedComponent::new(&view.loader, &file, wanted).await?;
        let (rest, stored) = (&mut self.rest, prepared.stored());
        let reading = rest.reader(&view.loader, &file, tensor.shard, stored, &run_end).await;
        let reading = reading.map_err(|e| file.reject_if_corrupt(e.in_tensor(&tensor.name)))?;
        Ok(Content::Stream(Box::new(prepared.start(reading))))
    }
}

impl<S: ModelSource> Drop for ViewReader<S> {
    fn drop(&mut self) {
        if let Some((number, Content::Stream(reader))) = self.current.take()
            && reader.can_continue()
        {
            *self.view.unfinished.borrow_mut() = Some((number, reader));
        }
    }
}

impl<S: ModelSource> std::fmt::Debug for ViewReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewReader").field("position", &self.position).field("end", &self.end).finish_non_exhaustive()
    }
}

/// Copies `part` of a tensor to the offset `at` of `into`. Returns its length.
fn copy<B: Buffer>(loaded: &Loaded<B>, part: Range<u64>, into: &mut B, at: u64) -> Result<u64> {
    let missing = || Error::new(ErrorKind::Internal, "a tensor was loaded without its bytes");
    let component = loaded.components.first().ok_or_else(missing)?;
    into.copy(at, &component.buffer, part.clone())?;
    Ok(part.end - part.start)
}
