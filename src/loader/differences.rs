//! Tensors of a published model as differences to those of the previous revision, where these are at hand: in the cache
//! of a browser, or natively in a folder.
//!
//! Whole tensors are computed so; rows, pieces and views read the tensor itself. The result is compared with its digest
//! before it is returned. If anything is missing or wrong, the tensor itself is read.

use crate::algorithm::Algorithm;
use crate::buffer::Buffer;
use crate::codec::difference;
use crate::codec::digest::{Hasher, compare, digest_of};
use crate::deferred::Code;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::index::differences::{Difference, Differences};
use crate::index::{Layout, Tensor};
use crate::loader::prefetch_progress::report_all;
use crate::loader::schedule::batch::Call;
use crate::loader::schedule::planned::Form;
use crate::loader::{Loaded, LoadedComponent, Loader, Options, Order, TensorRequest};
use crate::progress::Progress;
use crate::source::{BufferOf, ModelSource};
use futures::StreamExt;
use futures::future::{FutureExt, LocalBoxFuture};
use futures::lock::Mutex;
use futures::stream::{self, LocalBoxStream};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The number of bytes that are added at once.
const STEP_BYTES: u64 = 64 << 10;

/// A tensor, and what verified it.
type Sum<S> = (BufferOf<S>, Algorithm);

type LoadedStream<S> = LocalBoxStream<'static, Result<Loaded<BufferOf<S>>>>;

/// A tensor, or the request that must be fulfilled in another way.
type LoadedOr<B> = std::result::Result<Loaded<B>, TensorRequest<B>>;

/// The files that differences need besides those of the model.
pub(super) struct RelatedFiles<S: ModelSource> {
    /// By path; `None` for a file that is not at hand.
    open: Mutex<HashMap<String, Option<Rc<Loader<S>>>>>,
    /// Whether a difference did not lead to the stated tensor. The others are then not used.
    has_failed: Cell<bool>,
}

impl<S: ModelSource> Default for RelatedFiles<S> {
    fn default() -> Self {
        RelatedFiles { open: Mutex::default(), has_failed: Cell::new(false) }
    }
}

impl<S: ModelSource> Loader<S> {
    /// Whether the model states differences to its previous revision.
    pub(super) fn has_differences(&self) -> bool {
        let publication = self.assembly.manifest.as_ref().and_then(|manifest| manifest.publication.as_ref());
        publication.is_some_and(|publication| publication.differences().is_some())
    }

    /// Loads the code of the other functions. They are boxed, because it is deferred. Returns false if it cannot be
    /// loaded: tensors are then read themselves.
    pub(super) async fn load_difference_code(&self) -> bool {
        match self.shards.first() {
            Some(shard) => shard.file.source.host().load_code(Code::Extras).await.is_ok(),
            None => true,
        }
    }

    /// The differences to the previous revision, if they may be used. A signed or pinned file is read itself.
    fn differences(&self) -> Option<&Differences> {
        let is_bound_to_files = self.options.signature.is_some() || !self.options.digests.files.is_empty();
        let differences = self.assembly.manifest.as_ref()?.publication.as_ref()?.differences()?;
        (!is_bound_to_files && !self.related.has_failed.get()).then_some(differences)
    }

