//! Reads the members of an archive.

use super::dtypes::OpaqueDtypes;
use crate::codec::crc32;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format::npy::array::Array;
use crate::format::npy::header::{self, Header, Reading};
use crate::format::npy::notes::Notes;
use crate::format::npy::parse::version;
use crate::index::{
    Component, ComponentDigest, Digest, DigestedBytes, Encoding, Index, Metadata, Parsed, Tensor, check_tensors,
};
use crate::values::budget::Budget;
use crate::values::json;
use crate::window::{Stop, Window};
use crate::zip::{Archive, Beginning, Entry, Method};
use std::collections::HashMap;

/// The name of the format in the registry.
pub(super) const NAME: &str = "npz";

/// The extension of members that are arrays.
pub(super) const EXTENSION: &str = ".npy";

/// The number of bytes of a member that are read first: most headers have 128.
const FIRST_BYTES: u64 = 256;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    parse_archive(window, window.resume(|| Archive::read(window), |archive| fetch_heads(window, archive))?)
}

/// Reads the arrays of an archive.
///
/// # Errors
/// As for `Archive::read`; `FORMAT` and `UNSUPPORTED` for an array that is damaged.
pub(crate) fn parse_archive(window: &Window, archive: Archive) -> Result<Parsed, Stop> {
    fetch_heads(window, &archive)?;
    let mut budget = Budget::of(window, archive.directory_length).for_tensors();
    let mut metadata = read_metadata(window, &archive, &mut budget)?;
    let dtypes = OpaqueDtypes::take(&mut metadata);
    let (mut tensors, mut notes, mut newest) = (Vec::new(), Notes::default(), [1, 0]);
    for entry in &archive.entries {
        match entry.name.strip_suffix(EXTENSION) {
            Some(name) => {
                let header = read_header(window, entry, &mut budget).map_err(|stop| in_tensor(stop, name))?;
                newest = newest.max(header.header.version);
                let tensor = header.list(name, entry, &dtypes, &mut notes).map_err(|e| e.in_tensor(name))?;
                if let Some(tensor) = tensor {
                    budget.tensor_with_attributes(&tensor)?;
                    tensors.push(tensor);
                }
            }
            None if entry.name.ends_with('/') => {} // a folder
            None => notes.ignore(&entry.name),
        }
    }
    check_tensors(&mut tensors, window.file_length())?;
    Ok(Parsed::File(Index {
        format: NAME,
        version: version(newest),
        metadata,
        long_arrays: Vec::new(),
        tensors: tensors.into(),
        warnings: notes.into_warnings(),
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}

/// Stops unless the beginnings of all arrays are known, so that they take few requests.
fn fetch_heads(window: &Window, archive: &Archive) -> Result<(), Stop> {
    let arrays = archive.entries.iter().filter(|entry| entry.name.ends_with(EXTENSION));
    let heads: Vec<_> = arrays.map(|entry| entry.head(FIRST_BYTES)).collect();
    window.ensure_scattered(&heads)
}

/// The header of an array in the archive.
struct FoundHeader<'a> {
    header: Header,
    beginning: Beginning<'a>,
}

fn read_header<'w>(window: &'w Window, entry: &Entry, budget: &mut Budget) -> Result<FoundHeader<'w>, Stop> {
    let mut wanted = FIRST_BYTES;
    loop {
        let beginning = entry.beginning(window, wanted, budget)?;
        match header::read(&beginning.bytes, entry.byte_length)? {
            Reading::Header(header) => return Ok(FoundHeader { header, beginning }),
            Reading::Needs(bytes) => wanted = bytes,
        }
    }
}

impl FoundHeader<'_> {
    /// Returns the tensor of the array; `None` if it is not listed.
    fn list(self, name: &str, entry: &Entry, dtypes: &OpaqueDtypes, notes: &mut Notes) -> Result<Option<Tensor>> {
        let FoundHeader { header, beginning: Beginning { bytes, data, method } } = self;
        let array = match Array::of(&header)? {
            Ok(array) => array.with_opaque(|bytes| dtypes.of(name, bytes)),
            Err(reason) => {
                notes.refuse(name, &reason);
                return Ok(None);
            }
        };
        let (start, length) = (header.data_start, array.byte_length);
        if start.checked_add(length) != Some(entry.byte_length) {
            let what = format!(
                "its header of {start} bytes and its elements of {length} bytes are not the {} bytes of its file in \
                 the archive",
                entry.byte_length
            );
            return Err(malformed(what).at(data));
        }
        // The checksum of header and elements is that of the header, shifted by the elements, xor that of the elements.
        let header_bytes = usize::try_from(start).ok().and_then(|end| bytes.get(..end)).unwrap_or_default();
        let digest = Digest::Crc32(entry.crc32 ^ crc32::combine(crc32::checksum(header_bytes), 0, length));
        let component = match method {
            Method::Stored => Component {
                digest: Some(ComponentDigest { digest, over: DigestedBytes::Stored }),
                ..Component::raw(Dtype::U8, data.start + start..data.end)
            },
            Method::Deflated => Component {
                encoding: Encoding::Deflate { skipped: (start as u32).into() }, // headers have at most 1 MiB
                digest: Some(ComponentDigest { digest, over: DigestedBytes::Decoded }),
                ..Component::raw(Dtype::U8, data)
            },
        };
        Ok(Some(array.noted(name, component, notes)))
    }
}

/// Reads the metadata that weightstream has written. Another comment means nothing.
fn read_metadata(window: &Window, archive: &Archive, budget: &mut Budget) -> Result<Metadata, Stop> {
    let comment = window.get(archive.comment.clone())?;
    if !comment.starts_with(b"{") {
        return Ok(Metadata::new());
    }
    match json::parse_object(comment, archive.comment.start, "the comment of the archive", budget) {
        Err(error) if error.kind == ErrorKind::Limit => Err(error.into()),
        parsed => Ok(parsed.unwrap_or_default()),
    }
}

fn in_tensor(stop: Stop, name: &str) -> Stop {
    match stop {
        Stop::Failed(error) => Stop::Failed(Error::in_tensor(error, name)),
        stop => stop,
    }
}
