//! The result of verifying a whole model.

use crate::algorithm::Algorithm;
use crate::codec::dequantize::decoder_of;
use crate::dtype::Dtype;
use crate::format::ggml;
use crate::index::strides::STRIDED;
use crate::index::{Component, Layout, Tensor};
use crate::trust::Coverage;
use std::collections::{BTreeMap, BTreeSet};

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
    #[doc(hidden)]
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
                Layout::Other(layout) if **layout != *STRIDED => format!("the layout {layout}"),
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

    /// Adds one file: its tensors, and what the checksums of the file cover.
    pub(crate) fn add_file<'a>(&mut self, tensors: impl Iterator<Item = &'a Tensor>, coverage: &Coverage) {
        for tensor in tensors {
            let own = || tensor.components.iter().map(|component| component.digest);
            let is_covered = |component: &Component| {
                let has_own = component.digest.is_some() || component.pages.is_some();
                has_own || component.range.is_empty() || coverage.of_range(&component.range).is_some()
            };
            let is_checked = tensor.components.iter().all(is_covered);
            self.tensors_without_checksum += usize::from(!is_checked);
            let is_unknown = |dtype: &Dtype| dtype.block().is_none() && decoder_of(dtype).is_none();
            let mut unknown = tensor.components.iter().map(|component| &component.dtype).filter(|it| is_unknown(it));
            if let Some(dtype) = unknown.next().filter(|_| !is_checked) {
                *self.unchecked_tensors.entry(dtype.to_string()).or_default() += 1;
            }
            self.checksums.extend(own().flatten().map(|stated| stated.digest.algorithm()));
        }
        self.checksums.extend(coverage.algorithms());
    }
}
