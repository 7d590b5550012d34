//! Tests with files that the available tools do not write. Files written by tools are in `tests/fixtures/`.

use super::parse::parse;
use super::v1::MAGIC_1;
use crate::dtype::Dtype;
use crate::error::{ErrorKind, Result};
use crate::index::{Encoding, Index, Layout, Parsed};
use crate::loader::{Loader, Options};
use crate::source::memory::MemorySource;
use crate::window::{Stop, Window};
use futures::executor::block_on;
use minicbor::Encoder;
use serde_json::{Value, json};

/// Builds a file of 1.1 or later: 4096 bytes for blobs, then a manifest.
fn file(manifest: &Value) -> Vec<u8> {
    let mut file = MAGIC_1.to_vec();
    file.resize(4096, 0);
    let mut cbor = Encoder::new(Vec::new());
    encode(manifest, &mut cbor);
    let manifest = cbor.into_writer();
    file.extend(&manifest);
    file.extend((manifest.len() as u64).to_le_bytes());
    file.extend(MAGIC_1);
    file
}

pub(super) fn encode(value: &Value, to: &mut Encoder<Vec<u8>>) {
    match value {
        Value::Null => _ = to.null().unwrap(),
        Value::Bool(bool) => _ = to.bool(*bool).unwrap(),
        Value::Number(number) => _ = to.u64(number.as_u64().unwrap()).unwrap(),
        Value::String(text) => _ = to.str(text).unwrap(),
        Value::Array(values) => {
            to.array(values.len() as u64).unwrap();
            values.iter().for_each(|value| encode(value, to));
        }
        Value::Object(map) => {
            to.map(map.len() as u64).unwrap();
            for (key, value) in map {
                to.str(key).unwrap();
                encode(value, to);
            }
        }
    }
}

fn parse_file(file: &[u8]) -> Result<Index> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Parses a file whose only object has this format, this shape and these components.
fn object(format: &str, shape: Value, components: Value) -> Result<Index> {
    let object = json!({ "format": format, "shape": shape, "components": components });
    parse_file(&file(&json!({ "version": "1.2.0", "objects": { "t": object } })))
}

fn dense(component: Value) -> Result<Index> {
    object("dense", json!([4]), json!({ "data": component }))
}

#[test]
fn rejects_another_major_version_and_warns_about_a_newer_minor_one() {
    let versions = |version: &str| parse_file(&file(&json!({ "version": version, "objects": {} })));
    assert_eq!(versions("1.2.7").unwrap().warnings, [""; 0]);
    assert!(versions("1.3").unwrap().warnings[0].contains("version 1.3"));
    for (version, kind) in
        [("2.0", ErrorKind::Unsupported), ("0.9.1", ErrorKind::Unsupported), ("one", ErrorKind::Format)]
    {
        assert_eq!(versions(version).unwrap_err().kind, kind, "{version}");
    }
    assert_eq!(parse_file(&file(&json!({ "objects": {} }))).unwrap_err().kind, ErrorKind::Format);
}

#[test]
fn unknown_layouts_types_encodings_and_fields_are_listed() {
    let components = json!({
        "packed": { "dtype": "u8", "type": "int3", "offset": 64, "length": 5, "axis": [0, null] },
        "zeros": { "dtype": "f6", "offset": 128, "length": 3 },
    });
    let index = object("tiled", json!([3, 3]), components).unwrap();
    let tensor = index.tensors.to_vec().remove(0);
    assert_eq!(tensor.layout, Layout::Other("tiled".into()));
    let dtypes: Vec<_> = tensor.components.iter().map(|component| component.dtype.name()).collect();
    assert_eq!(dtypes, ["int3", "f6"]);

    let index = dense(json!({ "dtype": "f32", "offset": 64, "length": 7, "encoding": "snappy" })).unwrap();
    let data = index.tensors.to_vec()[0].components.remove(0);
    assert_eq!((data.encoding, data.decoded_length), (Encoding::Raw, Some(7)));
    assert_eq!(data.dtype.name(), "F32 in snappy");
    assert!(index.warnings[0].contains("snappy"));
}

/// The registry of version 2, `gguf.<type>/1`.
#[test]
fn ggml_blocks_have_their_dtype_if_the_layout_matches_the_registry() {
    let read = |format: &str, elements: u64, dtype: &str| {
        let attributes = json!({ "elems_per_block": elements, "block_bytes": 144, "origin": "x" });
        let data = json!({ "dtype": dtype, "offset": 64, "length": 288 });
        let object =
            json!({ "format": format, "shape": [2, 256], "attributes": attributes, "components": { "data": data } });
        parse_file(&file(&json!({ "version": "1.2.0", "objects": { "t": object } })))
            .unwrap()
            .tensors
            .to_vec()
            .remove(0)
    };
    let tensor = read("gguf.q4_k/1", 256, "u8");
    assert_eq!((tensor.dtype, tensor.layout), (Dtype::Q4_K, Layout::Dense));
    assert_eq!(Value::from(tensor.attributes), json!({ "origin": "x" }));
    for (format, elements, dtype) in [
        ("gguf.q4_k/2", 256, "u8"),
        ("gguf.Q4_K/1", 256, "u8"),
        ("gguf.q9_k/1", 256, "u8"),
        ("gguf.f32/1", 1, "u8"),
        ("gguf.q4_k/1", 32, "u8"),
        ("gguf.q4_k/1", 256, "i8"),
    ] {
        let tensor = read(format, elements, dtype);
        assert_eq!((tensor.layout, tensor.attributes.len()), (Layout::Other(format.into()), 3), "{format}");
    }
}

