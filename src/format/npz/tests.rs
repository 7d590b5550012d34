use super::parse::parse;
use crate::codec::crc32;
use crate::error::{Error, ErrorKind};
use crate::format;
use crate::format::npy::tests::array;
use crate::index::{Digest, DigestedBytes, Encoding, Index, Layout, Parsed};
use crate::window::{Stop, Window};
use crate::zip::tests::{Member, archive, archive_with};

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

fn floats() -> Vec<u8> {
    array("'<f4'", "False", "(2, 3)", &[7; 24])
}

#[test]
fn checksums_cover_the_elements_of_stored_and_deflated_members() {
    let file = archive(&[Member::stored("a.npy", &floats()), Member::deflated("b/c.npy", &floats())]);
    let index = parsed(&file).unwrap();
    assert_eq!(index.tensors.names().collect::<Vec<_>>(), ["a", "b/c"]);
    let [stored, deflated] = [0, 1].map(|at| index.tensors.get(at).unwrap().components[0].clone());
    let digest = Digest::Crc32(crc32::checksum(&[7; 24]));
    assert_eq!(stored.digest.map(|stated| (stated.digest, stated.over)), Some((digest, DigestedBytes::Stored)));
    assert_eq!(deflated.digest.map(|stated| (stated.digest, stated.over)), Some((digest, DigestedBytes::Decoded)));
    assert_eq!(deflated.encoding, Encoding::Deflate { skipped: 128.into() });
    assert_eq!(file[stored.range.start as usize..stored.range.end as usize], [7; 24]);
    assert_eq!(format::detect(&file).map(|format| format.name), Some("npz"));
}

#[test]
fn arrays_that_cannot_be_read_leave_the_others() {
    let file = archive(&[
        Member::stored("objects.npy", &array("'|O'", "False", "(1,)", b"pickle")),
        Member::stored("fields.npy", &array("[('a', '<f4')]", "False", "(1,)", &[0; 4])),
        Member::stored("good.npy", &floats()),
        Member::stored("columns.npy", &array("'<f4'", "True", "(2, 3)", &[7; 24])),
        Member::deflated("big.npy", &array("'>f4'", "False", "(6,)", &[7; 24])),
        Member::stored("bfloat16.npy", &array("'<V2'", "False", "(12,)", &[7; 24])),
        Member::stored("notes.txt", b"hello"),
        Member::stored("folder/", b""),
    ]);
    let index = parsed(&file).unwrap();
    assert_eq!(index.tensors.names().collect::<Vec<_>>(), ["good", "columns", "big", "bfloat16"]);
    assert_eq!(index.tensors.get(1).unwrap().layout, Layout::Other("strided".into()));
    assert_eq!(index.tensors.get(2).unwrap().dtype.name(), "big-endian F32");
    let warnings = index.warnings.join("\n");
    for expected in [
        "columns: in Fortran order",
        "bfloat16: the file states only the size",
        "big: big-endian and compressed",
        "objects (Python objects, which are pickled), fields (a structured dtype",
        "notes.txt: no arrays",
    ] {
        assert!(warnings.contains(expected), "{warnings}");
    }
}

#[test]
fn refuses_members_that_are_no_arrays_of_their_length() {
    refused(&archive(&[Member::stored("a.npy", b"text")]), ErrorKind::Truncated, "only 4 bytes");
    refused(&archive(&[Member::stored("a.npy", &[b'x'; 40])]), ErrorKind::Format, "does not begin like");
    let longer = [floats(), vec![0]].concat();
    refused(&archive(&[Member::stored("a.npy", &longer)]), ErrorKind::Format, "are not the 153 bytes");
    let twice = [Member::stored("a.npy", &floats()), Member::stored("a.npy", &floats())];
    refused(&archive(&twice), ErrorKind::Format, "occurs twice");
    let mut encrypted = Member::stored("a.npy", &floats());
    encrypted.flags = 1;
    refused(&archive(&[encrypted]), ErrorKind::Unsupported, "encrypted");
}

#[test]
fn metadata_is_the_comment_if_that_is_a_json_object() {
    let members = [Member::stored("a.npy", &floats())];
    let index = parsed(&archive_with(&members, b"", br#"{"epoch": 3}"#)).unwrap();
    assert_eq!(index.metadata.get("epoch"), Some(&3.into()));
    for comment in [&b"{broken"[..], b"made by hand"] {
        assert!(parsed(&archive_with(&members, b"", comment)).unwrap().metadata.is_empty());
    }
}

/// The requests for the index, with the 64 KiB that each reads at least.
#[test]
fn an_index_of_thousands_of_arrays_takes_few_requests() {
    let members: Vec<_> = (0..3000)
        .map(|at| {
            let member = Member::stored(&format!("layers.{at}.npy"), &array("'|u1'", "False", "(1500,)", &[7; 1500]));
            Member { is_zip64: true, ..member }
        })
        .collect();
    let file = archive(&members);
    let (mut window, mut requests) = (Window::new(Some(file.len() as u64)), 0);
    let index = loop {
        match parse(&window) {
            Ok(Parsed::File(index)) => break index,
            Err(Stop::Need(range)) => {
                let end = range.end.max(range.start + 65_536).min(file.len() as u64);
                window.insert(range.start, &file[range.start as usize..end as usize]);
                requests += 1;
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(index.tensors.len() == 3000 && requests <= 4, "{requests} requests");
}
