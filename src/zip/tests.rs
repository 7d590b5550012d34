use super::{Archive, Entry};
use crate::codec::crc32;
use crate::error::{Error, ErrorKind, Result};
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use miniz_oxide::deflate::compress_to_vec;
use proptest::prelude::*;
use std::ops::Range;

/// A member of an archive to build.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) stored: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) crc32: u32,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) local_extra: Vec<u8>,
    /// Whether lengths and offset are in ZIP64 fields, as NumPy writes them.
    pub(crate) is_zip64: bool,
    /// The offset in the directory, in place of the actual one.
    pub(crate) offset: Option<u32>,
}

impl Member {
    pub(crate) fn stored(name: &str, content: &[u8]) -> Self {
        Member {
            name: name.to_owned(),
            stored: content.to_vec(),
            length: content.len() as u64,
            crc32: crc32::checksum(content),
            method: 0,
            flags: 0,
            local_extra: Vec::new(),
            is_zip64: false,
            offset: None,
        }
    }

    pub(crate) fn deflated(name: &str, content: &[u8]) -> Self {
        Member { stored: compress_to_vec(content, 6), method: 8, ..Member::stored(name, content) }
    }
}

/// Builds an archive of these members.
pub(crate) fn archive(members: &[Member]) -> Vec<u8> {
    archive_with(members, b"", b"")
}

pub(crate) fn archive_with(members: &[Member], before: &[u8], comment: &[u8]) -> Vec<u8> {
    let (mut file, mut directory) = (before.to_vec(), Vec::new());
    for member in members {
        let offset = member.offset.unwrap_or((file.len() - before.len()) as u32);
        let (stored, length) = (member.stored.len() as u64, member.length);
        let zip64 = [&[1, 0, 16, 0][..], &length.to_le_bytes(), &stored.to_le_bytes()].concat();
        let lengths = |is_zip64: bool| if is_zip64 { [u32::MAX; 2] } else { [stored as u32, length as u32] };
        let fixed = |lengths: [u32; 2]| {
            let mut fields = [member.flags.to_le_bytes(), member.method.to_le_bytes()].concat();
            fields.extend([0; 4]);
            fields.extend(member.crc32.to_le_bytes());
            lengths.iter().for_each(|length| fields.extend(length.to_le_bytes()));
            fields.extend((member.name.len() as u16).to_le_bytes());
            fields
        };
        let extra = [if member.is_zip64 { &zip64[..] } else { &[] }, &member.local_extra].concat();
        file.extend(b"PK\x03\x04\x14\0");
        file.extend(fixed(lengths(member.is_zip64)));
        file.extend((extra.len() as u16).to_le_bytes());
        file.extend(member.name.as_bytes());
        file.extend(extra);
        file.extend(&member.stored);
        if member.flags & 8 != 0 {
            file.extend(b"PK\x07\x08");
            file.extend(member.crc32.to_le_bytes());
            lengths(false).iter().for_each(|length| file.extend(length.to_le_bytes()));
        }
        directory.extend(b"PK\x01\x02\x14\0\x14\0");
        directory.extend(fixed(lengths(member.is_zip64)));
        directory.extend(if member.is_zip64 { [20, 0] } else { [0, 0] });
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(member.name.as_bytes());
        directory.extend(if member.is_zip64 { &zip64[..] } else { &[] });
    }
    let start = (file.len() - before.len()) as u32;
    let count = (members.len() as u16).to_le_bytes();
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend((comment.len() as u16).to_le_bytes());
    file.extend(comment);
    file
}

fn read(file: &[u8]) -> Result<Archive> {
    failed(Archive::read(&Window::whole(file)))
}

fn failed<T>(outcome: Result<T, Stop>) -> Result<T> {
    outcome.map_err(|stop| match stop {
        Stop::Failed(error) => error,
        stop => panic!("a whole file needs more: {stop:?}"),
    })
}

fn content(file: &[u8], entry: &Entry) -> Result<Vec<u8>> {
    let window = Window::whole(file);
    failed(entry.content(&window, 1 << 20, &mut Budget::new(1 << 20)).map(|content| content.into_owned()))
}

