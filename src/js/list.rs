//! The index as it crosses to JavaScript, where `weightstream.js` makes `TensorInfo` of it: names as one text, all else
//! as numbers. Rows of JSON took twice the time to become objects, and each string that crosses by itself takes a
//! microsecond.

use super::{byte_length_of, value};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use js_sys::{Array, Float64Array, Function};
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// So many tensors cross at a time: what is needed for that alone stays small, and is gone before the browser looks for
/// garbage.
const BATCH_TENSORS: usize = 1024;

/// Dtypes, layouts and the like are few. Stops forged ones that would all be compared with each other.
const MAX_WORDS_COMPARED: usize = 32;

/// Calls `add` with one batch after the other: the names, joined; the numbers; the words that numbers stand for; and
/// the attributes of those tensors that have some.
pub(super) fn hand_over(tensors: &[Rc<Tensor>], add: &Function) -> Result<()> {
    let mut room = Float64Array::new_with_length(0);
    let mut batch = Batch::default();
    for tensors in tensors.chunks(BATCH_TENSORS) {
        batch.clear();
        tensors.iter().for_each(|tensor| batch.add(tensor));
        let words: Array = batch.words.iter().map(|word| JsValue::from_str(word)).collect();
        let length = batch.numbers.len() as u32;
        if room.length() < length {
            room = Float64Array::new_with_length(length);
        }
        let numbers = room.subarray(0, length);
        numbers.copy_from(&batch.numbers);
        add.call4(&JsValue::NULL, &batch.names.as_str().into(), &numbers, &words, &batch.attributes)
            .map_err(|_| Error::new(ErrorKind::Internal, "tensors of the index cannot be listed"))?;
    }
    Ok(())
}

#[derive(Default)]
struct Batch<'a> {
    names: String,
    numbers: Vec<f64>,
    words: Vec<&'a str>,
    attributes: Array,
}

impl<'a> Batch<'a> {
    fn clear(&mut self) {
        self.names.clear();
        self.numbers.clear();
        self.words.clear();
        self.attributes = Array::new();
    }

    /// Its numbers are read in the same order by `addTensors` in `weightstream.js`.
    fn add(&mut self, tensor: &'a Tensor) {
        let Tensor { name, dtype, shape, layout, components, attributes, shard } = tensor;
        self.names.push_str(name);
        self.number(value::utf16_length(name) as u64);
        self.word(dtype.name());
        self.number(shape.len() as u64);
        shape.iter().for_each(|dim| self.number(*dim));
        self.word(layout.name());
        self.number(byte_length_of(tensor));
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
        self.word(role);
        self.word(dtype.name());
        self.numbers.push(decoded_length.map_or(f64::NAN, |length| length as f64));
        self.number(range.end - range.start);
        self.word(encoding.name());
    }

    /// Integers beyond 2^53 become the nearest numbers.
    fn number(&mut self, number: u64) {
        self.numbers.push(number as f64);
    }

    fn word(&mut self, word: &'a str) {
        let known =
            self.words.iter().take(MAX_WORDS_COMPARED).position(|known| std::ptr::eq(*known, word) || *known == word);
        let at = known.unwrap_or_else(|| {
            self.words.push(word);
            self.words.len() - 1
        });
        self.number(at as u64);
    }
}