    /// The tensor as the sum of the earlier one and the difference. Returns the request if the tensor itself must be
    /// read.
    ///
    /// # Errors
    /// Those of finding the tensor, and of converting it.
    #[inline(never)]
    pub(super) fn by_difference<'a>(
        self: &'a Rc<Self>,
        name: &'a str,
        request: TensorRequest<BufferOf<S>>,
        observer: Rc<dyn Progress>,
    ) -> LocalBoxFuture<'a, Result<LoadedOr<BufferOf<S>>>> {
        let load = async move {
            if request.rows.is_some() {
                return Ok(Err(request));
            }
            let tensor = self.find(name).await?;
            match self.summed(&tensor).await {
                Some(loaded) => {
                    report_all(&tensor, &*observer);
                    let form = Form { dtype: request.dtype.as_ref(), is_dense: request.is_dense };
                    self.in_form(loaded, form)?.placed(request.into).map(Ok)
                }
                None => Ok(Err(request)),
            }
        };
        load.boxed_local()
    }

    /// A tensor as the sum of the earlier one and the difference, unless it must be read itself.
    async fn summed(self: &Rc<Self>, tensor: &Arc<Tensor>) -> Option<Loaded<BufferOf<S>>> {
        let (buffer, verified) = match self.sum(tensor, self.differences()?).await {
            Ok(sum) => sum?,
            Err(error) => {
                self.related.has_failed.set(true);
                let what = format!("the difference of \"{}\" is not used: {error}", tensor.name);
                self.late_warnings.borrow_mut().push((tensor.shard, what));
                return None;
            }
        };
        let pinned = self.pinned.get(&tensor.name);
        if !pinned.is_none_or(|pinned| digest_of_buffer(&buffer, *pinned).is_ok_and(|digest| digest == *pinned)) {
            return None; // the error is that of the tensor itself
        }
        Some(loaded(tensor, buffer, pinned.map_or(verified, |pinned| pinned.algorithm())))
    }

    /// Streams tensors: those with differences whose bases are at hand first, unless an order is given.
    ///
    /// # Errors
    /// Those of [`Loader::stream`].
    #[inline(never)]
    pub(super) fn stream_by_difference<'a>(
        self: &'a Rc<Self>,
        tensors: Vec<Arc<Tensor>>,
        form: Form<'a>,
        call: Call,
    ) -> LocalBoxFuture<'a, Result<LoadedStream<S>>> {
        let streamed = async move {
            let (summed, rest, call) = self.split_tensors(tensors, form, call).await;
            let rest = self.stream(rest, form, call).await?;
            Ok(stream::iter(summed).flatten().chain(rest).boxed_local())
        };
        streamed.boxed_local()
    }

    async fn split_tensors(
        self: &Rc<Self>,
        tensors: Vec<Arc<Tensor>>,
        form: Form<'_>,
        call: Call,
    ) -> (Option<LoadedStream<S>>, Vec<Arc<Tensor>>, Call) {
        let mut is_difference = Vec::with_capacity(tensors.len());
        for tensor in &tensors {
            is_difference.push(self.has_base(tensor).await);
        }
        if !is_difference.contains(&true) {
            return (None, tensors, call);
        }
        let (mut one_by_one, mut rest) = (Vec::new(), Vec::new());
        for (tensor, is_difference) in tensors.into_iter().zip(is_difference) {
            let is_alone = is_difference || call.order == Order::Given;
            if is_alone { &mut one_by_one } else { &mut rest }.push(tensor);
        }
        let (dtype, is_dense) = (form.dtype.cloned(), form.is_dense);
        let (loader, observer) = (Rc::clone(self), Rc::clone(&call.observer));
        let loads = stream::iter(one_by_one).map(move |tensor| {
            let (loader, observer) = (Rc::clone(&loader), Rc::clone(&observer));
            let request = TensorRequest::default().with_dtype(dtype.clone()).with_dense(is_dense);
            async move { loader.load_tensor(&tensor.name, request, observer).await }
        });
        let loads = loads.buffered(self.options.concurrency);
        // Digests of whole files cannot be compared: each tensor has a digest of its own.
        (Some(loads.boxed_local()), rest, Call { whole: None, ..call })
    }

    /// Whether a tensor has a difference whose base is at hand.
    async fn has_base(self: &Rc<Self>, tensor: &Tensor) -> bool {
        let mut step = self.differences();
        while let Some(differences) = step {
            let Some(stated) = differences.get(&tensor.name) else { return false };
            let is_here = match &self.options.previous {
                Some(previous) => previous.has(&tensor.name),
                None => self.held(tensor, stated).await.is_some(),
            };
            if is_here {
                return true;
            }
            step = differences.before(&tensor.name);
        }
        false
    }

    /// The sum of a tensor of an earlier revision and the differences to it; `None` if that tensor is not at hand.
    async fn sum(self: &Rc<Self>, tensor: &Arc<Tensor>, differences: &Differences) -> Result<Option<Sum<S>>> {
        let Some(stated) = differences.get(&tensor.name) else { return Ok(None) };
        let base = match (self.base(tensor, stated).await, differences.before(&tensor.name)) {
            (Some(base), _) => base,
            (None, Some(before)) => match self.sum(tensor, before).boxed_local().await? {
                Some((base, _)) => base,
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        let file = &differences.file;
        let source = self.file_of(tensor)?.source.part(&file.path)?;
        file.digest.iter().for_each(|digest| source.expect_whole(digest));
        let loader = self.related(&file.path, source, true).await.ok_or_else(missing)?;
        let change = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await?;
        let change = change.components.into_iter().next().ok_or_else(missing)?;
        let summed = add(base, &change.buffer, tensor, stated.result);
        if summed.as_ref().is_err_and(|error| error.kind == ErrorKind::Checksum)
            && let Some(base) = self.related.open.lock().await.get(&stated.base_path).cloned().flatten()
        {
            base.shards.iter().for_each(|shard| shard.file.source.reject()); // or each load would try again
        }
        summed.map(Some)
    }

    /// The tensor of the previous revision.
    async fn base(self: &Rc<Self>, tensor: &Tensor, stated: &Difference) -> Option<BufferOf<S>> {
        if let Some(previous) = &self.options.previous {
            let bytes =
                previous.dense(&tensor.name).ok().filter(|bytes| digest_of(bytes, stated.base) == stated.base)?;
            let mut buffer = BufferOf::<S>::allocate(bytes.len() as u64).ok()?;
            buffer.write(0, &bytes).ok()?;
            return Some(buffer);
        }
        let loader = self.held(tensor, stated).await?;
        let base = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await.ok()?;
        base.components.into_iter().next().map(|component| component.buffer)
    }

    /// The file of the previous revision with a tensor, if all of it is cached.
    async fn held(self: &Rc<Self>, tensor: &Tensor, stated: &Difference) -> Option<Rc<Loader<S>>> {
        let source = self.file_of(tensor).ok()?.source.part(&stated.base_path).ok()?;
        if let Some(open) = self.related.open.lock().await.get(&stated.base_path) {
            return open.clone();
        }
        let is_held = source.holds(&stated.base_file).await;
        self.related(&stated.base_path, source, is_held).await
    }

    /// Opens a file once.
    async fn related(self: &Rc<Self>, path: &str, source: S, is_wanted: bool) -> Option<Rc<Loader<S>>> {
        let mut open = self.related.open.lock().await;
        if let Some(open) = open.get(path) {
            return open.clone();
        }
        let Options { concurrency, retry, .. } = self.options;
        let options = Options { concurrency, retry, ..Options::default() };
        let opened = match is_wanted {
            true => Loader::open_counted(source, options, Rc::clone(&self.stats)).boxed_local().await.ok(),
            false => None,
        };
        let opened = opened.map(|loader| Rc::new(Loader { pool: self.pool.clone(), ..loader }));
        open.insert(path.to_owned(), opened.clone());
        opened
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::NotFound, "the file with the differences cannot be read")
}

fn loaded<B>(tensor: &Arc<Tensor>, buffer: B, verified: Algorithm) -> Loaded<B> {
    let dtype = tensor.dtype.clone();
    let component =
        tensor.components.first().map(|data| LoadedComponent { role: data.role.clone(), dtype: dtype.clone(), buffer });
    Loaded {
        tensor: Arc::clone(tensor),
        dtype,
        layout: Layout::Dense,
        shape: tensor.shape.to_vec(),
        components: component.into_iter().collect(),
        verified: Some(verified),
    }
}

/// Adds a difference to a tensor, and compares the sum with its digest.
fn add<B: Buffer>(mut base: B, change: &B, tensor: &Tensor, result: Digest) -> Result<(B, Algorithm)> {
    let unequal = || Error::new(ErrorKind::Format, "it is for another shape or dtype");
    let length = base.byte_length();
    let width =
        tensor.dtype.block().filter(|block| block.elements == 1).map(|block| block.bytes).ok_or_else(unequal)?;
    if length != change.byte_length() || tensor.byte_length() != Some(length) || tensor.components.len() != 1 {
        return Err(unequal());
    }
    let (mut hasher, mut sum, mut changes) = (Hasher::new(result), Vec::new(), Vec::new());
    let mut at = 0;
    while at < length {
        let range = at..length.min(at + STEP_BYTES);
        read(&base, range.clone(), &mut sum)?;
        read(change, range.clone(), &mut changes)?;
        if !difference::apply(&mut sum, &changes, width) {
            return Err(unequal());
        }
        hasher.update(&sum);
        base.write(at, &sum)?;
        at = range.end;
    }
    let verified = compare(hasher.finish(), result)?;
    Ok((base, verified))
}

/// The digest of a buffer with the algorithm of `like`.
fn digest_of_buffer<B: Buffer>(buffer: &B, like: Digest) -> Result<Digest> {
    let mut hasher = Hasher::new(like);
    buffer.inspect(0..buffer.byte_length(), &mut |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(hasher.finish())
}

fn read<B: Buffer>(buffer: &B, range: Range<u64>, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    buffer.inspect(range, &mut |bytes| {
        into.extend_from_slice(bytes);
        Ok(())
    })
}
