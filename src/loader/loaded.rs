//! Requests for tensors and their results.

use crate::codec::cast::Conversion;
use crate::codec::dequantize::decoder_of;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ggml;
use crate::index::{Algorithm, Component, Layout, Tensor, sparse};
use crate::loader::decode::job::{Job, Task};
use crate::loader::schedule::batch::{Order, PlannedTensor};
use crate::setters::setters;
use crate::source::Buffer;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// A loaded tensor.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded<B> {
    /// The tensor's entry in the index.
    pub tensor: Arc<Tensor>,
    /// The type of the loaded elements: the dtype of the tensor, or the one that they were converted to.
    pub dtype: Dtype,
    /// The layout of the loaded data: that of the tensor, or dense if that was requested.
    pub layout: Layout,
    /// The shape of the loaded data. If only rows were requested, the outermost dimension is their number.
    pub shape: Vec<u64>,
    /// The tensor's components, in index order.
    pub components: Vec<LoadedComponent<B>>,
    /// The algorithm that the tensor's own bytes were verified with, if the format has a digest for them.
    pub verified: Option<Algorithm>,
}

/// The bytes of one component.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedComponent<B> {
    /// The component's role in the tensor: `data`, `values`, `indices` …
    pub role: Cow<'static, str>,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The decoded bytes.
    pub buffer: B,
}

/// Which part of a tensor to load, and the destination buffer.
#[derive(Debug)]
#[non_exhaustive]
pub struct TensorRequest<B> {
    /// Only these rows of the outermost dimension, as a half-open range.
    pub rows: Option<Range<u64>>,
    /// The buffer to write to, of exactly the length of the requested bytes. If `None`, a buffer is allocated.
    pub into: Option<B>,
    /// The dtype that floats and quantized elements are converted to while they arrive: F32, F16 or BF16. Tensors of
    /// integers and booleans keep their dtype. If `None`, all tensors do.
    pub dtype: Option<Dtype>,
    /// Whether a sparse tensor (`sparse_csr`, `sparse_coo`) is returned as a dense one. Its size must not exceed
    /// [`Options::max_memory_bytes`](crate::loader::Options::max_memory_bytes), unless `into` is given.
    pub is_dense: bool,
}

impl<B> TensorRequest<B> {
    setters! {
        with_rows rows: Option<Range<u64>>;
        with_into into: Option<B>;
        with_dtype dtype: Option<Dtype>;
        with_dense is_dense: bool;
    }
}

impl<B> Default for TensorRequest<B> {
    fn default() -> Self {
        TensorRequest { rows: None, into: None, dtype: None, is_dense: false }
    }
}

/// Which tensors to load, and how. By default all tensors, as they are stored.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TensorsRequest {
    /// The names of the tensors; `None` for all tensors.
    pub names: Option<Vec<String>>,
    /// The order in which they are read. Tensors in the given order come over one connection.
    pub order: Order,
    /// Like [`TensorRequest::dtype`].
    pub dtype: Option<Dtype>,
    /// Like [`TensorRequest::is_dense`].
    pub is_dense: bool,
}

impl TensorsRequest {
    setters! {
        with_names names: Option<Vec<String>>;
        with_order order: Order;
        with_dtype dtype: Option<Dtype>;
        with_dense is_dense: bool;
    }
}

/// The result of verifying a whole model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Number of files that hold tensors; the manifest is not counted.
    pub files: usize,
    /// Number of tensors. Each of them can be decoded.
    pub tensors: usize,
    /// The algorithms of the checksums that matched.
    pub checksums: BTreeSet<Algorithm>,
    /// Number of tensors that no checksum covers, neither their own nor their file's. Their structure is valid, but
    /// damaged values cannot be detected.
    pub tensors_without_checksum: usize,
    /// Number of these tensors of which nothing was checked, by dtype: weightstream does not know the size of the
    /// dtype's elements, so that the tensor may be too short, or the dtype may not exist.
    pub unchecked_tensors: BTreeMap<String, usize>,
    /// Warnings that only reading the whole model shows, each with the name of the file: padding that is not zero.
    pub warnings: Vec<(String, String)>,
    /// What could not be checked, each with the name of the file: tensors whose dtype or layout weightstream does not
    /// know, and those that ggml refuses, so that neither their lengths nor their values are known to be right.
    pub unchecked: Vec<(String, String)>,
}

