#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use super::parse::parse;
use crate::dtype::Dtype;
use crate::error::{ErrorKind, Result};
use crate::index::{Index, Parsed, Tensor};
use crate::window::{Stop, Window};
use serde_json::{Value, json};

/// Encodes the head of a CBOR item: its major type and its argument.
fn head(major: u8, number: u64) -> Vec<u8> {
    let mut bytes = vec![major << 5 | 27];
    bytes.extend(number.to_be_bytes());
    bytes
}

/// Converts JSON to CBOR. Numbers are encoded as integers if possible, else as 64-bit floats.
fn cbor(value: &Value) -> Vec<u8> {
    match value {
        Value::Null => vec![0xf6],
        Value::Bool(value) => vec![0xf4 + u8::from(*value)],
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => head(0, number),
            (None, Some(number)) => head(1, number.unsigned_abs() - 1),
            _ => [&[0xfb][..], &number.as_f64().unwrap().to_be_bytes()].concat(),
        },
        Value::String(text) => [head(3, text.len() as u64), text.clone().into_bytes()].concat(),
        Value::Array(items) => [head(4, items.len() as u64), items.iter().flat_map(cbor).collect()].concat(),
        Value::Object(map) => {
            let entries = map.iter().flat_map(|(key, value)| [cbor(&json!(key)), cbor(value)].concat());
            [head(5, map.len() as u64), entries.collect()].concat()
        }
    }
}

/// Builds a file without data.
fn file(description: &[u8]) -> Vec<u8> {
    [&b"NRUB\x01\x00"[..], &(description.len() as u32).to_le_bytes(), description].concat()
}

fn padded(mut file: Vec<u8>, data: &[u8]) -> Vec<u8> {
    file.resize(file.len().next_multiple_of(256), 0);
    file.extend(data);
    file
}

fn parsed(file: &[u8]) -> Result<Index> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Ok(other) => panic!("{other:?}"),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => panic!("a whole file needs more: {stop:?}"),
    }
}

fn tensor(dtype: Value, shape: &[u64], start: u64, end: u64) -> Value {
    json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] })
}

fn stored<'f>(file: &'f [u8], tensor: &Tensor) -> &'f [u8] {
    let range = tensor.components[0].range.clone();
    &file[range.start as usize..range.end as usize]
}

#[test]
fn detects_the_unaligned_and_the_aligned_layout() {
    let one = cbor(&json!({ "tensors": { "a": tensor(json!("U8"), &[3], 0, 3) } }));
    let two = cbor(&json!({ "tensors": {
        "a": tensor(json!("U8"), &[3], 0, 3), "b": tensor(json!("U8"), &[1], 3, 4),
    } }));
    for (description, unaligned) in [(&one, false), (&one, true), (&two, true)] {
        let data = [9, 8, 7, 6];
        let bytes = if unaligned {
            [file(description), data[..if *description == one { 3 } else { 4 }].to_vec()].concat()
        } else {
            padded(file(description), &data)
        };
        let index = parsed(&bytes).unwrap();
        assert_eq!(stored(&bytes, &index.tensors.to_vec()[0]), [9, 8, 7]);
    }
}

