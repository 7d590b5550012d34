use super::parse::parse;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind};
use crate::index::{Encoding, Index, Layout, Parsed};
use crate::window::{Stop, Window};
use proptest::prelude::*;

/// An array with this header, of version 1.0.
pub(crate) fn array(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    let padding = (10 + text.len() + 1).next_multiple_of(64) - 10 - text.len() - 1;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    [b"\x93NUMPY\x01\0", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), data].concat()
}

fn parsed(file: &[u8]) -> Result<Index, Error> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn refused(file: &[u8], kind: ErrorKind, what: &str) {
    let error = parsed(file).unwrap_err();
    assert!(error.kind == kind && error.what.contains(what), "{error}");
}

#[test]
fn reads_every_version_of_the_header() {
    let file = array("'<f4'", "False", "(2, 3)", &[7; 24]);
    let (head, rest) = file.split_at(10);
    let length = u32::from(u16::from_le_bytes([head[8], head[9]])).to_le_bytes();
    for version in [1u8, 2, 3] {
        let file = match version {
            1 => file.clone(),
            _ => [b"\x93NUMPY", &[version, 0][..], &length, rest].concat(),
        };
        let index = parsed(&file).unwrap();
        let tensor = index.tensors.get(0).unwrap();
        assert_eq!((tensor.name.as_str(), &tensor.dtype, &*tensor.shape), ("arr_0", &Dtype::F32, &[2, 3][..]));
        assert_eq!(tensor.components[0].range.end, file.len() as u64);
        assert_eq!((index.version.as_str(), index.warnings.len()), (&*format!("{version}.0"), 0));
    }
    refused(&[b"\x93NUMPY", &[4, 0][..], &length, rest].concat(), ErrorKind::Unsupported, "version 4.0");
}

#[test]
fn column_major_arrays_are_reported_and_not_passed_off_as_row_major() {
    let index = parsed(&array("'<f4'", "True", "(2, 3)", &[7; 24])).unwrap();
    let tensor = index.tensors.get(0).unwrap();
    assert_eq!((&tensor.layout, &*tensor.shape), (&Layout::Other("strided".into()), &[2, 3][..]));
    assert_eq!(tensor.attributes.get("strides"), Some(&[1, 2].into()));
    assert_eq!(tensor.attributes.get("fortran_order"), Some(&true.into()));
    assert!(index.warnings[0].contains("arr_0: in Fortran order"), "{:?}", index.warnings);
    let vector = parsed(&array("'<f4'", "True", "(6, 1)", &[7; 24])).unwrap();
    assert_eq!((vector.tensors.get(0).unwrap().layout.clone(), vector.warnings.len()), (Layout::Dense, 0));
}

#[test]
fn other_byte_orders_and_opaque_elements_are_listed() {
    let of = |descr: &str, length| {
        let index = parsed(&array(descr, "False", "(2,)", &vec![1; length])).unwrap();
        (index.tensors.get(0).unwrap(), index.warnings)
    };
    let (big, warnings) = of("'>f8'", 16);
    assert_eq!((big.components[0].encoding, warnings.len()), (Encoding::BigEndian, 0));
    assert_eq!(of("'>u1'", 2).0.components[0].encoding, Encoding::Raw);
    let (opaque, warnings) = of("'<V2'", 4);
    assert_eq!((&opaque.dtype, opaque.byte_length()), (&Dtype::Other("V2".into()), Some(4)));
    assert!(warnings[0].contains("bfloat16"), "{warnings:?}");
}

#[test]
fn objects_and_structures_are_refused_by_name() {
    refused(&array("'|O'", "False", "(1,)", b"pickle"), ErrorKind::Unsupported, "Python objects");
    refused(&array("[('a', '<f4')]", "False", "(1,)", &[0; 4]), ErrorKind::Unsupported, "structured");
    refused(&array("'<U4'", "False", "(1,)", &[0; 16]), ErrorKind::Unsupported, "`<U4`");
}

#[test]
fn invalid_arrays_are_refused() {
    refused(&array("'<f4'", "False", "(2,)", &[0; 7]), ErrorKind::Truncated, "reach");
    refused(&array("'<f4'", "False", "(4294967296, 4294967296)", &[]), ErrorKind::Format, "2^64");
    refused(&array("'<f8'", "False", "(4611686018427387904,)", &[]), ErrorKind::Format, "overflow");
    refused(&array("'<f4'", "1", "(2,)", &[0; 8]), ErrorKind::Format, "fortran_order");
    refused(&array("'<f4'", "False", "(-1,)", &[0; 8]), ErrorKind::Format, "`shape`");
    refused(b"\x93NUMPY\x01\0\xff\xff{}", ErrorKind::Truncated, "reaches to byte");
    refused(b"\x93NUMPY\x02\0\xff\xff\xff\xff{}", ErrorKind::Limit, "its header has");
    let more = parsed(&array("'<f4'", "False", "(2,)", &[0; 9])).unwrap();
    assert!(more.warnings[0].contains("1 bytes follow"), "{:?}", more.warnings);
}

proptest! {
    #[test]
    fn damaged_headers_cause_no_panic(
        damages in proptest::collection::vec((0usize..80, any::<u8>()), 1..5), length in 0usize..160,
    ) {
        let mut file = array("'<f4'", "True", "(2, 3)", &[7; 24]);
        damages.iter().for_each(|(at, byte)| file[*at] = *byte);
        file.truncate(length);
        _ = parsed(&file);
    }
}
