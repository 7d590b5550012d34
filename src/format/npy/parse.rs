//! Reads a file with one array.

use super::array::Array;
use super::header::{self, Header, Reading};
use super::notes::Notes;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, malformed};
use crate::index::{Component, Index, Metadata, Parsed, check_tensors};
use crate::window::{Stop, Window};
use std::collections::HashMap;

/// The name of the format in the registry.
pub(super) const NAME: &str = "npy";

/// The name of the tensor: an array has none. `numpy.savez` gives it to the first array without a name.
pub(crate) const UNNAMED: &str = "arr_0";

/// The number of bytes that are read first: most headers have 128.
const FIRST_BYTES: u64 = 256;

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let header = read_header(window)?;
    let array = Array::of(&header)?.map_err(|reason| {
        let error = Error::new(ErrorKind::Unsupported, format!("the elements of the array have {reason}"));
        error
            .advise("Save the array with a numeric dtype: `numpy.save(file, array.astype(…))`.")
            .at(0..header.data_start)
    })?;
    let end = header.data_start.checked_add(array.byte_length);
    let end = end.ok_or_else(|| malformed(format!("its {} bytes overflow u64", array.byte_length)))?;
    let mut notes = Notes::default();
    let mut tensors = [array.noted(UNNAMED, Component::raw(Dtype::U8, header.data_start..end), &mut notes)];
    check_tensors(&mut tensors, window.file_length())?;
    let mut warnings = notes.into_warnings();
    if let Some(more) = window.file_length().and_then(|length| length.checked_sub(end)).filter(|more| *more > 0) {
        warnings.push(format!("{more} bytes follow the array, which are ignored: a file of this format has one array"));
    }
    Ok(Parsed::File(Index {
        format: NAME,
        version: version(header.version),
        metadata: Metadata::new(),
        long_arrays: Vec::new(),
        tensors: Vec::from(tensors).into(),
        warnings,
        other_shards: HashMap::new(),
        blocks: Vec::new(),
        quantized: None,
    }))
}

/// The version as NumPy's documentation writes it.
pub(crate) fn version([major, minor]: [u8; 2]) -> String {
    format!("{major}.{minor}")
}

fn read_header(window: &Window) -> Result<Header, Stop> {
    let length = window.file_length().unwrap_or(u64::MAX);
    let mut wanted = FIRST_BYTES.min(length);
    loop {
        match header::read(window.get(0..wanted)?, length)? {
            Reading::Header(header) => return Ok(header),
            Reading::Needs(bytes) => wanted = bytes,
        }
    }
}