#[test]
fn a_truncated_aligned_file_is_not_read_as_unaligned() {
    let describe = |version: &str| {
        cbor(&json!({
            "tensors": { "a": tensor(json!("U8"), &[3], 0, 3) }, "metadata": { "version": version },
        }))
    };
    let cut = |version: &str, data: [u8; 3]| parsed(&[file(&describe(version)), data.to_vec()].concat());
    assert_eq!(cut("0.22.1", [0, 0, 0]).unwrap_err().kind, ErrorKind::Truncated);
    assert!(cut("0.22.1", [0, 0, 1]).is_ok(), "nonzero bytes are not padding");
    assert!(cut("0.19.1", [0, 0, 0]).is_ok(), "a tensor of 0.19 may contain zeros");
    let longer = [file(&describe("0.19.1")), vec![0, 0, 0, 0]].concat();
    assert_eq!(parsed(&longer).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn data_is_aligned_if_the_file_length_is_unknown() {
    let bytes = padded(file(&cbor(&json!({ "tensors": { "a": tensor(json!("U8"), &[3], 0, 3) } }))), &[1, 2, 3]);
    let mut window = Window::new(None);
    window.insert(0, &bytes);
    let Ok(Parsed::File(index)) = parse(&window) else { panic!() };
    assert_eq!(stored(&bytes, &index.tensors.to_vec()[0]), [1, 2, 3]);
}

#[test]
fn dtype_details_are_kept_as_attributes() {
    let scheme = json!({ "QFloat": { "value": "Q4S", "store": { "PackedU32": 0 }, "level": "Tensor" } });
    let dtypes = [
        (json!("F16"), 2, Dtype::F16, None),
        (json!("Flex32"), 4, Dtype::F32, Some(json!("Flex32"))),
        (json!("Bool"), 1, Dtype::Bool, Some(json!("Bool"))),
        (json!({ "Bool": "Native" }), 1, Dtype::Bool, Some(json!({ "Bool": "Native" }))),
        (json!({ "Bool": "U32" }), 4, Dtype::U32, Some(json!({ "Bool": "U32" }))),
        (scheme.clone(), 77, Dtype::Other("QFLOAT_Q4S".into()), Some(scheme)),
        (json!("C64"), 5, Dtype::Other("C64".into()), None),
        (json!({ "New": "Kind" }), 3, Dtype::Other("New_Kind".into()), Some(json!({ "New": "Kind" }))),
        (json!({ "New": [1] }), 3, Dtype::Other("New".into()), Some(json!({ "New": [1] }))),
    ];
    for (stated, byte_length, dtype, attribute) in dtypes {
        let description = json!({ "tensors": { "a": tensor(stated.clone(), &[], 0, byte_length) } });
        let index = parsed(&padded(file(&cbor(&description)), &[0; 256])).unwrap();
        assert_eq!(index.tensors.to_vec()[0].dtype, dtype, "{stated}");
        assert_eq!(index.tensors.to_vec()[0].attributes.get("dtype"), attribute.as_ref(), "{stated}");
        assert_eq!(index.tensors.to_vec()[0].byte_length(), Some(byte_length), "{stated}");
    }
}

#[test]
fn unknown_keys_are_ignored() {
    let mut described = tensor(json!("U8"), &[1], 0, 1);
    described["new"] = json!([{ "a": 1 }]);
    let description = json!({ "new": { "b": [2] }, "tensors": { "a": described } });
    assert_eq!(parsed(&padded(file(&cbor(&description)), &[1])).unwrap().tensors.len(), 1);
}

#[test]
fn rejects_invalid_descriptions() {
    let refused = |description: Value, what: &str| {
        let error = parsed(&padded(file(&cbor(&description)), &[0; 600])).unwrap_err();
        assert!(error.what.contains(what), "{error}");
    };
    let one = |dtype: Value, shape: &[u64], start, end| json!({ "tensors": { "a": tensor(dtype, shape, start, end) } });
    refused(one(json!("F32"), &[3], 0, 11), "11 bytes do not match F32 [3]");
    refused(one(json!("F32"), &[3], 12, 0), "not a range");
    refused(one(json!("X"), &[3], 0, u64::MAX), "u64");
    refused(one(json!("F32"), &[u64::MAX, u64::MAX], 0, 12), "2^64");
    refused(one(json!(3), &[3], 0, 12), "dtype is 3");
    refused(json!({ "tensors": { "a": { "dtype": "F32", "shape": [1] } } }), "data_offsets");
    refused(json!({ "tensors": [] }), "CBOR");
    refused(
        json!({ "tensors": { "a": tensor(json!("U8"), &[300], 0, 300), "b": tensor(json!("U8"), &[1], 256, 257) } }),
        "overlap",
    );
    let twice = [head(5, 1), cbor(&json!("tensors")), head(5, 2)].concat();
    let entry = [cbor(&json!("a")), cbor(&tensor(json!("U8"), &[0], 0, 0))].concat();
    let error = parsed(&padded(file(&[twice, entry.clone(), entry].concat()), &[])).unwrap_err();
    assert!(error.what.contains("occurs twice"), "{error}");
}
