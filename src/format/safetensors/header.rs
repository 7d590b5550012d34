//! Reads the JSON header into the index: at once, or in pieces while it arrives.

use super::entry::Entry;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, Result, malformed};
use crate::format::values::budget::Budget;
use crate::format::values::json;
use crate::index::{Metadata, Tensors};
use crate::window::Pieces;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::ops::Range;

/// The number of bytes that are parsed at once, unless an entry is longer.
const PARSED_BYTES: usize = 256 << 10;

/// The content of a header: `__metadata__`, and the tensors in the order of the header. Contains both tensors of a
/// duplicate name.
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) tensors: Tensors,
    /// The range of the file that contains the JSON.
    place: Range<u64>,
    budget: Budget,
    /// The error of the tensor that was read last. The JSON parser cannot pass it on.
    fault: Option<Error>,
    unparsed: Unparsed,
}

/// The bytes that arrived and are not parsed. A cut between two entries makes an object of those before it.
#[derive(Default)]
struct Unparsed {
    bytes: Vec<u8>,
    /// The offset of the bytes in the header.
    start: u64,
    /// The number of bytes that were searched for cuts.
    searched: usize,
    /// The last comma between two entries.
    comma: Option<usize>,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Header {
    pub(super) fn new(place: Range<u64>, budget: Budget) -> Self {
        let (metadata, tensors, fault, unparsed) = Default::default();
        Header { metadata, tensors, place, budget, fault, unparsed }
    }

    /// Reads the whole header.
    pub(super) fn read(mut self, bytes: &[u8]) -> Result<Self> {
        self.parse(bytes, 0)?;
        Ok(self)
    }

    /// Reads the end of a header that arrived in pieces.
    pub(super) fn finish(mut self) -> Result<Self> {
        let Unparsed { bytes, start, .. } = std::mem::take(&mut self.unparsed);
        if start > 0 {
            self.parse_part(&bytes, start)?;
        } else {
            self.parse(&bytes, start)?;
        }
        Ok(self)
    }

    /// Parses a part of the header, which must have an entry: there is a comma before or after it.
    fn parse_part(&mut self, bytes: &[u8], start: u64) -> Result<()> {
        if bytes.trim_ascii_start().get(1..).is_some_and(|rest| rest.trim_ascii_start().starts_with(b"}")) {
            let at = self.place.start + start;
            return Err(malformed("the header is not valid JSON: an entry is missing at a comma").at(at..at + 1));
        }
        self.parse(bytes, start)
    }

    /// Parses an object of entries that begins at `start` in the header.
    fn parse(&mut self, bytes: &[u8], start: u64) -> Result<()> {
        let Header { metadata, tensors, place, budget, fault, .. } = self;
        let (start, data_start) = (place.start + start, place.end);
        let parsed = json::parse_with(bytes, start, "the header", budget, |json, budget| {
            json.deserialize_map(Entries { metadata, tensors, data_start, budget, fault })
        });
        parsed.map_err(|error| self.fault.take().unwrap_or(error))
    }
}

impl Pieces for Header {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.unparsed.bytes.extend_from_slice(bytes);
        self.unparsed.search();
        if self.unparsed.bytes.len() < PARSED_BYTES {
            return Ok(());
        }
        let Some(comma) = self.unparsed.comma.take() else { return Ok(()) };
        let mut bytes = std::mem::take(&mut self.unparsed.bytes);
        if let Some(end) = bytes.get_mut(comma) {
            *end = b'}';
        }
        self.parse_part(bytes.get(..=comma).unwrap_or_default(), self.unparsed.start)?;
        if self.unparsed.start == 0 {
            self.tensors.reserve_for_rest(comma as u64, self.place.end - self.place.start);
        }
        bytes.drain(..comma);
        if let Some(start) = bytes.first_mut() {
            *start = b'{';
        }
        self.unparsed.bytes = bytes;
        self.unparsed.start += comma as u64;
        self.unparsed.searched -= comma;
        Ok(())
    }
}

impl Unparsed {
    /// Finds the last comma between two entries. In a header that is not valid JSON, it may be anywhere: the parser
    /// then refuses what is before or after it.
    fn search(&mut self) {
        for (at, byte) in self.bytes.iter().enumerate().skip(self.searched) {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.is_in_string,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b',' if self.depth == 1 => self.comma = Some(at),
                _ => {}
            }
        }
        self.searched = self.bytes.len();
    }
}

/// Deserializes entries directly. Parsing them as generic JSON first could take many times their size in memory.
struct Entries<'a> {
    metadata: &'a mut Metadata,
    tensors: &'a mut Tensors,
    data_start: u64,
    budget: &'a mut Budget,
    fault: &'a mut Option<Error>,
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "__metadata__" {
                let strings = CollectStrings { budget: &mut *self.budget, into: &mut *self.metadata };
                map.next_value_seed(strings).map_err(|e| about(&key, e))?;
                continue;
            }
            let Entry { dtype, shape, data_offsets: (start, end) } = map.next_value().map_err(|e| about(&key, e))?;
            self.budget.tensor(&key, shape.len()).map_err(A::Error::custom)?;
            let range = place(&dtype, &shape, start..end, self.data_start).map_err(|error| {
                *self.fault = Some(error.in_tensor(&key));
                A::Error::custom("invalid tensor")
            })?;
            self.tensors.push_raw(&key, dtype, &shape, range);
        }
        Ok(())
    }
}

/// Reads an object of strings, or null.
struct CollectStrings<'b> {
    budget: &'b mut Budget,
    into: &'b mut Metadata,
}

impl<'de> DeserializeSeed<'de> for CollectStrings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CollectStrings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, text)) = map.next_entry::<String, String>()? {
            let counted = self.budget.entry(self.into.len(), key.len());
            counted.and_then(|()| self.budget.text(text.len() as u64)).map_err(A::Error::custom)?;
            self.into.insert(key, Value::String(text));
        }
        Ok(())
    }
}

fn about<E: serde::de::Error>(key: &str, error: E) -> E {
    E::custom(format!("\"{key}\": {error}"))
}

/// Validates the header entry of a tensor, and converts its range to file offsets.
fn place(dtype: &Dtype, shape: &[u64], offsets: Range<u64>, data_start: u64) -> Result<Range<u64>> {
    let Range { start, end } = offsets;
    let range = file_range(start, end, data_start)
        .ok_or_else(|| malformed(format!("its `data_offsets` [{start}, {end}] are not a range of the file")))?;
    let expected = dtype.byte_length(element_count(shape)?)?;
    if expected.is_some_and(|expected| expected != end - start) {
        let what = format!("its {} bytes do not match {dtype} {shape:?}", end - start);
        return Err(malformed(what).at(range));
    }
    Ok(range)
}

fn file_range(start: u64, end: u64, data_start: u64) -> Option<Range<u64>> {
    if start > end {
        return None;
    }
    Some(data_start.checked_add(start)?..data_start.checked_add(end)?)
}
