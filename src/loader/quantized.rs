//! Groups the parts of quantized tensors when the index is read. The code is deferred in the npm package.

use crate::adapter;
use crate::deferred::Code;
use crate::dtype::Dtype;
use crate::error::{ErrorKind, Result};
use crate::index::{Algorithm, ComponentDigest, DigestedBytes, Index, Part, Tensor, Tensors};
use crate::loader::schedule::batch::Call;
use crate::loader::schedule::planned::{Form, PlannedTensor, check_into};
use crate::loader::schedule::rows::shape_of_rows;
use crate::loader::shard::OpenShard;
use crate::loader::transfer::file::ModelFile;
use crate::loader::{Loaded, LoadedComponent, Loader, TensorRequest};
use crate::pipeline::{Dequantization, Expansion, QuantizedRows, Steps};
use crate::plan::{self, WantedRange};
use crate::progress::Progress;
use crate::quantization::{self, Contents, GroupedFile, ModelConfig};
use crate::source::{Buffer, BufferOf, ModelSource};
use futures::future::{FutureExt, LocalBoxFuture};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Small tensors that are at most this far apart are read with one request. What is between them are codes, which
/// would be read twice.
const CONTENTS_GAP_BYTES: u64 = 64 << 10;

impl<S: ModelSource> Loader<S> {
    /// The files of the model with one tensor for each group of parts. Reads the heads of all files, because the parts
    /// of a tensor may be in different ones.
    #[inline(never)]
    pub(super) fn group_quantized(&self) -> LocalBoxFuture<'_, Result<Vec<Rc<OpenShard>>>> {
        let group = async move {
            let opened = self.read_shards().await?;
            let own = opened.iter().take(self.own_files());
            let indexes: Vec<Index> = own.map(|open| open.index.clone()).collect();
            let contents = self.read_contents(&indexes).await?;
            let given = self.options.config.as_ref();
            let mut grouping = quantization::group(&indexes, given, &contents);
            let mut warning = None;
            if grouping.is_ambiguous && given.is_none() {
                match self.read_config().await {
                    Ok(Some(config)) => grouping = quantization::group(&indexes, Some(&config), &contents),
                    Ok(None) => {}
                    Err(error) => warning = Some(format!("{} cannot be read: {error}", ModelConfig::FILE_NAME)),
                }
            }
            let mut grouped = grouping.files;
            if self.has_adapters() {
                grouped = adapter::apply(grouped, self.adapters.clone())?;
            }
            let mut files = Vec::with_capacity(opened.len());
            for (shard, (GroupedFile { mut index, parts }, open)) in grouped.into_iter().zip(opened).enumerate() {
                self.pin_parts(&mut index);
                index.warnings.extend(warning.take());
                let parts = parts.into_iter().map(|part| Tensor { shard, ..part }).collect();
                files.push(Rc::new(OpenShard { index, shadowed: open.shadowed.clone(), parts }));
            }
            Ok(files)
        };
        group.boxed_local()
    }

    /// Reads the small tensors that state how others are quantized, several with one request if they are close.
    async fn read_contents(&self, indexes: &[Index]) -> Result<Contents> {
        let wanted = quantization::contents_to_read(indexes).into_iter();
        let wanted =
            wanted.map(|(target, shard, range)| WantedRange { shard, read_range: range.clone(), range, target });
        let runs = plan::merge_ranges(wanted.collect(), |_| self.options.coalesce_gap_bytes.min(CONTENTS_GAP_BYTES));
        let read = |run: plan::Run<String>| async move {
            let mut contents = Contents::new();
            let Some(shard) = self.shards.get(run.shard) else { return Ok(contents) };
            let place = |error| shard.file.reject_if_corrupt(error);
            let bytes = read_range(&shard.file, run.range.clone()).await.map_err(place)?;
            for WantedRange { target, range, .. } in run.wanted {
                let at = |offset: u64| (offset - run.range.start) as usize;
                let content = bytes.get(at(range.start)..at(range.end)).unwrap_or_default();
                contents.insert(target, content.to_vec());
            }
            Ok::<_, crate::error::Error>(contents)
        };
        let reads = stream::iter(runs).map(read).buffered(self.options.concurrency);
        let all: Vec<Contents> = reads.try_collect().await?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The `config.json` beside the model; `None` if there is none.
    async fn read_config(&self) -> Result<Option<ModelConfig>> {
        let Some(shard) = self.shards.first() else { return Ok(None) };
        let part = Part { path: ModelConfig::FILE_NAME.to_owned(), ..Part::default() };
        let read = async {
            let file = Rc::new(shard.file.part(&part)?);
            file.parse_with(|window| Ok(window.get_all(ModelConfig::MAX_BYTES)?.to_vec())).await
        };
        match read.await {
            Ok(json) => ModelConfig::from_json(&json).map(Some),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Compares the parts of quantized tensors with the digests that the caller pinned for them.
    fn pin_parts(&self, index: &mut Index) {
        if self.pinned.is_empty() {
            return;
        }
        let pinned = |tensor: &Tensor| {
            let mut tensor = tensor.clone();
            for (part, component) in tensor.quantized()?.parts.clone().iter().zip(&mut tensor.components) {
                let digest = self.pinned.get(&part.name);
                let digest = digest.map(|digest| ComponentDigest { digest: *digest, over: DigestedBytes::Decoded });
                component.digest = digest.or(component.digest);
            }
            Some(tensor)
        };
        let tensors: Tensors = std::mem::take(&mut index.tensors);
        let mut with_digests = Vec::with_capacity(tensors.len());
        for tensor in tensors.iter() {
            with_digests.push(pinned(&tensor).unwrap_or_else(|| Arc::unwrap_or_clone(tensor)));
        }
        index.tensors = Tensors::from(with_digests);
        index.tensors.index_names();
    }
}

impl<S: ModelSource> Loader<S> {
    /// Computes the values of a quantized tensor, or of rows of it from the bytes that they need.
    #[inline(never)]
    pub(super) fn load_quantized(
        self: &Rc<Self>,
        tensor: Arc<Tensor>,
        request: TensorRequest<BufferOf<S>>,
        observer: Rc<dyn Progress>,
    ) -> LocalBoxFuture<'static, Result<Loaded<BufferOf<S>>>> {
        let loader = Rc::clone(self);
        let load = async move {
            loader.file_of(&tensor)?.source.host().load_code(Code::Calls).await?;
            let TensorRequest { rows, into, dtype, is_dense } = request;
            let Some(rows) = rows else {
                let form = Form { dtype: dtype.as_ref(), is_dense }.of(&tensor);
                return loader.load_planned(loader.plan(tensor, None, into, form)?, observer).await;
            };
            let shape = shape_of_rows(&tensor, &rows)?;
            let part = Dequantization::of_rows(&tensor, &rows, dtype.as_ref())?;
            let QuantizedRows { tensor: part, dequantization } = part;
            let expansion = Some(Box::new(Expansion::Quantized(dequantization)));
            let planned = PlannedTensor { tensor: part, rows: None, into, conversion: None, expansion };
            check_into(&planned)?;
            let loaded = loader.load_planned_in(planned, loader.call_for_rows(observer)).await?;
            Ok(Loaded { tensor, shape, ..loaded })
        };
        load.boxed_local()
    }

    /// A call that loads bytes of some rows, which are not compared with the digest of the whole tensor.
    fn call_for_rows(&self, observer: Rc<dyn Progress>) -> Call {
        Call { pinned: Rc::default(), ..self.call(observer) }
    }

    /// Loads the parts of a quantized tensor, or those of rows of it.
    #[inline(never)]
    pub(super) fn quantized_reader<'a>(
        self: &'a Rc<Self>,
        tensor: &'a Arc<Tensor>,
        rows: Option<&'a Range<u64>>,
        dtype: &'a Dtype,
    ) -> LocalBoxFuture<'a, Result<QuantizedReader<BufferOf<S>>>> {
        let load = async move {
            let shape = rows.map_or_else(|| Ok(tensor.shape.clone()), |rows| shape_of_rows(tensor, rows))?;
            let (QuantizedRows { tensor, dequantization }, call) = match rows {
                Some(rows) => (Dequantization::of_rows(tensor, rows, Some(dtype))?, self.call_for_rows(Rc::new(()))),
                None => {
                    let dequantization = Dequantization::of(tensor, None, Some(dtype))?;
                    (QuantizedRows { tensor: Arc::clone(tensor), dequantization }, self.call(Rc::new(())))
                }
            };
            let planned = self.plan(tensor, None, None, Form::default())?;
            let Loaded { tensor, components, verified, .. } = self.load_planned_in(planned, call).await?;
            let (steps, at) = (Steps::default(), 0);
            Ok(QuantizedReader { tensor, dequantization, components, verified, shape, steps, at })
        };
        load.boxed_local()
    }
}

