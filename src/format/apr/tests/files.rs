//! Builds APR files of each layout.

use crate::error::{Error, Result};
use crate::format;
use crate::index::{Algorithm, Index, Parsed};
use crate::loader::{Loader, Options, TensorRequest};
use crate::source::memory::MemorySource;
use crate::window::{Stop, Window};
use futures::executor::block_on;
use std::ops::Range;
use std::rc::Rc;

/// An entry of the index, and the bytes of its tensor.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) dtype: u8,
    pub(crate) shape: Vec<u64>,
    pub(crate) stored: Vec<u8>,
    /// Used only in the specification's layout.
    pub(crate) raw_size: u64,
}

impl Entry {
    pub(crate) fn new(name: &'static str, dtype: u8, shape: &[u64], stored: Vec<u8>) -> Self {
        Entry { name, dtype, shape: shape.to_vec(), stored, raw_size: 0 }
    }

    fn write(&self, offset: usize, out: &mut Vec<u8>) {
        out.extend((self.name.len() as u16).to_le_bytes());
        out.extend(self.name.as_bytes());
        out.extend([self.dtype, self.shape.len() as u8]);
        out.extend(self.shape.iter().flat_map(|dim| dim.to_le_bytes()));
        out.extend((offset as u64).to_le_bytes());
        out.extend((self.stored.len() as u64).to_le_bytes());
    }
}

/// The specification's layout.
pub(crate) fn draft(flags: u32, entries: &[Entry]) -> Vec<u8> {
    draft_with(r#"{"model_type":"test"}"#, flags, entries)
}

/// The specification's layout with this metadata.
pub(crate) fn draft_with(metadata: &str, flags: u32, entries: &[Entry]) -> Vec<u8> {
    let (mut index, data) = index_and_data(entries, |entry, index| {
        index.extend(entry.raw_size.to_le_bytes());
        index.extend([0; 4]);
    });
    index.splice(0..0, [(entries.len() as u32).to_le_bytes(), [0; 4]].concat());
    let index_offset = 32 + metadata.len();
    let data_offset = (index_offset + index.len()).next_multiple_of(64);

    let mut file = b"APR2\x02\0\0\0".to_vec();
    file.extend(flags.to_le_bytes());
    for field in [32, metadata.len(), index_offset, index.len(), data_offset] {
        file.extend((field as u32).to_le_bytes());
    }
    file.extend(metadata.as_bytes());
    file.extend(index);
    file.resize(data_offset, 0);
    file.extend(data);
    close(file)
}

/// Appends the footer of the specification.
fn close(mut file: Vec<u8>) -> Vec<u8> {
    let file_length = file.len() as u64 + 16;
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file.extend(b"2RPA");
    file.extend(file_length.to_le_bytes());
    file
}

/// The sections after the header, for [`sections_in_order`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Section {
    Metadata,
    Index,
    Data,
}

/// The specification's layout, or with a magic that of the tools, with the sections in this order.
pub(crate) fn sections_in_order(shipped: Option<&[u8; 4]>, order: [Section; 3], entries: &[Entry]) -> Vec<u8> {
    let metadata = b"{\"model_type\":\"test\"}".to_vec();
    let (mut index, data) = index_and_data(entries, |entry, index| {
        if shipped.is_none() {
            index.extend(entry.raw_size.to_le_bytes());
            index.extend([0; 4]);
        }
    });
    if shipped.is_none() {
        index.splice(0..0, [(entries.len() as u32).to_le_bytes(), [0; 4]].concat());
    }
    let mut file = vec![0; 64];
    let mut place = |wanted: Section| {
        let before = order.iter().take_while(|section| **section != wanted).map(|section| match section {
            Section::Metadata => metadata.len(),
            Section::Index => index.len(),
            Section::Data => data.len(),
        });
        64 + before.map(|length| length.next_multiple_of(64)).sum::<usize>()
    };
    let offsets = [Section::Metadata, Section::Index, Section::Data].map(&mut place);
    for section in order {
        file.extend(match section {
            Section::Metadata => &metadata,
            Section::Index => &index,
            Section::Data => &data,
        });
        file.resize(file.len().next_multiple_of(64), 0);
    }
    let mut head = shipped.unwrap_or(b"APR2").to_vec();
    match shipped {
        Some(_) => {
            head.extend([2, 0, 0, 0]);
            head.extend((entries.len() as u32).to_le_bytes());
            head.extend((offsets[0] as u64).to_le_bytes());
            head.extend((metadata.len() as u32).to_le_bytes());
            head.extend([offsets[1], offsets[2]].map(|offset| (offset as u64).to_le_bytes()).concat());
        }
        None => {
            head.extend([2, 0, 0, 0, 0, 0, 0, 0]);
            let fields = [offsets[0], metadata.len(), offsets[1], index.len(), offsets[2]];
            head.extend(fields.map(|field| (field as u32).to_le_bytes()).concat());
        }
    }
    file[..head.len()].copy_from_slice(&head);
    if shipped.is_some() {
        seal(&mut file);
        file.extend(crc32fast::hash(&file).to_le_bytes());
        return file;
    }
    close(file)
}

