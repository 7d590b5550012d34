//! Element types and their sizes. Names are those of SafeTensors and GGUF.

use crate::error::{Error, ErrorKind, Result, malformed};
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The JavaScript typed array (or native slice type) that represents a dtype's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ArrayKind {
    F32,
    F64,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

impl ArrayKind {
    /// The size of one array element in bytes.
    pub fn element_bytes(self) -> usize {
        match self {
            ArrayKind::I8 | ArrayKind::U8 => 1,
            ArrayKind::I16 | ArrayKind::U16 => 2,
            ArrayKind::F32 | ArrayKind::I32 | ArrayKind::U32 => 4,
            ArrayKind::F64 | ArrayKind::I64 | ArrayKind::U64 => 8,
        }
    }
}

macro_rules! dtypes {
    ($($variant:ident $name:literal $elements:literal $bytes:literal $array:ident;)*) => {
        /// The type of a tensor's elements. Quantized types are stored in blocks of several elements.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, missing_docs, reason = "the spelling of the formats")]
        #[non_exhaustive]
        pub enum Dtype {
            $($variant,)*
            /// A dtype of unknown size. Its tensors are loaded as raw bytes.
            Other(Box<str>),
        }

        impl Dtype {
            /// All dtypes of known size, in the order of the table.
            #[doc(hidden)]
            pub const ALL: &'static [Dtype] = &[$(Dtype::$variant,)*];

            /// The dtype's name in SafeTensors or GGUF.
            pub fn name(&self) -> &str {
                match self {
                    $(Dtype::$variant => $name,)*
                    Dtype::Other(name) => name,
                }
            }

            /// The dtype of that name; any other name gives [`Dtype::Other`].
            #[doc(hidden)]
            pub fn from_name(name: &str) -> Dtype {
                match name {
                    $($name => Dtype::$variant,)*
                    other => Dtype::Other(other.into()),
                }
            }

            /// The number of elements and bytes in a block; `None` if the size is unknown.
            #[doc(hidden)]
            pub fn block(&self) -> Option<Block> {
                match self {
                    $(Dtype::$variant => Some(Block { elements: $elements, bytes: $bytes }),)*
                    Dtype::Other(_) => None,
                }
            }

            /// The typed array that represents the elements.
            #[doc(hidden)]
            pub fn array_kind(&self) -> ArrayKind {
                match self {
                    $(Dtype::$variant => ArrayKind::$array,)*
                    Dtype::Other(_) => ArrayKind::U8,
                }
            }
        }
    };
}

// name, elements per block, bytes per block, typed array. Block sizes of the quantized types: ggml's `ggml-common.h`,
// as the GGUF specification lists them; the package `gguf` 0.19 has 40 bytes for Q8_1, which ggml wrote until its
// scales became F16. 16-bit floats are U16: JavaScript's `Float16Array` is too recent to rely on.
dtypes! {
    F64 "F64" 1 8 F64;
    F32 "F32" 1 4 F32;
    F16 "F16" 1 2 U16;
    BF16 "BF16" 1 2 U16;
    I64 "I64" 1 8 I64;
    I32 "I32" 1 4 I32;
    I16 "I16" 1 2 I16;
    I8 "I8" 1 1 I8;
    U64 "U64" 1 8 U64;
    U32 "U32" 1 4 U32;
    U16 "U16" 1 2 U16;
    U8 "U8" 1 1 U8;
    Bool "BOOL" 1 1 U8;
    C64 "C64" 1 8 F32;
    C128 "C128" 1 16 F64;
    F8_E4M3 "F8_E4M3" 1 1 U8;
    F8_E5M2 "F8_E5M2" 1 1 U8;
    F8_E8M0 "F8_E8M0" 1 1 U8;
    F8_E4M3FNUZ "F8_E4M3FNUZ" 1 1 U8;
    F8_E5M2FNUZ "F8_E5M2FNUZ" 1 1 U8;
    F4 "F4" 2 1 U8;
    F6_E2M3 "F6_E2M3" 4 3 U8;
    F6_E3M2 "F6_E3M2" 4 3 U8;
    Q1_0 "Q1_0" 128 18 U8;
    Q2_0 "Q2_0" 64 18 U8;
    Q4_0 "Q4_0" 32 18 U8;
    Q4_1 "Q4_1" 32 20 U8;
    Q5_0 "Q5_0" 32 22 U8;
    Q5_1 "Q5_1" 32 24 U8;
    Q8_0 "Q8_0" 32 34 U8;
    Q8_1 "Q8_1" 32 36 U8;
    Q2_K "Q2_K" 256 84 U8;
    Q3_K "Q3_K" 256 110 U8;
    Q4_K "Q4_K" 256 144 U8;
    Q5_K "Q5_K" 256 176 U8;
    Q6_K "Q6_K" 256 210 U8;
    Q8_K "Q8_K" 256 292 U8;
    IQ2_XXS "IQ2_XXS" 256 66 U8;
    IQ2_XS "IQ2_XS" 256 74 U8;
    IQ2_S "IQ2_S" 256 82 U8;
    IQ3_XXS "IQ3_XXS" 256 98 U8;
    IQ3_S "IQ3_S" 256 110 U8;
    IQ1_S "IQ1_S" 256 50 U8;
    IQ1_M "IQ1_M" 256 56 U8;
    IQ4_NL "IQ4_NL" 32 18 U8;
    IQ4_XS "IQ4_XS" 256 136 U8;
    TQ1_0 "TQ1_0" 256 54 U8;
    TQ2_0 "TQ2_0" 256 66 U8;
    MXFP4 "MXFP4" 32 17 U8;
    NVFP4 "NVFP4" 64 36 U8;
}

