//! What a caller asks for of a tensor, and what it gets.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::setters::setters;
use crate::source::Buffer;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

/// A tensor whose bytes have arrived.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded<B> {
    /// What the index says of it.
    pub tensor: Rc<Tensor>,
    /// The shape of what was loaded: with rows, of those.
    pub shape: Vec<u64>,
    /// Its components, in the order of the index.
    pub components: Vec<LoadedComponent<B>>,
    /// The algorithm by which the tensor's own bytes were checked, if the format has a digest for them.
    pub verified: Option<&'static str>,
}

/// The bytes of one component.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedComponent<B> {
    /// What it is to the tensor.
    pub role: Cow<'static, str>,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its decoded bytes.
    pub buffer: B,
}

/// What to load of a tensor, and where to.
#[derive(Debug)]
#[non_exhaustive]
pub struct TensorRequest<B> {
    /// Only these rows of the outermost dimension, half-open.
    pub rows: Option<Range<u64>>,
    /// A buffer of exactly the right length to put the bytes into.
    pub into: Option<B>,
}

impl<B> TensorRequest<B> {
    setters! {
        with_rows rows: Option<Range<u64>>;
        with_into into: Option<B>;
    }
}

impl<B> Default for TensorRequest<B> {
    fn default() -> Self {
        TensorRequest { rows: None, into: None }
    }
}

/// What a check of all of a model found to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Files of tensors; the manifest is not counted.
    pub files: usize,
    /// Tensors, each of which can be decoded.
    pub tensors: usize,
    /// The algorithms of the checksums that hold.
    pub checksums: BTreeSet<&'static str>,
    /// Tensors without a checksum, of their own or of their file: of these the structure holds, but nothing can tell
    /// whether a value was damaged.
    pub tensors_without_checksum: usize,
}

impl Verified {
    /// Counts in what holds of one file: its tensors, and the checksums that cover them all.
    pub(crate) fn add_file<'a>(&mut self, tensors: impl Iterator<Item = &'a Tensor>, checksums: &[&'static str]) {
        for tensor in tensors {
            let own = || tensor.components.iter().map(|component| component.digest);
            let is_checked = !checksums.is_empty() || own().all(|digest| digest.is_some());
            self.tensors_without_checksum += usize::from(!is_checked);
            self.checksums.extend(own().flatten().map(|stated| stated.digest.algorithm()));
        }
        self.checksums.extend(checksums);
    }
}

impl<B: Buffer> Loaded<B> {
    pub(super) fn duplicate(self: Rc<Self>) -> Result<Self> {
        let components = self.components.iter().map(|component| {
            let LoadedComponent { role, dtype, buffer } = component;
            Ok(LoadedComponent { role: role.clone(), dtype: dtype.clone(), buffer: buffer.duplicate()? })
        });
        let components = components.collect::<Result<_>>()?;
        Ok(Loaded { tensor: Rc::clone(&self.tensor), shape: self.shape.clone(), components, verified: self.verified })
    }
}

/// Checks that `into` is as long as what goes there.
pub(super) fn check_into(into_length: u64, tensor: &Tensor, rows: Option<&Range<u64>>) -> Result<()> {
    let refuse = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(&tensor.name));
    if tensor.components.len() != 1 {
        return refuse("`into` takes one buffer, and this tensor has several components".to_owned());
    }
    let needed = rows.map(|bytes| bytes.end - bytes.start).or_else(|| tensor.byte_length());
    match needed {
        Some(needed) if needed == into_length => Ok(()),
        Some(needed) => refuse(format!("`into` has {into_length} bytes, but {needed} are loaded")),
        None => refuse("`into` takes what is known to fit, and the file does not say how long this is".to_owned()),
    }
}
