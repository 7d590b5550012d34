//! Passes the index to JavaScript, where `weightstream.js` creates the `TensorInfo` objects. All names are passed as
//! one string and everything else as numbers: parsing rows of JSON took twice as long, and each string that is passed
//! separately takes a microsecond.

use super::value;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, DATA, Digest, Encoding, Entry, Layout, RawTensor, Tensor};
use crate::loader::TensorList;
use js_sys::{Array, Float64Array, Function};
use std::ops::Range;
use wasm_bindgen::JsValue;

/// The number of tensors in a batch. Small batches bound the temporary memory.
const BATCH_TENSORS: usize = 1024;

/// How many strings of the string table, and how many kinds, are searched for a duplicate. Files have few dtypes,
/// layouts, roles and encodings; the limit bounds the time for a malicious file that has many.
const MAX_COMPARED: usize = 32;

/// Calls `add` once for each batch, with the concatenated names and digests, the numbers, the string table that some
/// numbers index, and the attributes of the tensors that have any. Models have many tensors of few kinds: what two of
/// them have in common is passed once.
pub(super) fn pass_tensors(tensors: &TensorList, add: &Function) -> Result<()> {
    let mut batch = Batch {
        texts: String::new(),
        numbers: Vec::new(),
        kinds: Vec::new(),
        strings: Vec::new(),
        attributes: Array::new(),
        buffer: Float64Array::new_with_length(0),
    };
    for (shard, part) in tensors.parts().enumerate() {
        for at in 0..part.len() {
            if let Some(entry) = part.entry(at) {
                batch.add(shard, entry);
            }
            if at % BATCH_TENSORS == BATCH_TENSORS - 1 || at + 1 == part.len() {
                batch.pass(add)?;
            }
        }
    }
    Ok(())
}

struct Batch<'a> {
    /// The name and the digest of each tensor.
    texts: String,
    numbers: Vec<f64>,
    /// Where `numbers` has the first kinds of the batch. A kind is what the tensors have in common that are of the same
    /// dtype, shape, layout and encoding.
    kinds: Vec<Range<usize>>,
    /// The string table. Numbers refer to its elements by index.
    strings: Vec<&'a str>,
    attributes: Array,
    /// The array that JavaScript reads. It is used again for each batch.
    buffer: Float64Array,
}

impl<'a> Batch<'a> {
    /// Passes the tensors to `add` and removes them.
    fn pass(&mut self, add: &Function) -> Result<()> {
        let strings: Array = self.strings.iter().map(|string| JsValue::from_str(string)).collect();
        let length = self.numbers.len() as u32;
        if self.buffer.length() < length {
            self.buffer = Float64Array::new_with_length(length);
        }
        let numbers = self.buffer.subarray(0, length);
        numbers.copy_from(&self.numbers);
        add.call4(&JsValue::NULL, &self.texts.as_str().into(), &numbers, &strings, &self.attributes)
            .map_err(|_| Error::new(ErrorKind::Internal, "the tensors of the index cannot be passed to JavaScript"))?;
        self.texts.clear();
        self.numbers.clear();
        self.kinds.clear();
        self.strings.clear();
        self.attributes = Array::new();
        Ok(())
    }

    /// Adds a tensor. `addTensors` in `loader/list.js` reads the numbers in the same order.
    fn add(&mut self, shard: usize, entry: Entry<'a>) {
        match entry {
            Entry::Raw(RawTensor { name, dtype, shape, range }) => {
                let byte_length = range.end - range.start;
                self.head(name, shard, false);
                self.place(range.start, None);
                self.kind(|batch| {
                    batch.values(dtype, shape, Layout::Dense.name(), Some(byte_length), 1);
                    batch.component(DATA, dtype, Some(byte_length), byte_length, &Encoding::Raw);
                });
            }
            Entry::Other(tensor) => {
                let Tensor { name, dtype, shape, layout, components, attributes, .. } = &**tensor;
                self.head(name, shard, !attributes.is_empty());
                if !attributes.is_empty() {
                    self.attributes.push(&value::from_map(attributes));
                }
                let offset = components.iter().map(|component| component.range.start).min().unwrap_or(0);
                self.place(offset, stated_digest(components));
                self.kind(|batch| {
                    batch.values(dtype, shape, layout.name(), tensor.byte_length(), components.len());
                    for Component { role, dtype, range, encoding, decoded_length, .. } in components {
                        batch.component(role, dtype, *decoded_length, range.end - range.start, encoding);
                    }
                });
            }
        }
    }

    fn head(&mut self, name: &str, shard: usize, has_attributes: bool) {
        self.texts.push_str(name);
        self.number(value::utf16_length(name) as u64);
        self.number(shard as u64);
        self.number(u64::from(has_attributes));
    }

    fn place(&mut self, offset: u64, digest: Option<Digest>) {
        self.number(offset);
        let before = self.texts.len();
        if let Some(digest) = digest {
            self.texts.push_str(digest.algorithm().name());
            self.texts.push(':');
            self.texts.push_str(&digest.to_string());
        }
        self.number((self.texts.len() - before) as u64);
    }

    /// Adds the number of the kind that `write` adds, and the kind itself only if it is new.
    fn kind(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.numbers.len();
        self.number(self.kinds.len() as u64);
        write(self);
        let (before, kind) = self.numbers.split_at(at + 1);
        let is_same = |known: &Range<usize>| before.get(known.clone()) == Some(kind);
        match self.kinds.iter().position(is_same) {
            Some(known) => {
                self.numbers.truncate(at);
                self.number(known as u64);
            }
            None if self.kinds.len() < MAX_COMPARED => self.kinds.push(at + 1..self.numbers.len()),
            None => {}
        }
    }

    fn values(
        &mut self,
        dtype: &'a Dtype,
        shape: &[u64],
        layout: &'a str,
        byte_length: Option<u64>,
        components: usize,
    ) {
        self.string(dtype.name());
        self.number(shape.len() as u64);
        shape.iter().for_each(|dim| self.number(*dim));
        self.string(layout);
        self.length(byte_length);
        self.number(components as u64);
    }

    fn component(
        &mut self,
        role: &'a str,
        dtype: &'a Dtype,
        decoded_length: Option<u64>,
        stored_length: u64,
        encoding: &'a Encoding,
    ) {
        self.string(role);
        self.string(dtype.name());
        self.length(decoded_length);
        self.number(stored_length);
        self.string(encoding.name());
    }

    /// Adds a number. Integers above 2^53 are rounded to the nearest double.
    fn number(&mut self, number: u64) {
        self.numbers.push(number as f64);
    }

    /// Adds a length; NaN if it is unknown.
    fn length(&mut self, length: Option<u64>) {
        self.numbers.push(length.map_or(f64::NAN, |length| length as f64));
    }

    /// Adds the index of a string in the string table.
    fn string(&mut self, string: &'a str) {
        let is_same = |known: &&str| std::ptr::eq(*known, string) || *known == string;
        let found = self.strings.iter().take(MAX_COMPARED).position(is_same);
        let index = found.unwrap_or_else(|| {
            self.strings.push(string);
            self.strings.len() - 1
        });
        self.number(index as u64);
    }
}

/// The digest that the model states of a tensor of one component: of the stored or of the decoded bytes.
fn stated_digest(components: &[Component]) -> Option<Digest> {
    let [component] = components else { return None };
    match component.streams() {
        Some(streams) => streams.digest(),
        None => component.digest.as_ref().map(|stated| stated.digest),
    }
}
