//! Archives of NumPy and checkpoints of PyTorch that are made to exhaust memory or time.

use super::alone;
use super::ceiling::{assert_rejected, read};
use weightstream::ErrorKind;

/// An archive of stored members.
fn archive(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let mut fields = vec![0; 10];
        fields.extend(crc32fast::hash(content).to_le_bytes());
        fields.extend((content.len() as u32).to_le_bytes().repeat(2));
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0; 2]);
        directory.extend(b"PK\x01\x02\0\0");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend((file.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&fields);
        file.extend(name.as_bytes());
        file.extend(content);
    }
    let start = file.len() as u32;
    let count = (members.len() as u16).to_le_bytes();
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    file
}

/// A checkpoint with this pickle, and with the storage "0" of `length` bytes.
fn checkpoint(pickled: &[u8], length: usize) -> Vec<u8> {
    let pickled = [b"\x80\x02", pickled, b"."].concat();
    archive(&[("m/data.pkl".to_owned(), pickled), ("m/data/0".to_owned(), vec![7; length])])
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A call that creates a tensor of bytes: a view of the storage "0" from `offset` on.
fn view(storage_bytes: u32, offset: u32, length: u32) -> Vec<u8> {
    let number = |number: u32| [b"J", &number.to_le_bytes()[..]].concat();
    let id =
        [text("storage"), b"ctorch\nByteStorage\n".to_vec(), text("0"), text("cpu"), number(storage_bytes)].concat();
    let arguments = [
        &[b"(", &id[..], b"tQ"].concat()[..],
        &number(offset),
        &[&number(length)[..], b"\x85"].concat(),
        b"K\x01\x85\x89N",
    ];
    [b"ctorch._utils\n_rebuild_tensor_v2\n(", &arguments.concat()[..], b"tR"].concat()
}

#[test]
fn pickles_that_grow_in_memory_are_rejected() {
    let _alone = alone();
    let bombs = [
        ("lists.pt", b"]".repeat(6 << 20)),
        ("objects.pt", [&b"ca\nb\n"[..], &b")R".repeat(3 << 20)].concat()),
        ("memo.pt", [&b"N"[..], &b"\x94".repeat(10 << 20)].concat()),
        ("stack.pt", b"N".repeat(10 << 20)),
        ("marks.pt", b"(".repeat(10 << 20)),
        ("entries.pt", [&b"}("[..], &b"K\x01K\x02".repeat(2 << 20), b"u"].concat()),
        ("shared.pt", [&b"]q\0"[..], &b"]q\x01(h\0h\0eh\x01q\0".repeat(300)].concat()),
    ];
    for (name, pickled) in bombs {
        let (streamed, _) = read(name, checkpoint(&pickled, 0));
        assert!(streamed.is_err(), "{name}");
    }
    // A short pickle in a large file has no more memory than its own length allows.
    assert_rejected("padded.pt", ErrorKind::Limit, checkpoint(&b"]".repeat(3 << 20), 1 << 20));
}

#[test]
fn old_files_whose_pickles_grow_in_memory_are_rejected() {
    let _alone = alone();
    let head = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.\x80\x02";
    for bomb in [&b"]"[..], b"N\x94", b"("] {
        let (streamed, _) = read("old.pt", [head, &bomb.repeat(6 << 20)[..]].concat());
        assert!(streamed.is_err(), "{bomb:?}");
    }
}

#[test]
fn views_of_the_same_bytes_are_limited() {
    let _alone = alone();
    let length = 1 << 20;
    let mut pickled = b"}(".to_vec();
    for at in 0..4000 {
        pickled.extend(text(&at.to_string()));
        pickled.extend(view(length, at, length - 4000));
    }
    pickled.push(b'u');
    let error = assert_rejected("views.pt", ErrorKind::Limit, checkpoint(&pickled, length as usize));
    assert!(error.what.contains("are views of"), "{error}");
}

#[test]
fn one_tensor_under_many_names_stays_within_the_limits() {
    let _alone = alone();
    let mut pickled = [view(64, 0, 64), b"q\x00}(".to_vec()].concat();
    for at in 0..100_000 {
        pickled.extend(text(&format!("{at:x}")));
        pickled.extend(b"h\0");
    }
    pickled.extend(b"u");
    _ = read("names.pt", checkpoint(&pickled, 64));
}

#[test]
fn archives_of_many_small_members_stay_within_the_limits() {
    let _alone = alone();
    let header = b"\x93NUMPY\x01\0\x36\0{'descr': '|u1', 'fortran_order': False, 'shape': ()}\n";
    let members: Vec<_> = (0..30_000).map(|at| (format!("{at:x}.npy"), [&header[..], &[1]].concat())).collect();
    _ = read("many.npz", archive(&members));
    let members: Vec<_> = (0..60_000).map(|at| (format!("{at:x}"), Vec::new())).collect();
    _ = read("others.npz", archive(&[&[("a.npy".to_owned(), [&header[..], &[1]].concat())], &members[..]].concat()));
}
