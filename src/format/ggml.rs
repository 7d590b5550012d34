//! The type numbers of ggml, which GGUF and AERO files contain.

use crate::dtype::Dtype;

/// The begin of warnings about tensors that ggml does not read, although their files can hold them.
pub(crate) const REFUSES: &str = "ggml refuses ";

const TYPES: &[(u32, Dtype)] = &[
    (0, Dtype::F32),
    (1, Dtype::F16),
    (2, Dtype::Q4_0),
    (3, Dtype::Q4_1),
    (6, Dtype::Q5_0),
    (7, Dtype::Q5_1),
    (8, Dtype::Q8_0),
    (9, Dtype::Q8_1),
    (10, Dtype::Q2_K),
    (11, Dtype::Q3_K),
    (12, Dtype::Q4_K),
    (13, Dtype::Q5_K),
    (14, Dtype::Q6_K),
    (15, Dtype::Q8_K),
    (16, Dtype::IQ2_XXS),
    (17, Dtype::IQ2_XS),
    (18, Dtype::IQ3_XXS),
    (19, Dtype::IQ1_S),
    (20, Dtype::IQ4_NL),
    (21, Dtype::IQ3_S),
    (22, Dtype::IQ2_S),
    (23, Dtype::IQ4_XS),
    (24, Dtype::I8),
    (25, Dtype::I16),
    (26, Dtype::I32),
    (27, Dtype::I64),
    (28, Dtype::F64),
    (29, Dtype::IQ1_M),
    (30, Dtype::BF16),
    (34, Dtype::TQ1_0),
    (35, Dtype::TQ2_0),
    (39, Dtype::MXFP4),
    (40, Dtype::NVFP4),
    (41, Dtype::Q1_0),
    (42, Dtype::Q2_0),
];

/// The numbers and names of types that ggml removed. They are Q4_0 and IQ4_NL with the blocks of 4 or 8 rows
/// interleaved, so that their elements cannot be read row by row.
#[cfg(feature = "gguf")]
const REMOVED: &[(u32, &str)] =
    &[(31, "Q4_0_4_4"), (32, "Q4_0_4_8"), (33, "Q4_0_8_8"), (36, "IQ4_NL_4_4"), (37, "IQ4_NL_4_8"), (38, "IQ4_NL_8_8")];

/// The dtype of a number, if it is in the table.
pub(super) fn dtype_of(number: u32) -> Option<&'static Dtype> {
    TYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| dtype)
}

/// The name of a type that ggml removed, and a dtype whose blocks have the same size.
#[cfg(feature = "gguf")]
pub(super) fn removed(number: u32) -> Option<(&'static str, &'static Dtype)> {
    let (_, name) = REMOVED.iter().find(|(removed, _)| *removed == number)?;
    Some((name, const { &Dtype::Q4_0 }))
}

/// The number of a dtype, if it is in the table.
#[cfg(writes)]
pub(super) fn number_of(dtype: &Dtype) -> Option<u32> {
    TYPES.iter().find(|(_, known)| known == dtype).map(|(number, _)| *number)
}
