//! The formats that weightstream writes and other tools read, with what their specifications support.

use crate::listing::{Listing, Tensor};

pub struct Target {
    /// The value of `weightstream convert --format`.
    pub format: &'static str,
    holds: fn(&Tensor) -> bool,
    /// Whether the format stores tensor attributes of all formats, not only its own.
    pub keeps_attributes: bool,
    /// Keys of the metadata that describe a file of the source, and not the model.
    pub file_keys: &'static [&'static str],
    /// Options of the conversion; successive models use them in turn.
    pub options: &'static [&'static [&'static str]],
}

impl Target {
    /// Whether the format supports such a tensor. The conversion must reject all others.
    pub fn holds(&self, tensor: &Tensor) -> bool {
        (self.holds)(tensor)
    }
}

pub const BURNPACK: Target = Target {
    format: "burnpack",
    holds: |tensor| {
        let is_quantized = tensor.dtype.starts_with("QFLOAT_");
        tensor.is_dense() && (is_quantized || PLAIN.contains(&tensor.dtype.as_str()))
    },
    keeps_attributes: false,
    file_keys: &[],
    options: &[&[]],
};

pub const SAFETENSORS: Target = Target {
    format: "safetensors",
    holds: |tensor| tensor.is_dense() && SAFETENSORS_DTYPES.contains(&tensor.dtype.as_str()),
    keeps_attributes: false,
    file_keys: &[],
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

pub const ZTENSOR: Target = Target {
    format: "ztensor",
    holds: |_| true,
    keeps_attributes: true,
    file_keys: &[],
    options: &[
        &[],
        &["--compress", "zstd", "--digest", "sha256"],
        &["--digest", "none", "--align", "4096"],
        &["--compress", "auto"],
    ],
};

/// zTensor with tensors that are split into streams of bytes.
pub const ZTENSOR_SPLIT: Target = Target {
    options: &[
        &["--compress", "auto"],
        &["--compress", "auto", "--digest", "sha256"],
        &["--compress", "auto", "--digest", "none", "--align", "4096"],
    ],
    ..ZTENSOR
};

pub const ZTENSOR_1_0: Target = Target {
    format: "ztensor",
    holds: |tensor| {
        let layout = tensor.layout.as_deref();
        let is_known = matches!(layout, None | Some("sparse_csr" | "sparse_coo"));
        let is_plain = |dtype: &String| PLAIN.contains(&dtype.as_str());
        let has_wide_indices = tensor.index_dtypes().all(|dtype| dtype == "U64");
        is_known && is_plain(&tensor.dtype) && has_wide_indices
    },
    keeps_attributes: false,
    file_keys: &[],
    options: &[
        &["--format-version", "1.0"],
        &["--format-version", "1.0", "--compress", "zstd"],
        &["--format-version", "1.0", "--digest", "none", "--compress", "auto"],
    ],
};

pub const GGUF: Target = Target {
    format: "gguf",
    holds: |tensor| {
        let dtype = tensor.dtype.as_str();
        let is_plain = ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8"].contains(&dtype);
        let has_blocks = ["Q", "IQ", "TQ", "MXFP4", "NVFP4"].iter().any(|prefix| dtype.starts_with(prefix));
        let is_foreign = dtype.starts_with("QFLOAT_") || dtype.ends_with("_BE");
        tensor.is_dense() && (is_plain || has_blocks && !is_foreign)
    },
    keeps_attributes: false,
    file_keys: &["general.alignment", "split.no", "split.count", "split.tensors.count"],
    options: &[&[], &["--align", "4096"]],
};

/// Dtypes that all tools support.
const PLAIN: [&str; 13] = ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"];

/// Whether the scheme of a quantized tensor has this key. The keys differ between releases of Burn.
pub fn has_burn_scheme_with(source: &Listing, key: &str) -> bool {
    let scheme = |tensor: &Tensor| tensor.attributes.as_ref()?.get("dtype")?.get("QFloat").cloned();
    source.tensors.iter().filter_map(scheme).any(|scheme| scheme.get(key).is_some())
}

/// Why the Python package `gguf` cannot read a model that is written as GGUF, `None` if it can.
pub fn beyond_gguf_reader(source: &Listing) -> Option<&'static str> {
    let is_bf16_scalar = |tensor: &Tensor| tensor.dtype == "BF16" && tensor.is_scalar();
    source.tensors.iter().any(is_bf16_scalar).then_some("its reader fails for a scalar of BF16")
}

/// Why tools of zTensor 1.1 cannot read a model that is written as zTensor 1.2, `None` if they can.
pub fn beyond_ztensor_1_1(source: &Listing) -> Option<&'static str> {
    let is_plain = |tensor: &Tensor| {
        let layout = tensor.layout.as_deref();
        PLAIN.contains(&tensor.dtype.as_str()) && matches!(layout, None | Some("sparse_csr" | "sparse_coo"))
    };
    if !source.metadata.iter().flatten().all(|(_, value)| value.is_string()) {
        return Some("1.1 supports only string metadata");
    }
    (!source.tensors.iter().all(is_plain)).then_some("1.1 does not support these dtypes or layouts")
}
