//! The dtypes of storages and tensors.

use crate::dtype::Dtype;

/// A dtype and the size of its elements. Those of some dtypes are known only here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ElementType {
    pub(super) dtype: Dtype,
    pub(super) bytes: u64,
}

impl ElementType {
    fn known(dtype: Dtype) -> Self {
        let bytes = dtype.block().map_or(1, |block| block.bytes);
        ElementType { dtype, bytes }
    }

    fn other(name: &str, bytes: u64) -> Self {
        ElementType { dtype: Dtype::Other(name.into()), bytes }
    }

    /// The elements of a class of storages. An untyped storage counts bytes.
    pub(super) fn of_storage(class: &str) -> Option<Self> {
        Some(ElementType::known(match class {
            "DoubleStorage" => Dtype::F64,
            "FloatStorage" => Dtype::F32,
            "HalfStorage" => Dtype::F16,
            "BFloat16Storage" => Dtype::BF16,
            "LongStorage" => Dtype::I64,
            "IntStorage" => Dtype::I32,
            "ShortStorage" => Dtype::I16,
            "CharStorage" => Dtype::I8,
            "ByteStorage" | "UntypedStorage" => Dtype::U8,
            "BoolStorage" => Dtype::Bool,
            "ComplexFloatStorage" => Dtype::C64,
            "ComplexDoubleStorage" => Dtype::C128,
            _ => return None,
        }))
    }

    /// The elements of a dtype of `torch`. Types without an equivalent keep their name; their bytes load.
    pub(super) fn of_dtype(name: &str) -> Option<Self> {
        Some(ElementType::known(match name {
            "float64" | "double" => Dtype::F64,
            "float32" | "float" => Dtype::F32,
            "float16" | "half" => Dtype::F16,
            "bfloat16" => Dtype::BF16,
            "int64" | "long" => Dtype::I64,
            "int32" | "int" => Dtype::I32,
            "int16" | "short" => Dtype::I16,
            "int8" => Dtype::I8,
            "uint64" => Dtype::U64,
            "uint32" => Dtype::U32,
            "uint16" => Dtype::U16,
            "uint8" => Dtype::U8,
            "bool" => Dtype::Bool,
            "complex64" | "cfloat" => Dtype::C64,
            "complex128" | "cdouble" => Dtype::C128,
            "float8_e4m3fn" => Dtype::F8_E4M3,
            "float8_e4m3fnuz" => Dtype::F8_E4M3FNUZ,
            "float8_e5m2" => Dtype::F8_E5M2,
            "float8_e5m2fnuz" => Dtype::F8_E5M2FNUZ,
            "float8_e8m0fnu" => Dtype::F8_E8M0,
            "complex32" | "chalf" => return Some(ElementType::other("C32", 4)),
            "float4_e2m1fn_x2" => return Some(ElementType::other("FLOAT4_E2M1FN_X2", 1)),
            _ => return None,
        }))
    }
}
