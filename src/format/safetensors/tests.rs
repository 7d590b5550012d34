//! Tests of the parser of SafeTensors files and their index.

use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::{Index, Parsed};
use crate::loader::{Loader, Options, TensorRequest};
use crate::source::memory::MemorySource;
use crate::window::{Stop, Window};
use futures::executor::block_on;
use std::rc::Rc;

#[test]
fn white_space_around_the_header_is_accepted() {
    for header in [" \n\t{}", "{}  \n\r\t", "{}"] {
        assert!(parse(&file(header, 0)).unwrap().tensors.is_empty(), "{header:?}");
    }
}

#[test]
fn refuses_nul_padding_and_text_after_the_header() {
    for header in ["{}\0\0\0", "{}x", "{"] {
        assert_eq!(refused(&file(header, 0)).kind, ErrorKind::Format, "{header:?}");
    }
}

#[test]
fn rejects_duplicate_names_and_fields() {
    let tensor = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let next = r#"{"dtype":"U8","shape":[1],"data_offsets":[1,2]}"#;
    let error = refused(&file(&format!(r#"{{"a":{tensor},"a":{next}}}"#), 2));
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("a")));
    let error = refused(&file(r#"{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}"#, 1));
    assert_eq!(error.context.tensor.as_deref(), Some("a"));
    assert!(error.what.contains("`dtype` twice"), "{error}");
}

#[test]
fn rejects_gaps_overlaps_and_truncated_data() {
    let two = |first: [u64; 2], second: [u64; 2], data: usize| {
        let entry = |[start, end]: [u64; 2]| {
            format!(r#"{{"dtype":"U8","shape":[{}],"data_offsets":[{start},{end}]}}"#, end - start)
        };
        file(&format!(r#"{{"a":{},"b":{}}}"#, entry(first), entry(second)), data)
    };
    assert!(parse(&two([0, 4], [4, 8], 8)).is_ok());
    assert!(parse(&two([4, 8], [0, 4], 8)).is_ok(), "in any order");
    assert_eq!(refused(&two([0, 4], [5, 8], 8)).kind, ErrorKind::Format, "a hole");
    assert_eq!(refused(&two([1, 4], [4, 8], 8)).kind, ErrorKind::Format, "a hole at the start");
    assert_eq!(refused(&two([0, 5], [4, 8], 8)).kind, ErrorKind::Format, "an overlap");
    assert_eq!(refused(&two([0, 4], [4, 8], 9)).kind, ErrorKind::Format, "a byte after the last tensor");
    assert_eq!(refused(&two([0, 4], [4, 8], 7)).kind, ErrorKind::Truncated, "a byte missing");
}

#[test]
fn every_dtype_has_the_correct_size() {
    // Bits per element, from the package's `Dtype::bitsize`.
    let bits = [
        ("BOOL", 8),
        ("U8", 8),
        ("I8", 8),
        ("F8_E5M2", 8),
        ("F8_E4M3", 8),
        ("F8_E8M0", 8),
        ("F8_E4M3FNUZ", 8),
        ("F8_E5M2FNUZ", 8),
        ("I16", 16),
        ("U16", 16),
        ("F16", 16),
        ("BF16", 16),
        ("I32", 32),
        ("U32", 32),
        ("F32", 32),
        ("I64", 64),
        ("U64", 64),
        ("F64", 64),
        ("C64", 64),
        ("F4", 4),
        ("F6_E2M3", 6),
        ("F6_E3M2", 6),
    ];
    for (dtype, bits) in bits {
        let bytes = 8 * bits / 8;
        let header = |end| format!(r#"{{"t":{{"dtype":"{dtype}","shape":[2,4],"data_offsets":[0,{end}]}}}}"#);
        let index = parse(&file(&header(bytes), bytes)).unwrap();
        assert_eq!(index.tensors.to_vec()[0].dtype.name(), dtype);
        assert!(index.tensors.to_vec()[0].dtype.block().is_some(), "{dtype}");
        assert_eq!(refused(&file(&header(bytes + 1), bytes + 1)).kind, ErrorKind::Format, "{dtype}");
    }
}

#[test]
fn rejects_elements_that_do_not_fill_whole_bytes() {
    let error = refused(&file(r#"{"t":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#, 2));
    assert!(error.what.contains("3 elements do not fill whole blocks"), "{error}");
}

#[test]
fn an_unknown_dtype_loads_as_raw_bytes() {
    let header = r#"{"t":{"dtype":"F3_X","shape":[7],"data_offsets":[0,5]}}"#;
    assert_eq!(parse(&file(header, 5)).unwrap().tensors.to_vec()[0].dtype, Dtype::Other("F3_X".into()));
    let loader = open(vec![("m", file(header, 5))]).unwrap();
    assert_eq!(load(&loader, "t").unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn reads_empty_tensors_and_scalars() {
    let header = r#"{
        "none": {"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},
        "scalar": {"dtype":"F32","shape":[],"data_offsets":[0,4]},
        "void": {"dtype":"F32","shape":[0],"data_offsets":[0,0]}
    }"#;
    let loader = open(vec![("m", file(header, 4))]).unwrap();
    assert_eq!(load(&loader, "scalar").unwrap(), [0, 1, 2, 3]);
    for name in ["none", "void"] {
        assert!(load(&loader, name).unwrap().is_empty(), "{name}");
    }
    block_on(loader.verify(Rc::new(()))).unwrap();
}

#[test]
fn metadata_are_strings_in_the_order_of_the_file() {
    let index = parse(&file(r#"{"__metadata__":{"z":"1","a":"ü\u0000"}}"#, 0)).unwrap();
    let metadata: Vec<_> = index.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap())).collect();
    assert_eq!(metadata, [("z", "1"), ("a", "ü\0")]);
    assert!(parse(&file(r#"{"__metadata__":null}"#, 0)).unwrap().metadata.is_empty());
    assert!(parse(&file(r#"{"__metadata__":n ull}"#, 0)).is_err());
    for metadata in [r#"{"a":1}"#, r#"{"a":["b"]}"#, r#""a""#] {
        let error = refused(&file(&format!(r#"{{"__metadata__":{metadata}}}"#), 0));
        assert!(error.what.contains("\"__metadata__\""), "{error}");
    }
}

#[test]
fn unknown_keys_of_a_tensor_are_ignored() {
    let header = r#"{"t":{"dtype":"U8","note":[{"x":null}],"shape":[1],"data_offsets":[0,1]}}"#;
    assert_eq!(parse(&file(header, 1)).unwrap().tensors.to_vec()[0].shape, [1]);
}

#[test]
fn rejects_invalid_shapes_and_offsets() {
    for (shape, offsets) in [
        ("[-1]", "[0,1]"),
        ("[1.0]", "[0,1]"),
        ("\"1\"", "[0,1]"),
        ("[1]", "[0,1,2]"),
        ("[1]", "[1,0]"),
        ("[1]", "[0]"),
        ("[1]", "[18446744073709551614,18446744073709551615]"),
        ("[4294967296,4294967296,0]", "[0,0]"),
        ("[9223372036854775808,2]", "[0,0]"),
    ] {
        let header = format!(r#"{{"t":{{"dtype":"U8","shape":{shape},"data_offsets":{offsets}}}}}"#);
        assert_eq!(refused(&file(&header, 1)).kind, ErrorKind::Format, "{header}");
    }
}

#[test]
fn rejects_a_header_beyond_the_limit_without_reading_it() {
    let mut bytes = file("{}        ", 0);
    bytes[..8].copy_from_slice(&100_000_001u64.to_le_bytes());
    let mut window = Window::new(Some(1 << 40));
    window.insert(0, &bytes);
    assert!(matches!(format::parse(&window), Err(Stop::Failed(error)) if error.kind == ErrorKind::Limit));
    bytes[..8].copy_from_slice(&100_000_000u64.to_le_bytes());
    assert_eq!(refused(&bytes).kind, ErrorKind::Truncated);
}

#[test]
fn lists_tensors_missing_in_the_map_and_rejects_tensors_missing_in_the_file() {
    let part = || {
        let a = r#""a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
        let b = r#""b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}"#;
        file(&format!("{{{a},{b}}}"), 2)
    };
    let model = |map: &str| {
        let manifest = format!(r#"{{"metadata":{{"total_size":99}},"weight_map":{map}}}"#);
        open(vec![("model.safetensors.index.json", manifest.into_bytes()), ("p1", part())]).unwrap()
    };
    let loader = model(r#"{"a":"p1"}"#);
    let names: Vec<_> = block_on(loader.load_index()).unwrap().iter().map(|tensor| tensor.name.clone()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(load(&loader, "b").unwrap(), [1]);
    assert_eq!(block_on(loader.load_metadata()).unwrap().metadata["total_size"], 99);

    let error = block_on(model(r#"{"a":"p1","c":"p1"}"#).load_index()).unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("c")));
    assert_eq!(error.context.url.as_deref(), Some("p1"));
}

#[test]
fn rejects_paths_outside_the_folder() {
    for path in ["\"../p1\"", "\"/p1\"", "\"https://host/p1\"", "7", "null"] {
        let manifest = format!(r#"{{"weight_map":{{"a":{path}}}}}"#);
        let error = open(vec![("index.json", manifest.into_bytes())]).unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("a")), "{path}");
    }
}

/// Builds a file with this header, and `data_length` bytes of ascending values.
fn file(header: &str, data_length: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..data_length).map(|at| at as u8));
    bytes
}

fn parse(bytes: &[u8]) -> Result<Index> {
    match format::parse(&Window::whole(bytes)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn refused(bytes: &[u8]) -> Error {
    parse(bytes).unwrap_err()
}

fn open(files: Vec<(&str, Vec<u8>)>) -> Result<Rc<Loader<MemorySource>>> {
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into())).collect();
    block_on(Loader::open(MemorySource::new(files)?, Options::default())).map(Rc::new)
}

fn load(loader: &Rc<Loader<MemorySource>>, name: &str) -> Result<Vec<u8>> {
    let loaded = block_on(loader.load_tensor(name, TensorRequest::default(), Rc::new(())))?;
    Ok(loaded.components.into_iter().next().unwrap().buffer)
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes under Miri")]
fn a_header_may_have_250000_tensors() {
    let entry = |at: u64| format!(r#""t{at}":{{"dtype":"U8","shape":[1],"data_offsets":[{at},{}]}}"#, at + 1);
    let header = format!("{{{}}}", (0..250_000).map(entry).collect::<Vec<_>>().join(","));
    assert_eq!(parse(&file(&header, 250_000)).unwrap().tensors.len(), 250_000);
}