/// Computes the values of a quantized tensor from its parts, in pieces.
pub(super) struct QuantizedReader<B> {
    tensor: Arc<Tensor>,
    dequantization: Dequantization,
    components: Vec<LoadedComponent<B>>,
    pub(super) verified: Option<Algorithm>,
    pub(super) shape: Vec<u64>,
    steps: Steps,
    /// The number of bytes of the last step that were returned.
    at: usize,
}

impl<B: Buffer> QuantizedReader<B> {
    /// The number of bytes of all values.
    pub(super) fn byte_length(&self) -> u64 {
        self.dequantization.byte_length()
    }

    /// Fills `at` of `into` with the next bytes, and returns how many there are: fewer than fit only at the end.
    #[inline(never)]
    pub(super) fn fill(&mut self, into: &mut B, at: Range<u64>) -> Result<u64> {
        let mut position = at.start;
        while position < at.end {
            if self.at == self.steps.bytes().len() {
                self.at = 0;
                if !self.steps.next(&self.dequantization, &self.tensor, &self.components)? {
                    break;
                }
            }
            let rest = self.steps.bytes().get(self.at..).unwrap_or_default();
            let piece = rest.get(..rest.len().min((at.end - position) as usize)).unwrap_or_default();
            into.write(position, piece)?;
            position += piece.len() as u64;
            self.at += piece.len();
        }
        Ok(position - at.start)
    }
}

/// Reads a short range of a file.
async fn read_range<S: ModelSource>(file: &Rc<ModelFile<S>>, range: Range<u64>) -> Result<Vec<u8>> {
    let mut reader = file.start(range.clone(), Rc::new(Cell::new(range.end)));
    let mut bytes = Vec::new();
    while reader.position < range.end {
        let Some(chunk) = reader.chunk(range.end - reader.position).await? else { break };
        chunk.buffer.inspect(0..chunk.length, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
    }
    Ok(bytes)
}
