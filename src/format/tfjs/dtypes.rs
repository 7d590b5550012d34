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
pub(super) const QUANTIZATION: &str = "quantization";

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
        (to @ ("float32" | "int32"), Some(integer @ ("uint8" | "uint16"))) => {
            let (scale, min) = (number("scale")?, number("min")?);
            let is_identity = to == "int32" && scale.as_f64() == Some(1.0) && min.as_f64() == Some(0.0);
            let described =
                json!({ "method": super::parse::NAME, "dtype": integer, "scale": scale, "min": min, "to": to });
            let attributes = (!is_identity).then(|| (QUANTIZATION.to_owned(), described));
            Ok(Stored::Elements(dtype_named(integer)?, attributes.into_iter().collect()))
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

/// The data type that TensorFlow.js decodes elements of this dtype to, if the attribute describes its quantization.
#[cfg(writes)]
pub(super) fn decoded_name<'a>(dtype: &Dtype, quantization: &'a Value) -> Option<&'a str> {
    let text = |key: &str| quantization.get(key).and_then(Value::as_str);
    let is_number = |key: &str| quantization.get(key).is_some_and(Value::is_number);
    let is_own = text("method") == Some(super::parse::NAME) && is_number("scale") && is_number("min");
    let is_stored = matches!((dtype, text("dtype")), (Dtype::U8, Some("uint8")) | (Dtype::U16, Some("uint16")));
    text("to").filter(|to| is_own && is_stored && matches!(*to, "float32" | "int32"))
}

/// How TensorFlow.js stores elements of this dtype, whose values it then decodes: the data type, and the quantization.
/// It has unsigned integers only as integers of 32 bits that are quantized, with a scale of 1.
#[cfg(writes)]
pub(super) fn stored_by_name(dtype: &Dtype) -> Option<(&'static str, Option<Value>)> {
    let plain = |name| Some((name, None));
    let identity = |dtype: &str| json!({ "dtype": dtype, "scale": 1, "min": 0, "original_dtype": "int32" });
    match dtype {
        Dtype::F32 => plain("float32"),
        Dtype::I32 => plain("int32"),
        Dtype::Bool => plain("bool"),
        Dtype::C64 => plain("complex64"),
        Dtype::F16 => Some(("float32", Some(json!({ "dtype": "float16", "original_dtype": "float32" })))),
        Dtype::U8 => Some(("int32", Some(identity("uint8")))),
        Dtype::U16 => Some(("int32", Some(identity("uint16")))),
        _ => None,
    }
}