/// The layout that the tools write.
pub(crate) fn shipped(magic: &[u8; 4], flags: u16, entries: &[Entry]) -> Vec<u8> {
    let metadata = b"{\"model_type\":\"test\"}";
    let (index, data) = index_and_data(entries, |_, _| {});
    let data_offset = (128 + index.len()).next_multiple_of(64);

    let mut file = magic.to_vec();
    file.extend([2, 0]);
    file.extend(flags.to_le_bytes());
    file.extend((entries.len() as u32).to_le_bytes());
    file.extend(64u64.to_le_bytes());
    file.extend((metadata.len() as u32).to_le_bytes());
    file.extend(128u64.to_le_bytes());
    file.extend((data_offset as u64).to_le_bytes());
    file.resize(64, 0);
    file.extend(metadata);
    file.resize(128, 0);
    file.extend(index);
    file.resize(data_offset, 0);
    file.extend(data);
    seal(&mut file);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file
}

/// Writes the correct checksum into a header of 64 bytes.
pub(crate) fn seal(file: &mut [u8]) {
    let crc = crc32fast::hash(&[&file[..40], &file[44..64]].concat());
    file[40..44].copy_from_slice(&crc.to_le_bytes());
}

/// Builds an APR1 file of one tensor, `t`, with four numbers.
pub(crate) fn apr1() -> Vec<u8> {
    let (metadata, index) = (b"{\"a\":1}", br#"[{"name":"t","dtype":"F32","shape":[2,2],"offset":0,"size":16}]"#);
    let mut file = b"APR1".to_vec();
    file.extend((metadata.len() as u32).to_le_bytes());
    file.extend(metadata);
    file.extend(1u32.to_le_bytes());
    file.extend((index.len() as u32).to_le_bytes());
    file.extend(index);
    file.extend(0..16u8);
    file.extend(crc32fast::hash(&file).to_le_bytes());
    file
}

/// Wraps a file in the LZ4 wrapper.
pub(crate) fn packed(file: &[u8]) -> Vec<u8> {
    let mut packed = b"APR\0\x01".to_vec();
    packed.extend((file.len() as u32).to_le_bytes());
    packed.extend(lz4_flex::compress_prepend_size(file));
    packed
}

fn index_and_data(entries: &[Entry], more: impl Fn(&Entry, &mut Vec<u8>)) -> (Vec<u8>, Vec<u8>) {
    let (mut index, mut data) = (Vec::new(), Vec::new());
    for entry in entries {
        entry.write(data.len(), &mut index);
        more(entry, &mut index);
        data.extend(&entry.stored);
        data.resize(data.len().next_multiple_of(64), 0);
    }
    (index, data)
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Index> {
    match format::parse(&Window::whole(bytes)) {
        Ok(Parsed::File(index)) => Ok(index),
        Err(Stop::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn refused(bytes: &[u8]) -> Error {
    parse(bytes).unwrap_err()
}

pub(crate) fn open(bytes: Vec<u8>) -> Result<Rc<Loader<MemorySource>>> {
    let source = MemorySource::new(vec![("m.apr".to_owned(), bytes.into())])?;
    block_on(Loader::open(source, Options::default())).map(Rc::new)
}

pub(crate) fn load(loader: &Rc<Loader<MemorySource>>, name: &str, rows: Option<Range<u64>>) -> Result<Vec<u8>> {
    let loaded = block_on(loader.load_tensor(name, TensorRequest::default().with_rows(rows), Rc::new(())))?;
    Ok(loaded.components.into_iter().next().unwrap().buffer)
}

pub(crate) fn verify(bytes: Vec<u8>) -> Result<Option<Algorithm>> {
    block_on(open(bytes)?.verify(Rc::new(())))
}
