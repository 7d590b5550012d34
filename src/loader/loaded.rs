//! Loaded tensors.

use crate::algorithm::Algorithm;
use crate::buffer::Buffer;
use crate::codec::cast::Conversion;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::index::{Component, Layout, Tensor};
use crate::pipeline::{Expansion, Extent, Job, LoadedComponent, Task};
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

impl<B: Buffer> Loaded<B> {
    /// Makes a sparse tensor dense.
    pub(super) fn expanded(self, expansion: &Expansion, into: Option<B>) -> Result<Self> {
        let data = expansion.expand(&self.tensor, self.components, into)?;
        let (dtype, components) = (data.dtype.clone(), vec![data]);
        Ok(Loaded { dtype, layout: Layout::Dense, components, ..self })
    }

    /// Copies the bytes of a dense tensor to `into`, if there is such a buffer of their length.
    pub(super) fn placed(mut self, into: Option<B>) -> Result<Self> {
        if let (Some(mut into), [data]) = (into, self.components.as_mut_slice()) {
            into.copy(0, &data.buffer, 0..data.buffer.byte_length())?;
            data.buffer = into;
        }
        Ok(self)
    }

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

    /// Converts a dense tensor, or rows of it. The elements are written to `into`, if there is such a buffer.
    pub(super) fn converted(self, conversion: &Conversion, mut into: Option<B>) -> Result<Self> {
        let mut components = Vec::new();
        for LoadedComponent { role, dtype, buffer } in self.components {
            let component = Component::raw(dtype, 0..buffer.byte_length());
            let task = Task::unchecked(&component, &Extent::whole(&component));
            let mut job = Job::<B>::new(Task { conversion: Some(conversion.clone()), ..task }, into.take())?;
            let converted =
                buffer.inspect(0..buffer.byte_length(), &mut |bytes| job.push(bytes)).and_then(|()| job.finish());
            let converted = converted.map_err(|e| e.in_tensor(&self.tensor.name))?.buffer;
            components.extend(converted.map(|buffer| LoadedComponent { role, dtype: conversion.to.clone(), buffer }));
        }
        Ok(Loaded { dtype: conversion.to.clone(), components, ..self })
    }
}
