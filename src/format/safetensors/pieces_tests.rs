//! Tests of long headers, which are parsed while they arrive.

use super::header::Header;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind};
use crate::format;
use crate::index::{Index, Parsed, Tensor};
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use proptest::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// Entries whose names and keys look like the ends of entries.
const UNUSUAL: &str = r#" "},\"a\":{\\" : {"dtype":"U8","x":["},",{"y":[1,2]}],"shape":[0],"data_offsets":[0,0]} ,
    "\u00fc\",\\\"": {"shape":[ 0 ],"data_offsets":[0 , 0],"dtype":"U8"}, "__metadata__":{"a,{":"}\\","b":""},"#;

#[test]
fn a_long_header_is_read_in_pieces_of_any_length() {
    let file = long_file(UNUSUAL, "");
    let whole = parse(&Window::whole(&file)).unwrap();
    assert_eq!((whole.tensors.len(), whole.metadata.len()), (COUNT + 3, 2));
    assert_eq!(whole.tensors.get(1).unwrap().name, "ü\",\\\"");
    proptest!(ProptestConfig { cases: 12, ..ProptestConfig::default() }, |(pieces in piece_lengths())| {
        prop_assert_eq!(&parse_in_pieces(&file, &pieces).unwrap(), &whole);
    });
}

#[test]
fn faults_of_a_long_header_are_found_wherever_they_are() {
    let entry = r#""z":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}"#;
    let ends = [",", ",,", &format!(",{entry}}}"), "]", "}", &format!(",{entry},"), &format!(",\"t7\":{{}},{entry}")];
    let begins = [",", ",,", "]", "\"a\":{},", &format!("{entry},{entry},"), "\"a\":1,"];
    let all = begins.iter().map(|begin| (*begin, "")).chain(ends.iter().map(|end| ("", *end)));
    for (begin, end) in all {
        let file = long_file(begin, end);
        let whole = parse(&Window::whole(&file)).unwrap_err();
        for pieces in [vec![64 << 10], vec![1 << 20], vec![1, 4 << 20]] {
            let error = parse_in_pieces(&file, &pieces).unwrap_err();
            assert_eq!((error.kind, &error.context.tensor), (whole.kind, &whole.context.tensor), "{begin:?} {end:?}");
        }
        assert_eq!(whole.kind, ErrorKind::Format);
    }
    assert!(parse(&Window::whole(&long_file("", ""))).is_ok(), "without a fault");
}

#[test]
fn a_long_header_is_not_kept() {
    let file = long_file("", "");
    let mut window = Window::new(None);
    window.insert(0, &file[..1000]);
    let Err(Stop::Need(needed)) = format::parse(&window) else { panic!("the header is not complete") };
    assert_eq!(needed.start, 1000);
    window.insert(1000, &file[1000..900_000]);
    assert_eq!(window.missing(&(8..needed.end)), 900_000..needed.end);
    assert_eq!(window.known_from(0, needed.end).len(), 1000);
    window.insert(950_000, &file[950_000..1_000_000]); // out of order: ignored
    assert_eq!(format::parse(&window), Err(Stop::Need(900_000..needed.end)));
}

