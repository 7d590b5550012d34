//! Warnings about the arrays of a file: one for each kind.

use super::array::Array;
use crate::format::warned::Warned;
use crate::index::{Component, Layout, Tensor};

/// What to know about the arrays of a file.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    column_major: Warned,
    opaque: Warned,
    big_endian: Warned,
    refused: Warned,
    others: Warned,
}

impl Notes {
    /// Records what is special about an array.
    pub(crate) fn record(&mut self, is_opaque: bool, tensor: &Tensor) {
        if tensor.layout != Layout::Dense {
            self.column_major.add(&tensor.name);
        }
        if is_opaque {
            self.opaque.add(&tensor.name);
        } else if tensor.dtype.block().is_none() {
            self.big_endian.add(&tensor.name);
        }
    }

    /// Records an array that is not listed.
    pub(crate) fn refuse(&mut self, name: &str, reason: &str) {
        self.refused.add_with_reason(name, reason);
    }

    /// Records a member of an archive that is no array.
    pub(crate) fn ignore(&mut self, name: &str) {
        self.others.add(name);
    }

    pub(crate) fn into_warnings(self) -> Vec<String> {
        let warnings = [
            self.column_major.warning(
                "in Fortran order (column-major). Their bytes load as they are stored; the shape is the logical one, \
                 and the attribute `strides` says where each element is. `numpy.ascontiguousarray` reorders an array",
            ),
            self.opaque.warning(
                "the file states only the size of the elements, as NumPy writes bfloat16 and 8-bit floats of \
                 ml_dtypes. Their bytes load as they are stored",
            ),
            self.big_endian.warning("big-endian and compressed. Their bytes load as they are, in big-endian order"),
            self.refused.warning("not listed. Save these arrays with a numeric dtype: `array.astype(…)`"),
            self.others.warning("no arrays, so they are ignored"),
        ];
        warnings.into_iter().flatten().collect()
    }
}

impl Array {
    /// The tensor of the array, of which `notes` records what is special.
    pub(crate) fn noted(self, name: &str, data: Component, notes: &mut Notes) -> Tensor {
        let is_opaque = self.is_opaque();
        let tensor = self.into_tensor(name, data);
        notes.record(is_opaque, &tensor);
        tensor
    }
}
