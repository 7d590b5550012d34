use super::parse::parse;
use crate::error::{Error, ErrorKind};
use crate::format;
use crate::index::{Encoding, Index, Layout, Parsed, Tensor};
use crate::window::{Stop, Window};
use crate::zip::tests::{Member, archive};
use std::sync::Arc;

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

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn number(number: i32) -> Vec<u8> {
    [b"J", &number.to_le_bytes()[..]].concat()
}

fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

fn numbers(all: &[i32]) -> Vec<u8> {
    tuple(&all.iter().map(|one| number(*one)).collect::<Vec<_>>())
}

fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

fn storage(class: &str, key: &str, count: i32) -> Vec<u8> {
    let id = [text("storage"), global("torch", class), text(key), text("cpu"), number(count)];
    [tuple(&id), b"Q".to_vec()].concat()
}

/// A tensor of floats, as a view of the storage "0" of 12 elements.
fn view(offset: i32, shape: &[i32], strides: &[i32]) -> Vec<u8> {
    let arguments = [
        storage("FloatStorage", "0", 12),
        number(offset),
        numbers(shape),
        numbers(strides),
        b"\x89".to_vec(),
        [global("collections", "OrderedDict"), b")R".to_vec()].concat(),
    ];
    [global("torch._utils", "_rebuild_tensor_v2"), tuple(&arguments), b"R".to_vec()].concat()
}

fn dictionary(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs: Vec<_> = entries.iter().flat_map(|(key, value)| [text(key), value.clone()]).collect();
    [b"}(", &pairs.concat()[..], b"u"].concat()
}

/// The members of an archive with this pickle, and with the storage "0".
fn members(pickled: &[u8]) -> Vec<Member> {
    vec![
        Member::stored("m/data.pkl", &[b"\x80\x02", pickled, b"."].concat()),
        Member::stored("m/byteorder", b"little"),
        Member::stored("m/data/0", &(0..48).collect::<Vec<u8>>()),
        Member::stored("m/version", b"3\n"),
    ]
}

fn file(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    archive(&members(&dictionary(entries)))
}

fn tensor(file: &[u8], name: &str) -> Arc<Tensor> {
    let mut index = parsed(file).unwrap();
    index.tensors.index_names();
    index.tensors.find(name).unwrap()
}

fn bytes<'f>(file: &'f [u8], tensor: &Tensor) -> &'f [u8] {
    let range = tensor.components[0].range.clone();
    &file[range.start as usize..range.end as usize]
}

#[test]
fn views_are_ranges_of_their_storage() {
    let all: Vec<u8> = (0..48).collect();
    let file = file(&[
        ("whole", view(0, &[3, 4], &[4, 1])),
        ("rows", view(4, &[2, 4], &[4, 1])),
        ("transposed", view(0, &[4, 3], &[1, 4])),
        ("column", view(1, &[3], &[4])),
        ("empty", view(12, &[0, 4], &[4, 1])),
        ("expanded", view(2, &[5], &[0])),
    ]);
    assert_eq!(format::detect(&file).map(|format| format.name), Some("pytorch"));
    let strided = Layout::Other("strided".into());
    for (name, layout, range) in [
        ("whole", &Layout::Dense, 0..48),
        ("rows", &Layout::Dense, 16..48),
        ("transposed", &strided, 0..48),
        ("column", &strided, 4..40),
        ("empty", &Layout::Dense, 0..0),
        ("expanded", &strided, 8..12),
    ] {
        let tensor = tensor(&file, name);
        assert_eq!((&tensor.layout, bytes(&file, &tensor)), (layout, &all[range]), "{name}");
        assert_eq!(tensor.components[0].digest.is_some(), ["whole", "transposed"].contains(&name), "{name}");
    }
    assert_eq!(tensor(&file, "transposed").attributes["strides"], serde_json::json!([1, 4]));
    let warnings = parsed(&file).unwrap().warnings;
    assert!(warnings[0].starts_with("transposed, column, expanded: not contiguous"), "{warnings:?}");
}