/// A quantized type that only APR has: an F16 scale and 16 bytes for each 32 elements. The last block is as long as the
/// others, even if it has fewer elements.
pub(crate) const APR_Q4: &str = "APR_Q4";

/// A quantized type that only APR has: one F32 scale, then an I8 for each element.
pub(crate) const APR_Q8: &str = "APR_Q8";

/// The begin of the names of types that ggml may have, but that are not known. Their tensors end where the next one
/// begins: they may include padding.
pub(crate) const UNKNOWN_GGML_TYPE: &str = "GGML_";

/// Other dtypes whose lengths the parsers of their formats check.
const SIZED_BY_FORMATS: [&str; 9] =
    [APR_Q4, APR_Q8, "UINT4", "INT4", "UINT2", "INT2", "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2"];

/// The smallest unit of a dtype that can be stored: `elements` elements in `bytes` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The number of elements in a block.
    pub elements: u64,
    /// The size of a block in bytes.
    pub bytes: u64,
}

impl Dtype {
    /// The size of `elements` elements in bytes; `None` for a dtype of unknown size.
    ///
    /// ```
    /// use weightstream::Dtype;
    ///
    /// assert_eq!(Dtype::BF16.byte_length(10), Ok(Some(20)));
    /// assert_eq!(Dtype::Q8_0.byte_length(64), Ok(Some(68))); // 32 elements to a block of 34 bytes
    /// assert!(Dtype::Q8_0.byte_length(10).is_err());
    /// ```
    ///
    /// # Errors
    /// `FORMAT` if the elements do not fill whole blocks, or if the size overflows `u64`.
    pub fn byte_length(&self, elements: u64) -> Result<Option<u64>> {
        let Some(block) = self.block() else { return Ok(None) };
        if !elements.is_multiple_of(block.elements) {
            return Err(malformed(format!(
                "{elements} elements do not fill whole blocks of {} ({self})",
                block.elements
            )));
        }
        match (elements / block.elements).checked_mul(block.bytes) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(malformed(format!("{elements} elements of {self} are more than 2^64 bytes"))),
        }
    }
}

impl Dtype {
    /// Whether the dtype is known, so that the lengths of its tensors are checked.
    pub(crate) fn is_known(&self) -> bool {
        self.block().is_some() || SIZED_BY_FORMATS.contains(&self.name())
    }
}

/// Reads the name in SafeTensors or GGUF; any other name gives [`Dtype::Other`].
impl FromStr for Dtype {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(Dtype::from_name(name))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Maximum number of dimensions of a tensor. NumPy and PyTorch have the same limit. It stops shapes of millions of
/// dimensions.
pub const MAX_DIMS: usize = 64;

/// The number of elements of a shape: 1 for a scalar.
///
/// # Errors
/// `LIMIT` for more than [`MAX_DIMS`] dimensions. `FORMAT` if the product of the nonzero dimensions overflows `u64`,
/// even if another dimension is zero: no tool writes such a shape, and code that multiplies in another order would
/// overflow.
pub fn element_count(shape: &[u64]) -> Result<u64> {
    if shape.len() > MAX_DIMS {
        let what = format!("it has {} dimensions; the limit is {MAX_DIMS}", shape.len());
        return Err(Error::new(ErrorKind::Limit, what));
    }
    let nonzero = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim.max(1)));
    match nonzero {
        Some(product) => Ok(if shape.contains(&0) { 0 } else { product }),
        None => Err(malformed(format!("the shape {shape:?} has more than 2^64 elements"))),
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn from_name_inverts_name() {
        for dtype in Dtype::ALL {
            assert_eq!(&Dtype::from_name(dtype.name()), dtype);
        }
        assert_eq!(Dtype::from_name("Z9"), Dtype::Other("Z9".into()));
    }

    #[test]
    fn the_typescript_declarations_list_all_dtypes() {
        let declared = include_str!("js/weightstream.d.ts");
        let names = |declaration: &str| {
            let (_, from) = declared.split_once(declaration).unwrap();
            from.split_once(';').unwrap().0.to_owned()
        };
        let (packed, others) = (names("export type PackedDtype ="), names("export type Dtype ="));
        for dtype in Dtype::ALL {
            let is_packed = dtype.array_kind() == ArrayKind::U8 && !matches!(dtype, Dtype::U8 | Dtype::Bool);
            let name = format!("\"{dtype}\"");
            assert_eq!((packed.contains(&name), others.contains(&name)), (is_packed, !is_packed), "{name}");
        }
    }

    #[test]
    fn counts_bytes_in_whole_blocks() {
        assert_eq!(Dtype::F32.byte_length(3), Ok(Some(12)));
        assert_eq!(Dtype::Q8_0.byte_length(64), Ok(Some(68)));
        assert_eq!(Dtype::F4.byte_length(6), Ok(Some(3)));
        assert_eq!(Dtype::Other("x".into()).byte_length(6), Ok(None));
        assert!(Dtype::Q8_0.byte_length(33).is_err());
        assert!(Dtype::F64.byte_length(1 << 61).is_err());
    }

    #[test]
    fn refuses_overflowing_shapes() {
        assert_eq!(element_count(&[]), Ok(1));
        assert_eq!(element_count(&[3, 0, 5]), Ok(0));
        assert!(element_count(&[1 << 33, 1 << 33]).is_err());
        assert!(element_count(&[1 << 33, 0, 1 << 33]).is_err());
        assert_eq!(element_count(&[1; MAX_DIMS]), Ok(1));
        assert_eq!(element_count(&[1; MAX_DIMS + 1]).unwrap_err().kind, ErrorKind::Limit);
    }
}