#[test]
fn warns_once_about_misaligned_blobs_and_unknown_digests() {
    let components = json!({
        "a": { "dtype": "u8", "offset": 65, "length": 5, "digest": "md5:00" },
        "b": { "dtype": "u8", "offset": 70, "length": 3, "digest": "md5:01" },
    });
    let warnings = object("pair", json!([3]), components).unwrap().warnings;
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].starts_with("2 blobs do not begin"), "{warnings:?}");
    assert!(warnings[1].contains("\"md5\""), "{warnings:?}");
}

#[test]
fn accepts_digests_in_either_case_and_rejects_incomplete_ones() {
    for digest in ["crc32c:0x0A0b0C0d", "CRC32C:0a0b0c0d"] {
        let index = dense(json!({ "dtype": "u8", "offset": 64, "length": 4, "digest": digest })).unwrap();
        let stated = index.tensors.to_vec()[0].components[0].digest.unwrap();
        assert_eq!(stated.digest.to_string(), "0a0b0c0d");
    }
    for digest in ["crc32c:0x0A0b0C", "sha256:00", "crc32c", "crc32c:0x-A0b0C0d"] {
        let error = dense(json!({ "dtype": "u8", "offset": 64, "length": 4, "digest": digest })).unwrap_err();
        assert!(error.what.contains(digest), "{error}");
    }
}

#[test]
fn rejects_lengths_that_do_not_match_dtype_and_shape() {
    for component in [
        json!({ "dtype": "f32", "offset": 64, "length": 15 }),
        json!({ "dtype": "f32", "offset": 64, "length": 16, "uncompressed_length": 17 }),
        json!({ "dtype": "f32", "offset": 64, "length": 20, "encoding": "zstd", "uncompressed_length": 15 }),
        json!({ "dtype": "f32", "type": "complex64", "offset": 64, "length": 16 }),
        json!({ "dtype": "f32", "offset": 64 }),
        json!({ "dtype": "f32", "offset": 0, "length": 16 }),
        json!({ "dtype": "f32", "offset": u64::MAX, "length": 16 }),
    ] {
        assert_eq!(dense(component.clone()).unwrap_err().kind, ErrorKind::Format, "{component}");
    }
    let huge =
        json!({ "dtype": "f32", "offset": 64, "length": 20, "encoding": "zstd", "uncompressed_length": 1u64 << 40 });
    assert!(object("dense", json!([1u64 << 38]), json!({ "data": huge })).is_err());
}

#[test]
fn rejects_sparse_tensors_with_inconsistent_components() {
    let component =
        |dtype: &str, offset: u64, length: u64| json!({ "dtype": dtype, "offset": offset, "length": length });
    let csr = |indices: u64, indptr: u64| {
        let (values, indices) = (component("f32", 64, 12), component("u64", 128, indices));
        let components = json!({ "values": values, "indices": indices, "indptr": component("u64", 192, indptr) });
        object("sparse_csr", json!([3, 4]), components)
    };
    assert_eq!(csr(24, 32).unwrap().tensors.to_vec()[0].layout, Layout::SparseCsr);
    assert!(csr(16, 32).unwrap_err().what.contains("3 values but 2 indices"));
    assert!(csr(24, 24).is_err());
    let coords = |length| {
        let components = json!({ "values": component("f32", 64, 12), "coords": component("u32", 128, length) });
        object("sparse_coo", json!([3, 4]), components)
    };
    assert_eq!(coords(24).unwrap().tensors.to_vec()[0].components[1].dtype, Dtype::U32);
    assert!(coords(12).is_err());
    assert!(object("sparse_coo", json!([3, 4]), json!({ "values": component("f32", 64, 12) })).is_err());
}