impl Verified {
    /// Notes which of the tensors of a file could not be checked, also according to the warnings about its head.
    pub(crate) fn note_unchecked<'a>(
        &mut self,
        file: &str,
        tensors: impl Iterator<Item = &'a Tensor>,
        warnings: &[String],
    ) {
        let mut unknown: BTreeMap<String, (usize, &str)> = BTreeMap::new();
        for tensor in tensors {
            let what = match &tensor.layout {
                Layout::Other(layout) => format!("the layout {layout}"),
                _ if tensor.components.iter().all(|component| component.dtype.is_known()) => continue,
                _ => format!("the dtype {}", tensor.dtype),
            };
            unknown.entry(what).or_insert((0, &tensor.name)).0 += 1;
        }
        let texts = unknown.into_iter().map(|(what, (count, first))| {
            let noun = if count == 1 { "tensor" } else { "tensors" };
            (file.to_owned(), format!("{what} of {count} {noun} is unknown; the first is \"{first}\""))
        });
        self.unchecked.extend(texts);
        let refusals = warnings.iter().filter(|warning| warning.starts_with(ggml::REFUSES));
        self.unchecked.extend(refusals.map(|warning| (file.to_owned(), warning.clone())));
    }

    /// Adds one file: its tensors, and the algorithms of the checksums that cover all of them.
    pub(crate) fn add_file<'a>(&mut self, tensors: impl Iterator<Item = &'a Tensor>, checksums: &[Algorithm]) {
        for tensor in tensors {
            let own = || tensor.components.iter().map(|component| component.digest);
            let is_checked = !checksums.is_empty() || own().all(|digest| digest.is_some());
            self.tensors_without_checksum += usize::from(!is_checked);
            let is_unknown = |dtype: &Dtype| dtype.block().is_none() && decoder_of(dtype).is_none();
            let mut unknown = tensor.components.iter().map(|component| &component.dtype).filter(|it| is_unknown(it));
            if let Some(dtype) = unknown.next().filter(|_| !is_checked) {
                *self.unchecked_tensors.entry(dtype.to_string()).or_default() += 1;
            }
            self.checksums.extend(own().flatten().map(|stated| stated.digest.algorithm()));
        }
        self.checksums.extend(checksums);
    }
}

/// Checks the indices of a sparse tensor. Tensors of other layouts have none.
///
/// # Errors
/// `FORMAT` if their number, bounds or order are wrong.
pub(crate) fn check_indices<B: Buffer>(tensor: &Tensor, components: &[LoadedComponent<B>]) -> Result<()> {
    let lengths: Vec<_> = components.iter().map(|component| component.buffer.byte_length()).collect();
    let mut rows = None;
    for (at, mut check) in sparse::index_checks(tensor, &lengths)? {
        if let Some(LoadedComponent { buffer, .. }) = components.get(at) {
            rows.take().into_iter().for_each(|rows| check.with_rows(rows));
            buffer.inspect(0..buffer.byte_length(), &mut |bytes| check.push(bytes))?;
            rows = check.take_rows();
        }
    }
    Ok(())
}

impl<B: Buffer> Loaded<B> {
    /// Copies the tensor.
    pub(super) fn duplicate(&self) -> Result<Self> {
        let components = self.components.iter().map(|component| {
            let LoadedComponent { role, dtype, buffer } = component;
            Ok(LoadedComponent { role: role.clone(), dtype: dtype.clone(), buffer: buffer.duplicate()? })
        });
        let components = components.collect::<Result<_>>()?;
        let Loaded { dtype, layout, shape, .. } = self;
        let (tensor, dtype, layout, shape) = (Arc::clone(&self.tensor), dtype.clone(), layout.clone(), shape.clone());
        Ok(Loaded { tensor, dtype, layout, shape, components, verified: self.verified })
    }

    /// Converts a whole tensor.
    pub(super) fn converted(self, conversion: &Conversion) -> Result<Self> {
        let mut components = Vec::new();
        for LoadedComponent { role, dtype, buffer } in self.components {
            let length = buffer.byte_length();
            let mut job = Job::<B>::new(
                Task {
                    component: Component::raw(dtype, 0..length),
                    wanted: 0..length,
                    stores_output: true,
                    is_complete: true,
                    digests: Vec::new(),
                    conversion: Some(conversion.clone()),
                },
                None,
            )?;
            let converted = buffer.inspect(0..length, &mut |bytes| job.push(bytes)).and_then(|()| job.finish());
            let converted = converted.map_err(|e| e.in_tensor(&self.tensor.name))?.buffer;
            components.extend(converted.map(|buffer| LoadedComponent { role, dtype: conversion.to.clone(), buffer }));
        }
        Ok(Loaded { dtype: conversion.to.clone(), components, ..self })
    }
}

/// Checks that the elements and the length of `into` are those of what is requested.
pub(super) fn check_into<B: Buffer>(planned: &PlannedTensor<B>) -> Result<()> {
    let PlannedTensor { tensor, rows, into: Some(into), conversion, expansion } = planned else { return Ok(()) };
    let into_length = into.byte_length();
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name));
    if tensor.components.len() != 1 && expansion.is_none() {
        return refuse("`into` takes one buffer, but this tensor has several components".to_owned());
    }
    let own = tensor.components.first().map_or(&tensor.dtype, |component| &component.dtype);
    let dtype = conversion.as_ref().map(|conversion| &conversion.to);
    let dtype = dtype.or_else(|| expansion.as_ref().map(|expansion| &expansion.dtype)).unwrap_or(own);
    into.check_elements(dtype).map_err(|e| e.in_tensor(&tensor.name))?;
    let converted = conversion.as_ref().map(|conversion| conversion.byte_length());
    let converted = converted.or_else(|| expansion.as_ref().map(|expansion| expansion.byte_length));
    let stored = || rows.as_ref().map(|rows| rows.bytes.end - rows.bytes.start).or_else(|| tensor.byte_length());
    let needed = converted.or_else(stored);
    match needed {
        Some(needed) if needed == into_length => Ok(()),
        Some(needed) => refuse(format!("`into` has {into_length} bytes, but {needed} bytes are requested")),
        None => refuse("`into` requires a known length, but the file does not state the tensor's length".to_owned()),
    }
}
