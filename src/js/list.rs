//! Passes the index to JavaScript, where `weightstream.js` creates the `TensorInfo` objects. All names are passed as
//! one string and everything else as numbers: parsing rows of JSON took twice as long, and each string that is passed
//! separately takes a microsecond.

use super::value;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, DATA, Encoding, Entry, RawTensor, Tensor};
use crate::loader::TensorList;
use js_sys::{Array, Float64Array, Function};
use wasm_bindgen::JsValue;

/// The number of tensors in a batch. Small batches bound the temporary memory.
const BATCH_TENSORS: usize = 1024;

/// How many strings of the string table are searched for a duplicate. Files have few dtypes, layouts, roles and
/// encodings; the limit bounds the time for a malicious file that has many.
const MAX_STRINGS_COMPARED: usize = 32;

/// Calls `add` once for each batch, with the concatenated names, the numbers, the string table that some numbers index,
/// and the attributes of the tensors that have any.
pub(super) fn pass_tensors(tensors: &TensorList, add: &Function) -> Result<()> {
    let mut batch = Batch {
        names: String::new(),
        numbers: Vec::new(),
        strings: Vec::new(),
        attributes: Array::new(),
        buffer: Float64Array::new_with_length(0),
    };
    for (shard, part) in tensors.parts().enumerate() {
        for at in 0..part.len() {
            if let Some(entry) = part.entry(at) {
                batch.add_entry(shard, entry);
            }
            if at % BATCH_TENSORS == BATCH_TENSORS - 1 || at + 1 == part.len() {
                batch.pass(add)?;
            }
        }
    }
    Ok(())
}

struct Batch<'a> {
    names: String,
    numbers: Vec<f64>,
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
        add.call4(&JsValue::NULL, &self.names.as_str().into(), &numbers, &strings, &self.attributes)
            .map_err(|_| Error::new(ErrorKind::Internal, "the tensors of the index cannot be passed to JavaScript"))?;
        self.names.clear();
        self.numbers.clear();
        self.strings.clear();
        self.attributes = Array::new();
        Ok(())
    }

    fn add_entry(&mut self, shard: usize, entry: Entry<'a>) {
        let RawTensor { name, dtype, shape, range } = match entry {
            Entry::Raw(tensor) => tensor,
            Entry::Other(tensor) => return self.add(tensor),
        };
        let byte_length = range.end - range.start;
        self.head(name, dtype, shape);
        self.string("dense");
        self.number(byte_length);
        self.number(shard as u64);
        self.number(1);
        self.string(DATA);
        self.string(dtype.name());
        self.number(byte_length);
        self.number(byte_length);
        self.string(Encoding::Raw.name());
        self.number(0);
    }

    fn head(&mut self, name: &str, dtype: &'a Dtype, shape: &[u64]) {
        self.names.push_str(name);
        self.number(value::utf16_length(name) as u64);
        self.string(dtype.name());
        self.number(shape.len() as u64);
        shape.iter().for_each(|dim| self.number(*dim));
    }

    /// Adds a tensor. `addTensors` in `weightstream.list.js` reads the numbers in the same order.
    fn add(&mut self, tensor: &'a Tensor) {
        let Tensor { name, dtype, shape, layout, components, attributes, shard } = tensor;
        self.head(name, dtype, shape);
        self.string(layout.name());
        self.length(tensor.byte_length());
        self.number(*shard as u64);
        self.number(components.len() as u64);
        components.iter().for_each(|component| self.component(component));
        self.number(u64::from(!attributes.is_empty()));
        if !attributes.is_empty() {
            self.attributes.push(&value::from_map(attributes));
        }
    }

    fn component(&mut self, component: &'a Component) {
        let Component { role, dtype, range, encoding, decoded_length, .. } = component;
        self.string(role);
        self.string(dtype.name());
        self.length(*decoded_length);
        self.number(range.end - range.start);
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
        let found = self.strings.iter().take(MAX_STRINGS_COMPARED).position(is_same);
        let index = found.unwrap_or_else(|| {
            self.strings.push(string);
            self.strings.len() - 1
        });
        self.number(index as u64);
    }
}