fn contents(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let archive = read(file).unwrap();
    archive.entries.iter().map(|entry| (entry.name.to_string(), content(file, entry).unwrap())).collect()
}

fn refused(file: &[u8], kind: ErrorKind, what: &str) -> Error {
    let error =
        read(file).and_then(|archive| archive.entries.iter().try_for_each(|entry| content(file, entry).map(drop)));
    let error = error.unwrap_err();
    assert!(error.kind == kind && error.what.contains(what), "{error}");
    error
}

fn two() -> [Member; 2] {
    [Member::stored("a/data.pkl", &[1; 200]), Member::deflated("b", &[2; 3000])]
}

fn expected() -> Vec<(String, Vec<u8>)> {
    vec![("a/data.pkl".to_owned(), vec![1; 200]), ("b".to_owned(), vec![2; 3000])]
}

#[test]
fn reads_stored_and_deflated_entries_in_every_layout() {
    assert_eq!(contents(&archive(&two())), expected());
    let with = |change: &dyn Fn(&mut Member)| {
        let mut members = two();
        members.iter_mut().for_each(change);
        archive(&members)
    };
    assert_eq!(contents(&with(&|member| member.is_zip64 = true)), expected(), "ZIP64 fields");
    assert_eq!(contents(&with(&|member| member.flags = 0x808)), expected(), "descriptors");
    assert_eq!(contents(&with(&|member| member.local_extra = vec![0; 63])), expected(), "other local extra fields");
    assert_eq!(contents(&archive_with(&two(), &[0; 777], b"")), expected(), "bytes before the archive");
    assert_eq!(contents(&archive_with(&two(), b"PK\x05\x06", &[b'x'; 0xffff])), expected(), "a comment");
    let end_in_comment = [b"PK\x05\x06", &[0; 30][..]].concat();
    assert_eq!(contents(&archive_with(&two(), b"", &end_in_comment)), expected());
}