#[test]
fn other_entries_of_the_manifest_are_metadata() {
    let manifest =
        json!({ "version": "1.0", "generator": "g", "attributes": { "license": "MIT", "deep": [1] }, "objects": {} });
    let metadata = parse_file(&file(&manifest)).unwrap().metadata;
    assert_eq!(Value::from(metadata), json!({ "generator": "g", "license": "MIT", "deep": [1] }));
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn opens_a_large_file_with_three_requests() {
    let objects: serde_json::Map<String, Value> = (0..3000u64)
        .map(|i| {
            let digest = "sha256:".to_owned() + &"0".repeat(64);
            let data = json!({ "dtype": "u8", "offset": 64 + i, "length": 1, "digest": digest });
            (i.to_string(), json!({ "format": "dense", "shape": [1], "components": { "data": data } }))
        })
        .collect();
    let mut bytes = file(&json!({ "version": "1.2.0", "objects": objects }));
    assert!(bytes.len() > 200_000);
    let blobs = vec![0; 200_000];
    bytes.splice(4096..4096, blobs);
    block_on(async {
        let source = MemorySource::new(vec![("m.zt".into(), bytes.into())]).unwrap();
        let loader = Loader::open(source, Options::default()).await.unwrap();
        assert_eq!(loader.load_index().await.unwrap().len(), 3000);
        assert_eq!(loader.stats().requests(), 3);
    });
}

/// A file whose only object is of two elements of F16 in streams.
fn split(object: Value) -> Result<Index> {
    let mut whole = json!({
        "format": "byte_stream_split", "dtype": "f16", "shape": [2],
        "components": { "stream_0": stream(128, 2), "stream_1": stream(64, 2) },
    });
    for (key, value) in object.as_object().unwrap() {
        whole[key] = value.clone();
    }
    parse_file(&file(&json!({ "version": "1.2.0", "objects": { "t": whole } })))
}

fn stream(offset: u64, length: u64) -> Value {
    json!({ "dtype": "u8", "offset": offset, "length": length })
}

#[test]
fn streams_of_bytes_are_a_dense_tensor() {
    let index = split(json!({ "digest": "crc32c:0x00000001" })).unwrap();
    let tensor = index.tensors.get(0).unwrap();
    assert_eq!((&tensor.dtype, &tensor.layout, &tensor.shape[..]), (&Dtype::F16, &Layout::Dense, &[2][..]));
    let [data] = tensor.components.as_slice() else { panic!("{:?}", tensor.components) };
    assert_eq!((&*data.role, data.encoding), ("data", Encoding::ByteStreamSplit));
    assert_eq!((data.range.clone(), data.decoded_length), (64..130, Some(4)));
    assert!(data.digest.is_some() && index.warnings.is_empty());

    let logical = split(json!({ "dtype": "f32", "type": "complex64", "components": {} })).unwrap_err();
    assert!(logical.what.contains("C64 has 8 streams"), "{logical}");
}

#[test]
fn streams_that_do_not_fit_their_tensor_are_refused() {
    for (object, what) in [
        (json!({ "dtype": null }), "no `dtype`"),
        (json!({ "dtype": "u8" }), "does not exist for U8"),
        (json!({ "dtype": "unknown" }), "does not exist for"),
        (json!({ "dtype": "f32" }), "F32 has 4 streams, but it has 2"),
        (json!({ "shape": [3] }), "`stream_0` has 2 bytes of U8, but its tensor needs 3"),
        (json!({ "components": { "stream_0": stream(64, 2), "stream_2": stream(128, 2) } }), "no `stream_1`"),
        (json!({ "components": { "stream_0": stream(64, 2), "stream_1": stream(65, 2) } }), "its streams overlap"),
        (json!({ "components": { "stream_0": stream(64, 2), "stream_1": stream(5000, 2) } }), "reach to"),
    ] {
        let error = split(object).unwrap_err();
        assert!(error.what.contains(what) && error.context.tensor.as_deref() == Some("t"), "{error}");
    }
}

#[test]
fn streams_with_other_bytes_between_them_are_components() {
    let mut whole = file(&json!({ "version": "1.2.0", "objects": { "t": {
        "format": "byte_stream_split", "dtype": "f16", "shape": [2],
        "components": { "stream_0": stream(64, 2), "stream_1": stream(20_000, 2) },
    } } }));
    let manifest = whole.split_off(4096);
    whole.resize(20_480, 0);
    whole.extend(manifest);
    let index = parse_file(&whole).unwrap();
    let tensor = index.tensors.get(0).unwrap();
    assert_eq!((tensor.layout.name(), tensor.components.len()), ("byte_stream_split", 2));
    assert!(index.warnings.iter().any(|warning| warning.contains("not next to each other")), "{:?}", index.warnings);
    assert!(index.warnings.iter().any(|warning| warning.starts_with("1 blobs do not begin")), "{:?}", index.warnings);
}

#[test]
fn digests_of_some_streams_verify_nothing_and_those_of_empty_ones_are_compared() {
    let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let with_digest = |offset: u64, length: u64| {
        let mut stream = stream(offset, length);
        stream["digest"] = digest.into();
        stream
    };
    let some = json!({ "components": { "stream_0": stream(128, 2), "stream_1": with_digest(64, 2) } });
    assert_eq!(split(some).unwrap().tensors.get(0).unwrap().components[0].digest, None);

    let empty = json!({ "t": {
        "format": "byte_stream_split", "dtype": "f16", "shape": [0],
        "components": { "stream_0": with_digest(64, 0), "stream_1": with_digest(64, 0) },
    } });
    let file = file(&json!({ "version": "1.2.0", "objects": empty }));
    let error = crate::native::Reader::from_bytes(vec![("m.zt".to_owned(), file)]).unwrap().load_tensor("t");
    assert_eq!(error.unwrap_err().kind, ErrorKind::Checksum);
}