#[test]
fn changed_headers_are_accepted_if_serde_json_accepts_them() {
    let text = r#"{"__metadata__":{"a":"b\n"},"t":{"dtype":"U8","shape":[12,1],"data_offsets":[0,12]}, "é":
        {"x":[null,1.5e1,"]"],"shape":[],"data_offsets":[12,13],"dtype":"\u0055\u0038"}}"#;
    let byte = prop_oneof![proptest::sample::select(br#"{}[]",:\ 0123456789.eE-+nutfalsr"#.to_vec()), any::<u8>()];
    let change = (0..text.len(), byte, 0usize..3);
    let changes = proptest::collection::vec(change, 0..4);
    proptest!(ProptestConfig { cases: 20_000, ..ProptestConfig::default() }, |(changes in changes)| {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte, kind) in changes {
            let removed = at.min(bytes.len())..bytes.len().min(at + usize::from(kind > 0));
            bytes.splice(removed, (kind < 2).then_some(byte));
        }
        let header = |bytes| Header::new(8..8 + bytes, Budget::new(bytes));
        let ours = header(bytes.len() as u64).read(&bytes);
        let expected = read_with_serde_json(&bytes);
        match &ours {
            Ok(header) => prop_assert_eq!(Some(entries(header)), expected),
            Err(error) if error.what.contains("twice") => {}
            Err(error) => prop_assert_eq!(None, expected, "{}", error),
        }
        let mut pieces = header(bytes.len() as u64);
        let pushed = bytes.chunks(5).try_for_each(|piece| crate::window::Pieces::push(&mut pieces, piece));
        match (pushed.and_then(|()| pieces.finish()), ours) {
            (Ok(pieces), Ok(ours)) => prop_assert_eq!(entries(&pieces), entries(&ours)),
            (pieces, ours) => prop_assert_eq!(pieces.err().map(|e| e.kind), ours.err().map(|e| e.kind)),
        }
    });
}

type Entries = BTreeMap<String, (String, Vec<u64>, Range<u64>)>;

fn entries(header: &Header) -> Entries {
    let start = header.place.end;
    let offsets = |range: &Range<u64>| range.start - start..range.end - start;
    let entry = |t: &Tensor| (t.dtype.name().to_owned(), t.shape.clone(), offsets(&t.components[0].range));
    header.tensors.iter().map(|tensor| (tensor.name.clone(), entry(&tensor))).collect()
}

fn read_with_serde_json(bytes: &[u8]) -> Option<Entries> {
    let header: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    let mut entries = Entries::new();
    for (name, value) in header {
        if name == "__metadata__" {
            serde_json::from_value::<Option<BTreeMap<String, String>>>(value).ok()?;
            continue;
        }
        let field = |key: &str| value.as_object()?.get(key).cloned();
        let dtype: String = serde_json::from_value(field("dtype")?).ok()?;
        let shape: Vec<u64> = serde_json::from_value(field("shape")?).ok()?;
        let (start, end): (u64, u64) = serde_json::from_value(field("data_offsets")?).ok()?;
        let expected = Dtype::from_name(&dtype).byte_length(element_count(&shape).ok()?).ok()?;
        if end < start || end > 1 << 60 || expected.is_some_and(|expected| expected != end - start) {
            return None;
        }
        entries.insert(name, (dtype, shape, start..end));
    }
    Some(entries)
}

const COUNT: usize = 30_000;

/// A file with a header above the limit up to which headers are kept.
fn long_file(begin: &str, end: &str) -> Vec<u8> {
    let mut header = format!(r#"{{{begin}"first":{{"dtype":"U8","shape":[],"data_offsets":[0,1]}},"#);
    for i in 0..COUNT {
        let comma = if i > 0 { "," } else { "" };
        let name = i * 7919 % COUNT; // not in order
        write!(header, r#"{comma}"t{name}":{{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}"#).unwrap();
    }
    write!(header, "{end}}}  ").unwrap();
    assert!(header.len() > 1 << 20);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[7]].concat()
}

fn piece_lengths() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![1usize..50, 1usize..100_000, 1usize..2_000_000], 1..9)
}

/// Parses a file that arrives in pieces of these lengths, again and again.
fn parse_in_pieces(file: &[u8], lengths: &[usize]) -> Result<Index, Error> {
    let mut window = Window::new(Some(file.len() as u64));
    let mut lengths = lengths.iter().cycle();
    window.insert(0, &file[..64]);
    loop {
        let needed = match format::parse(&window) {
            Err(Stop::Need(needed)) => needed,
            outcome => return index(outcome),
        };
        while !window.missing(&needed).is_empty() {
            let start = window.missing(&needed).start as usize;
            let end = file.len().min(start + lengths.next().unwrap().max(&(needed.end as usize / 100)));
            window.insert(start as u64, &file[start..end]);
        }
    }
}

fn parse(window: &Window) -> Result<Index, Error> {
    index(format::parse(window))
}

fn index(outcome: Result<Parsed, Stop>) -> Result<Index, Error> {
    match outcome {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}
