//! Writes CBOR (RFC 8949) like the formats' own tools: definite lengths, and each number in its shortest encoding.

use minicbor::decode::Decoder;
use minicbor::encode::{Encoder, Error};
use serde_json::Value;
use std::convert::Infallible;

/// A CBOR encoder that writes to memory.
pub(crate) type Cbor = Encoder<Vec<u8>>;

/// Writes any value.
pub(crate) fn value(cbor: &mut Cbor, value: &Value) -> Result<(), Error<Infallible>> {
    match value {
        Value::Null => cbor.null()?.ok(),
        Value::Bool(value) => cbor.bool(*value)?.ok(),
        Value::String(text) => cbor.str(text)?.ok(),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), ..) => cbor.u64(number)?.ok(),
            (_, Some(number), _) => cbor.i64(number)?.ok(),
            (.., number) => float(cbor, number.unwrap_or(f64::NAN)),
        },
        Value::Array(items) => {
            cbor.array(items.len() as u64)?;
            items.iter().try_for_each(|item| self::value(cbor, item))
        }
        Value::Object(map) => {
            cbor.map(map.len() as u64)?;
            map.iter().try_for_each(|(key, value)| self::value(cbor.str(key)?, value))
        }
    }
}

/// Writes a float in the shortest of 16, 32 and 64 bits that keeps its value.
pub(crate) fn float(cbor: &mut Cbor, value: f64) -> Result<(), Error<Infallible>> {
    let is_exact = |narrowed: f32| f64::from(narrowed).to_bits() == value.to_bits();
    let mut half = Encoder::new(Vec::new());
    half.f16(value as f32)?;
    if Decoder::new(half.writer()).f16().is_ok_and(is_exact) {
        cbor.f16(value as f32)?.ok()
    } else if is_exact(value as f32) {
        cbor.f32(value as f32)?.ok()
    } else {
        cbor.f64(value)?.ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use serde_json::json;

    /// Most of the encodings are examples of RFC 8949, appendix A.
    #[test]
    fn writes_each_value_in_its_shortest_encoding() {
        let cases: &[(Value, &[u8])] = &[
            (json!(23), b"\x17"),
            (json!(1_000_000_000_000u64), b"\x1b\x00\x00\x00\xe8\xd4\xa5\x10\x00"),
            (json!(u64::MAX), b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff"),
            (json!(-1000), b"\x39\x03\xe7"),
            (json!(-0.0), b"\xf9\x80\x00"),
            (json!(1.5), b"\xf9\x3e\x00"),
            (json!(5.960464477539063e-8), b"\xf9\x00\x01"),
            (json!(100_000.0), b"\xfa\x47\xc3\x50\x00"),
            (json!(1.1), b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a"),
            (json!(null), b"\xf6"),
            (json!(true), b"\xf5"),
            (json!("ü"), b"\x62\xc3\xbc"),
            (json!([1, [2, 3], [4, 5]]), b"\x83\x01\x82\x02\x03\x82\x04\x05"),
            (json!({ "a": 1, "b": [2, 3] }), b"\xa2\x61\x61\x01\x61\x62\x82\x02\x03"),
        ];
        for (given, expected) in cases {
            let mut cbor = Encoder::new(Vec::new());
            value(&mut cbor, given).unwrap();
            assert_eq!(cbor.writer(), expected, "{given}");
        }
    }

    #[test]
    fn writes_nan_and_infinity_in_16_bits() {
        for (given, expected) in [(f64::NAN, b"\xf9\x7e\x00"), (f64::NEG_INFINITY, b"\xf9\xfc\x00")] {
            let mut cbor = Encoder::new(Vec::new());
            float(&mut cbor, given).unwrap();
            assert_eq!(cbor.writer(), expected);
        }
    }
}