#[test]
fn names_lead_through_dictionaries_lists_and_attributes() {
    let one = || view(0, &[12], &[1]);
    let module = [
        global("model", "Net"),
        b")\x81".to_vec(),
        dictionary(&[
            ("_parameters", dictionary(&[("weight", one())])),
            ("_modules", dictionary(&[("fc", dictionary(&[("_buffers", dictionary(&[("mean", one())]))]))])),
            ("beta", one()),
        ]),
        b"b".to_vec(),
    ];
    let list = [b"](".to_vec(), number(7), tuple(&[one()]), b"e".to_vec()].concat();
    let numbered = [b"}".to_vec(), number(3), dictionary(&[("exp_avg", one())]), b"s".to_vec()].concat();
    let file = file(&[
        ("state_dict", dictionary(&[("a.b", one())])),
        ("list", list),
        ("state", numbered),
        ("model", module.concat()),
        ("epoch", number(3)),
    ]);
    let index = parsed(&file).unwrap();
    let mut names: Vec<_> = index.tensors.names().collect();
    names.sort_unstable();
    let expected = ["list.1.0", "model.beta", "model.fc.mean", "model.weight", "state.3.exp_avg", "state_dict.a.b"];
    assert_eq!(names, expected);
    assert_eq!(serde_json::Value::Object(index.metadata), serde_json::json!({ "list": [7, null], "epoch": 3 }));
    assert_eq!(parsed(&archive(&members(&one()))).unwrap().tensors.name(0), "tensor");
}

#[test]
fn what_only_code_could_create_is_named_and_the_rest_loads() {
    let call = |module: &str, name: &str, arguments: &[Vec<u8>]| {
        [global(module, name), tuple(arguments), b"R".to_vec()].concat()
    };
    let conjugated = {
        let mut arguments = [storage("ComplexFloatStorage", "0", 6), number(0), numbers(&[6]), numbers(&[1])].to_vec();
        arguments.extend([b"\x89".to_vec(), b"N".to_vec(), dictionary(&[("conj", b"\x88".to_vec())])]);
        call("torch._utils", "_rebuild_tensor_v2", &arguments)
    };
    let file = file(&[
        ("sparse", call("torch._utils", "_rebuild_sparse_tensor", &[number(1)])),
        ("conjugated", conjugated),
        ("other", call("builtins", "eval", &[text("exit()")])),
        ("good", call("torch._utils", "_rebuild_parameter", &[view(0, &[12], &[1]), b"\x88".to_vec(), b"N".to_vec()])),
    ]);
    let index = parsed(&file).unwrap();
    assert_eq!(index.tensors.names().collect::<Vec<_>>(), ["good"]);
    let warning = &index.warnings[0];
    assert!(warning.contains("sparse (torch._utils._rebuild_sparse_tensor)"), "{warning}");
    assert!(warning.contains("conjugated (its elements are stored without their `conj`"), "{warning}");
}

#[test]
fn refuses_views_outside_of_their_storage() {
    for (offset, shape, strides) in [
        (0, &[13][..], &[1][..]),
        (1, &[12], &[1]),
        (i32::MAX, &[1], &[1]),
        (0, &[2, 2], &[i32::MAX, i32::MAX]),
        (0, &[3, 4], &[4, 4]),
    ] {
        refused(&file(&[("t", view(offset, shape, strides))]), ErrorKind::Format, "lead out of its storage");
    }
    let negative = parsed(&file(&[("t", view(0, &[-1], &[1]))])).unwrap();
    assert!(negative.tensors.is_empty() && negative.warnings[0].contains("other arguments than PyTorch's"));
    let huge = vec![i32::MAX; 9];
    refused(&file(&[("t", view(0, &huge, &huge))]), ErrorKind::Format, "2^64");
}

#[test]
fn refuses_storages_of_another_length_and_missing_ones() {
    let mut shorter = members(&dictionary(&[("t", view(0, &[12], &[1]))]));
    shorter[2] = Member::stored("m/data/0", &[0; 44]);
    refused(&archive(&shorter), ErrorKind::Format, "should have 12 elements of F32, but has 44 bytes");
    shorter.remove(2);
    refused(&archive(&shorter), ErrorKind::Format, "no member \"0\"");
    let twice = [text("t"), view(0, &[12], &[1]), text("t"), view(0, &[12], &[1])].concat();
    refused(&archive(&members(&[b"}(", &twice[..], b"u"].concat())), ErrorKind::Format, "occurs twice");
}

#[test]
fn big_endian_storages_are_decoded() {
    let mut members = members(&dictionary(&[("t", view(0, &[12], &[1]))]));
    members[1] = Member::stored("m/byteorder", b"big");
    assert_eq!(tensor(&archive(&members), "t").components[0].encoding, Encoding::BigEndian);
    members[1] = Member::stored("m/byteorder", b"middle");
    refused(&archive(&members), ErrorKind::Unsupported, "byte order");
}

