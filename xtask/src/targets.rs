//! The formats that weightstream writes, as far as tools read them back: what they hold, by their specifications.

use crate::listing::Tensor;

pub(crate) struct Target {
    /// As `weightstream convert --format` calls it.
    pub(crate) format: &'static str,
    holds: fn(&Tensor) -> bool,
    /// What to ask of the conversion, in turns.
    pub(crate) options: &'static [&'static [&'static str]],
}

impl Target {
    /// Whether the format has a place for such a tensor. What it has none for, the conversion must refuse.
    pub(crate) fn holds(&self, tensor: &Tensor) -> bool {
        (self.holds)(tensor)
    }
}

pub(crate) const BURNPACK: Target = Target {
    format: "burnpack",
    holds: |tensor| {
        let is_quantized = tensor.dtype.starts_with("QFLOAT_");
        tensor.is_dense() && (is_quantized || BURNPACK_DTYPES.contains(&tensor.dtype.as_str()))
    },
    options: &[&[]],
};

const BURNPACK_DTYPES: [&str; 13] =
    ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"];

pub(crate) const SAFETENSORS: Target = Target {
    format: "safetensors",
    holds: |tensor| tensor.is_dense() && SAFETENSORS_DTYPES.contains(&tensor.dtype.as_str()),
    options: &[&[], &["--align", "64"]],
};

const SAFETENSORS_DTYPES: [&str; 22] = [
    "BOOL",
    "U8",
    "I8",
    "F8_E5M2",
    "F8_E4M3",
    "F8_E8M0",
    "F8_E4M3FNUZ",
    "F8_E5M2FNUZ",
    "I16",
    "U16",
    "F16",
    "BF16",
    "I32",
    "U32",
    "F32",
    "C64",
    "F64",
    "I64",
    "U64",
    "F4",
    "F6_E2M3",
    "F6_E3M2",
];
