//! Rules that readers rarely check: sparse indices, padding and reserved fields.

use super::Folder;
use super::bad_input::rejected;
use futures::executor::block_on;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weightstream::ErrorKind::Format;
use weightstream::internals::index::Algorithm;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rules").join(name)
}

fn loader(name: &str, options: Options) -> Rc<Loader<MemorySource>> {
    let files = vec![(name.to_owned(), fs::read(path(name)).unwrap().into())];
    Rc::new(block_on(Loader::open(MemorySource::new(files).unwrap(), options)).unwrap())
}

/// Files that open, but whose indices are wrong, with their tensor and the error.
const WRONG_INDICES: [(&str, &str, &str); 6] = [
    ("sparse_index.zt", "rows", "element 1 of `indices` is 5, but must be below 5"),
    ("sparse_negative.zt", "rows", "element 1 of `indices` is negative"),
    ("sparse_first.zt", "rows", "element 0 of `indptr` is 1, but must be 0"),
    ("sparse_order.zt", "rows", "element 2 of `indptr` is 2, but must not be below the previous one, 3"),
    ("sparse_last.zt", "rows", "element 3 of `indptr` is 3, but must be 4, the number of values"),
    ("sparse_coords.zt", "points", "element 1 of `coords` is 2, but must be below 2"),
];

#[test]
fn wrong_indices_of_sparse_tensors_are_rejected() {
    for (name, tensor, text) in WRONG_INDICES {
        rejected(vec![(name, fs::read(path(name)).unwrap())], Format, text);

        let error = Reader::open(path(name)).unwrap().load_tensor(tensor).unwrap_err();
        assert_eq!(error.kind, Format, "{error}");
        let load = |options| {
            let loader = loader(name, options);
            block_on(async { loader.load_tensor(tensor, TensorRequest::default(), Rc::new(())).await })
        };
        let error = load(Options::default()).unwrap_err();
        assert!(error.kind == Format && error.what.contains(text), "{error}");
        let unverified = load(Options::default().with_verify(false)).unwrap();
        assert_eq!(unverified.verified, None, "{name}");
    }
}

#[test]
fn valid_indices_of_sparse_tensors_are_accepted() {
    for name in ["sparse_valid.zt", "sparse_valid_i64.zt", "sparse_valid_coo.zt"] {
        assert!(Reader::open(path(name)).unwrap().verify(&()).is_ok(), "{name}");
        assert_eq!(
            block_on(loader(name, Options::default()).verify(Rc::new(()))),
            Ok(Some(Algorithm::Sha256)),
            "{name}"
        );
    }
}

#[test]
fn counts_of_sparse_tensors_are_checked_when_a_file_is_opened() {
    for (name, text) in [
        ("sparse_rows.zt", "`indptr` has 24 bytes of U64, but its tensor needs 32"),
        ("sparse_count.zt", "it has 4 values but 3 indices; each needs 1"),
    ] {
        let error = Reader::open(path(name)).unwrap_err();
        assert!(error.kind == Format && error.to_string().contains(text), "{error}");
    }
}

#[test]
fn padding_that_is_not_zero_is_a_warning_of_verify() {
    let warning = "108 bytes of padding are not zero, although the format requires it; the first is byte 8";
    let reader = Reader::open(path("padding.zt")).unwrap();
    assert_eq!(reader.warnings().count(), 0);
    let verified = reader.verify(&()).unwrap();
    assert_eq!(verified.warnings, [(path("padding.zt").to_str().unwrap().to_owned(), warning.to_owned())]);

    let opened = loader("padding.zt", Options::default());
    assert_eq!(block_on(opened.warnings()), Ok(vec![]));
    assert_eq!(block_on(opened.verify(Rc::new(()))), Ok(Some(Algorithm::Sha256)));
    let expected = vec![("padding.zt".to_owned(), warning.to_owned())];
    assert_eq!(block_on(opened.warnings()), Ok(expected.clone()));
    assert_eq!(block_on(opened.verify_in_detail(Rc::new(()))).unwrap().warnings, expected);

    assert_eq!(Reader::open(path("padding_zero.zt")).unwrap().verify(&()).unwrap().warnings, []);
}

#[test]
fn reserved_fields_that_are_not_zero_are_warnings() {
    let warnings = |name: &str| {
        let reader = Reader::open(path(name)).unwrap();
        reader.verify(&()).unwrap();
        reader.warnings().map(|(_, warning)| warning.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(warnings("reserved.aero"), ["3 reserved fields are not zero, although the format requires it"]);
    let flags = "the reserved flags 0x30 are set; version 1.0 requires 0";
    assert_eq!(warnings("reserved.weights"), [flags, "the reserved field of the header is not zero"]);
}

#[test]
fn files_without_padding_have_no_warnings() {
    let folder = Folder::new();
    folder.write("m.safetensors", &super::bytes::safetensors(None, &[("a", "U8", &[1], vec![1])]));
    assert_eq!(folder.open("m.safetensors").verify(&()).unwrap().warnings, []);
}
