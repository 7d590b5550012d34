//! Loaded tensors.

use crate::algorithm::Algorithm;
use crate::codec::cast::Conversion;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::index::{Component, Layout, Tensor, sparse};
use crate::loader::decode::job::{Job, Task};
use crate::source::Buffer;
use std::borrow::Cow;
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

/// Checks the indices of a sparse tensor. Tensors of other layouts have none.
///
/// # Errors
/// `FORMAT` if their number, bounds or order are wrong.
pub(crate) fn check_indices<B: Buffer>(tensor: &Tensor, components: &[LoadedComponent<B>]) -> Result<()> {
    match tensor.is_sparse() {
        true => check_sparse_indices(tensor, components), // deferred: only deferred formats have sparse tensors
        false => Ok(()),
    }
}

fn check_sparse_indices<B: Buffer>(tensor: &Tensor, components: &[LoadedComponent<B>]) -> Result<()> {
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