#[test]
fn deflated_storages_are_read_as_far_as_possible() {
    let mut members = members(&dictionary(&[
        ("whole", view(0, &[12], &[1])),
        ("end", view(4, &[8], &[1])),
        ("begin", view(0, &[4], &[1])),
    ]));
    members[0] = Member::deflated("m/data.pkl", &members[0].stored.clone());
    members[2] = Member::deflated("m/data/0", &[7; 48]);
    let file = archive(&members);
    assert_eq!(tensor(&file, "whole").components[0].encoding, Encoding::Deflate { skipped: 0.into() });
    assert_eq!(tensor(&file, "end").components[0].encoding, Encoding::Deflate { skipped: 16.into() });
    let index = parsed(&file).unwrap();
    assert!(
        index.tensors.len() == 2 && index.warnings[0].contains("begin (a part of a storage"),
        "{:?}",
        index.warnings
    );
}

#[test]
fn archives_without_a_pickle_are_no_checkpoints() {
    refused(&archive(&[Member::stored("a.txt", b"x")]), ErrorKind::Unsupported, "a ZIP archive");
    #[cfg(feature = "npz")]
    {
        let array = crate::format::npy::tests::array("'|u1'", "False", "(1,)", &[1]);
        let index = parsed(&archive(&[Member::stored("README", b""), Member::stored("a.npy", &array)])).unwrap();
        assert_eq!((index.format, index.tensors.name(0)), ("npz", "a"));
    }
}

#[test]
fn cycles_and_shared_values_end() {
    let cycle =
        [b"}q\0".to_vec(), text("self"), b"h\0s".to_vec(), text("t"), view(0, &[12], &[1]), b"s".to_vec()].concat();
    assert_eq!(parsed(&archive(&members(&cycle))).unwrap().tensors.len(), 1);
    // Each list contains the one before twice.
    let mut doubling = b"]q\0".to_vec();
    for at in 0..60u8 {
        doubling.extend([b']', b'q', at + 1, b'(', b'h', at, b'h', at, b'e']);
    }
    refused(&archive(&members(&doubling)), ErrorKind::Limit, "need more than");
    let deep = [b"]".repeat(200), b"a".repeat(199)].concat();
    refused(&archive(&members(&deep)), ErrorKind::Limit, "128 levels");
}

/// Two numbers, the sizes of types, what was saved, and the keys.
fn legacy(saved: &[u8], keys: &[&str], storages: &[u8]) -> Vec<u8> {
    let keys: Vec<_> = keys.iter().map(|key| text(key)).collect();
    [
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.\x80\x02",
        saved,
        b".\x80\x02](",
        &keys.concat(),
        b"e.",
        storages,
    ]
    .concat()
}

#[test]
fn old_files_have_their_storages_one_after_another() {
    let saved = dictionary(&[("t", view(4, &[8], &[1]))]);
    let storages = [&12u64.to_le_bytes()[..], &[9; 48]].concat();
    let file = legacy(&saved, &["0"], &storages);
    assert_eq!(format::detect(&file).map(|format| format.name), Some("pytorch"));
    assert_eq!(bytes(&file, &tensor(&file, "t")), [9; 32]);
    let wrong = legacy(&saved, &["0"], &[&13u64.to_le_bytes()[..], &[9; 48]].concat());
    refused(&wrong, ErrorKind::Format, "its own count is 13");
    refused(&file[..file.len() - 1], ErrorKind::Truncated, "should end at");
    refused(&[&file[..], &[0]].concat(), ErrorKind::Format, "should end at");
    refused(&file[..60], ErrorKind::Truncated, "before a pickle of it does");
    refused(&legacy(&saved, &["1"], &storages), ErrorKind::Format, "whose size it does not state");
    refused(&legacy(&saved, &[], &[]), ErrorKind::Format, "no storage for it");
}

/// An archive as PyTorch writes it, in which the local headers are not read.
#[test]
fn an_index_of_many_large_tensors_takes_few_requests() {
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pytorch/checkpoint.ckpt")).unwrap();
    let mut window = Window::new(Some(file.len() as u64));
    let mut read = 0;
    let index = loop {
        match parse(&window) {
            Ok(Parsed::File(index)) => break index,
            Err(Stop::Need(range)) => {
                read += range.end - range.start;
                window.insert(range.start, &file[range.start as usize..range.end as usize]);
            }
            other => panic!("{other:?}"),
        }
    };
    let data: u64 = index.tensors.range(0).start;
    assert!(window.known(&(data..data + 1)).is_none() && read < file.len() as u64, "no tensor is read");
}