#[test]
fn reads_zip64_end_records() {
    let mut file = archive(&two());
    let end = file.split_off(file.len() - 22);
    let [length, start] = [12, 16].map(|at| u32::from_le_bytes(end[at..at + 4].try_into().unwrap()));
    let at = file.len() as u64;
    file.extend(b"PK\x06\x06");
    file.extend(44u64.to_le_bytes());
    file.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for value in [2, 2, u64::from(length), u64::from(start)] {
        file.extend(value.to_le_bytes());
    }
    file.extend(b"PK\x06\x07\0\0\0\0");
    file.extend(at.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    file.extend(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
    file.extend([0xff; 8]);
    file.extend([0, 0]);
    assert_eq!(contents(&file), expected());
}

#[test]
fn refuses_an_entry_that_overlaps_another() {
    let mut members = two();
    members[1].offset = Some(100);
    refused(&archive(&members), ErrorKind::Format, "reaches to 230, into \"b\" at 100");
    members[1].offset = Some(0);
    refused(&archive(&members), ErrorKind::Format, "reaches to");
    let mut long = two();
    long[0].local_extra = vec![0; 9];
    let mut file = archive(&long);
    file[28] = 200; // the local header claims more extra fields than fit
    refused(&file, ErrorKind::Format, "reaches into what is at");
}

#[test]
fn refuses_entries_beyond_the_file_and_directories_larger_than_it() {
    let mut members = two();
    members[1].offset = Some(1 << 30);
    refused(&archive(&members), ErrorKind::Format, "reaches to");
    let mut file = archive(&two());
    let at = file.len() - 10;
    file[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(&file, ErrorKind::Limit, "directory");
    file[at..at + 4].copy_from_slice(&1_000_000u32.to_le_bytes());
    refused(&file, ErrorKind::Format, "it must end at");
    let mut file = archive(&two());
    let at = file.len() - 14;
    file[at..at + 4].copy_from_slice(&[0xff; 4]);
    refused(&file, ErrorKind::Format, "claims 65535 entries");
}

#[test]
fn refuses_what_it_cannot_decode_only_when_it_is_needed() {
    for (change, what) in [(0x1u16, "is encrypted"), (0x40, "is encrypted")] {
        let mut members = two();
        members[1].flags = change;
        let file = archive(&members);
        assert_eq!(content(&file, &read(&file).unwrap().entries[0]).unwrap(), [1; 200]);
        refused(&file, ErrorKind::Unsupported, what);
    }
    let mut members = two();
    members[1].method = 14;
    refused(&archive(&members), ErrorKind::Unsupported, "with the method 14");
}

#[test]
fn detects_damaged_content_and_foreign_headers() {
    let mut members = two();
    members[0].crc32 ^= 1;
    refused(&archive(&members), ErrorKind::Checksum, "CRC-32");
    let mut members = two();
    members[1].length = 2999;
    refused(&archive(&members), ErrorKind::Format, "DEFLATE");
    members[1].length = 1 << 24;
    refused(&archive(&members), ErrorKind::Limit, "the limit is");
    let mut file = archive(&two());
    file[30] = b'x';
    refused(&file, ErrorKind::Format, "no local header of its own");
}

#[test]
fn a_bomb_is_refused_before_it_is_decoded() {
    let mut member = Member::deflated("bomb", &[0; 1 << 16]);
    member.length = 1 << 20;
    refused(&archive(&[member]), ErrorKind::Format, "cannot decode to");
}

#[test]
fn truncated_archives_are_reported_as_such() {
    let file = archive(&two());
    for length in [0, 21, 100, file.len() - 1] {
        refused(&file[..length], ErrorKind::Truncated, "end record");
    }
}

#[test]
fn computes_the_offset_of_aligned_data_only_if_it_is_certain() {
    let aligned = |name: &str, content: &[u8], at: u64| {
        let header = 30 + name.len() as u64 + 4;
        let padding = (at + header).next_multiple_of(64) - at - header;
        let local_extra = [b"FB", &(padding as u16).to_le_bytes()[..], &vec![b'Z'; padding as usize]].concat();
        Member { local_extra, flags: 0x808, ..Member::stored(name, content) }
    };
    let first = aligned("m/data/0", &[1; 100], 0);
    let next = 64 + 100 + 16;
    let file = archive(&[first.clone(), aligned("m/data/1", &[2; 64], next)]);
    let window = Window::whole(&file);
    for entry in read(&file).unwrap().entries {
        assert_eq!(entry.aligned_data(64), Some(entry.data(&window).unwrap()));
        assert_eq!(entry.aligned_data(4096), None);
    }
    let unaligned = Member { local_extra: vec![0; 7], ..first };
    assert_eq!(read(&archive(&[unaligned])).unwrap().entries[0].aligned_data(64), None);
}

#[test]
fn a_directory_takes_three_requests_at_most() {
    let members: Vec<_> = (0..3000).map(|at| Member::stored(&format!("{at}.npy"), &[7; 2000])).collect();
    let file = archive_with(&members, b"", b"comment");
    let (mut window, mut requests) = (Window::new(Some(file.len() as u64)), 0);
    let archive = loop {
        match Archive::read(&window) {
            Ok(archive) => break archive,
            Err(Stop::Need(range)) => {
                window.insert(range.start, &file[range.start as usize..range.end as usize]);
                requests += 1;
            }
            Err(stop) => panic!("{stop:?}"),
        }
    };
    assert!(archive.entries.len() == 3000 && requests <= 3, "{requests}");
}

proptest! {
    #[test]
    fn damaged_archives_cause_no_panic(
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in 0usize..40,
    ) {
        let mut members = two();
        members[0].is_zip64 = true;
        let mut file = archive_with(&members, b"", b"x");
        for (at, byte) in damages {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(file.len() - cut / 4);
        if let Ok(archive) = read(&file) {
            for entry in &archive.entries {
                let ranges: [Range<u64>; 2] = [entry.head(512), entry.aligned_data(64).unwrap_or(0..0)];
                prop_assert!(ranges.iter().all(|range| range.start <= range.end && range.end <= file.len() as u64));
                _ = content(&file, entry);
            }
        }
    }
}
