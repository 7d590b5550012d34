//! The data types of weights, and their quantization.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::Metadata;
use crate::values::json::shown;
use serde_json::{Map, Value, json};

/// How the elements of a weight are stored.
pub(super) enum Stored {
    /// As elements of this dtype. Weights that are quantized have these attributes.
    Elements(Dtype, Metadata),
    /// As texts, each preceded by its length.
    Texts,
}

/// The name of the key, and of the attribute.
const QUANTIZATION: &str = "quantization";

/// Reads `dtype` and `quantization` of a weight.
///
/// # Errors
/// `FORMAT` if one of them is not valid; `UNSUPPORTED` for a dtype that TensorFlow.js does not have.
pub(super) fn stored_as(weight: &Map<String, Value>) -> Result<Stored> {
    let name = weight.get("dtype").and_then(Value::as_str).ok_or_else(|| malformed("it has no `dtype`"))?;
    let Some(quantization) = weight.get(QUANTIZATION).filter(|stated| !stated.is_null()) else {
        return Ok(match name {
            "string" => Stored::Texts,
            _ => Stored::Elements(dtype_named(name)?, Metadata::new()),
        });
    };
    let number = |key: &str| {
        let number = quantization.get(key).filter(|value| value.is_number()).cloned();
        number.ok_or_else(|| malformed(format!("its `quantization` has no number `{key}`")))
    };
    match (name, quantization.get("dtype").and_then(Value::as_str)) {
        ("float32", Some("float16")) => Ok(Stored::Elements(Dtype::F16, Metadata::new())),
        ("float32" | "int32", Some(integer @ ("uint8" | "uint16"))) => {
            let described = json!({
                "method": super::parse::NAME, "dtype": integer, "scale": number("scale")?, "min": number("min")?, "to": name,
            });
            Ok(Stored::Elements(dtype_named(integer)?, Metadata::from_iter([(QUANTIZATION.to_owned(), described)])))
        }
        (name, _) => {
            let what = format!("it is {name}, quantized as {}, which TensorFlow.js cannot decode", shown(quantization));
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}

fn dtype_named(name: &str) -> Result<Dtype> {
    Ok(match name {
        "float32" => Dtype::F32,
        "float16" => Dtype::F16,
        "int32" => Dtype::I32,
        "uint16" => Dtype::U16,
        "uint8" => Dtype::U8,
        "bool" => Dtype::Bool,
        "complex64" => Dtype::C64,
        other => {
            let what = format!("its data type is \"{other}\", which TensorFlow.js 4.22 does not have");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
    })
}

/// The name of a dtype whose weights TensorFlow.js decodes as they are.
#[cfg(writes)]
pub(super) fn name_of(dtype: &Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::F32 => "float32",
        Dtype::F16 => "float16",
        Dtype::I32 => "int32",
        Dtype::Bool => "bool",
        Dtype::C64 => "complex64",
        _ => return None,
    })
}
