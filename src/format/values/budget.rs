//! How much memory the head of a file may take once it is parsed: one budget for all that is read of it, whichever
//! format or encoding its values have.
//!
//! A byte of JSON, CBOR or MessagePack can be a whole value of 72 bytes, and a byte of Zstandard thousands of those.
//! The budget is in proportion to the bytes that the file really has, and begins with what a head of any length may
//! take. It counts what values take on 64 bits, so that every platform reads the same files; on wasm32 they take two
//! thirds.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::window::Window;
use serde_json::Value;

/// What a head may take in memory, however short it is: 100,000 tensors with long names, of which an index that is
/// compressed very well has half a megabyte. It keeps the peak of a hostile file below 64 MiB.
pub(crate) const BASE_BYTES: u64 = 105 << 19;

/// What a head may take for each byte that it has. An entry of an index that is not compressed takes 80 bytes and more
/// of the file, and some 500 in memory.
pub(crate) const BYTES_PER_BYTE: u64 = 4;

/// What the values of the metadata may take of that, however short the head is. A caller who asks for them gets a copy,
/// so that the peak is twice as much.
const BASE_VALUE_BYTES: u64 = 31 << 20;

/// What values may take for each two bytes of the head: so a compressed vocabulary of 150,000 tokens fits, with its
/// merges and types, and one of 260,000 in plain JSON.
const VALUE_BYTES_PER_TWO_BYTES: u64 = 7;

/// How many values there may be, however short the head is: the largest vocabularies have 260,000 tokens, each with a
/// score and a type.
const BASE_VALUES: u64 = 768 << 10;

/// Beyond that, the number of bytes of the head for each further value.
const BYTES_PER_VALUE: u64 = 16;

/// What compressed parts of a head may decode to, however short they are: an index of 100,000 tensors has 13 MB.
pub(crate) const BASE_DECODED_BYTES: u64 = 16 << 20;

/// What they may decode to for each stored byte. The index of a model of equal layers compresses 20 to 50 times. Stops
/// a file of kilobytes that is decoded for seconds; memory is bounded by the rest of the budget.
pub(crate) const DECODED_BYTES_PER_BYTE: u64 = 64;

/// A JSON value.
const VALUE_BYTES: u64 = 72;

/// An entry of a JSON object: its hash, its key and its value, with its place in the table.
const ENTRY_BYTES: u64 = 8 + 24 + VALUE_BYTES + 9;

/// What the allocator takes for itself.
const ALLOCATION_BYTES: u64 = 8;

/// An array with fewer spare items is not worth a copy.
const LEAST_SPARE_ITEMS: usize = 256;

/// A tensor with one component, as the index, the loader and the native reader keep it, with a part of what a call that
/// loads all tensors takes for each.
const TENSOR_BYTES: u64 = 496;

/// A further component of a tensor.
const COMPONENT_BYTES: u64 = 160;

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Budget {
    stored: u64,
    bytes_left: u64,
    value_bytes_left: u64,
    values_left: u64,
    decoded_left: u64,
    /// What was refused by it: some parsers can only say that something went wrong.
    refused: Option<Error>,
}

/// What was left at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    bytes_left: u64,
    value_bytes_left: u64,
    values_left: u64,
}

/// How many values `stored` bytes may have.
pub(crate) fn max_values(stored: u64) -> u64 {
    BASE_VALUES + stored / BYTES_PER_VALUE
}

impl Budget {
    /// The budget of a head that has `length` bytes in the file; as many as are stored of it, where the file is
    /// compressed as a whole.
    pub(crate) fn of(window: &Window, length: u64) -> Self {
        Budget::new(window.stored(length))
    }

    /// The budget of a head that has `stored` bytes in the file.
    pub(crate) fn new(stored: u64) -> Self {
        let scaled = |base: u64, factor: u64| base.saturating_add(stored.saturating_mul(factor));
        Budget {
            stored,
            bytes_left: scaled(BASE_BYTES, BYTES_PER_BYTE),
            value_bytes_left: BASE_VALUE_BYTES.saturating_add(stored.saturating_mul(VALUE_BYTES_PER_TWO_BYTES) / 2),
            values_left: max_values(stored),
            decoded_left: scaled(BASE_DECODED_BYTES, DECODED_BYTES_PER_BYTE),
            refused: None,
        }
    }

    /// So many bytes more of the head turned out to be in the file.
    pub(crate) fn grow(&mut self, stored: u64) {
        self.stored = self.stored.saturating_add(stored);
        self.bytes_left = self.bytes_left.saturating_add(stored.saturating_mul(BYTES_PER_BYTE));
    }

    /// Takes a value that is in no array and no object, or begins one.
    pub(crate) fn value(&mut self) -> Result<()> {
        match self.values_left.checked_sub(1) {
            Some(left) => {
                self.values_left = left;
                Ok(())
            }
            None => Err(self.refuse(format!("{} values", max_values(self.stored)))),
        }
    }

    /// Takes a string of `byte_length` bytes.
    pub(crate) fn text(&mut self, byte_length: u64) -> Result<()> {
        self.value_bytes(byte_length.saturating_add(ALLOCATION_BYTES), 0)
    }

    /// Takes an array of `count` items, which is allocated at once.
    pub(crate) fn array(&mut self, count: u64) -> Result<()> {
        if count > self.values_left {
            return Err(self.refuse(format!("{} values", max_values(self.stored))));
        }
        self.value_bytes(count.saturating_mul(VALUE_BYTES).saturating_add(ALLOCATION_BYTES), 0)
    }

    /// Takes another item of an array that has `length` of them and grows as they come.
    pub(crate) fn item(&mut self, length: usize) -> Result<()> {
        let (before, after) = (array_capacity(length as u64), array_capacity(length as u64 + 1));
        self.value_bytes(VALUE_BYTES, 0)?;
        self.bytes_left = self.bytes_left.saturating_add(VALUE_BYTES); // what it grows by counts instead
        self.bytes((after - before) * VALUE_BYTES, before * VALUE_BYTES)
    }

    /// Ends an array that grew to `length` items: what it grew beyond that is given back.
    pub(crate) fn ended<T>(&mut self, items: &mut Vec<T>) {
        let spare = items.capacity() - items.len();
        if spare >= LEAST_SPARE_ITEMS {
            items.shrink_to_fit();
            let given_back = (array_capacity(items.len() as u64) - items.len() as u64) * VALUE_BYTES;
            self.bytes_left = self.bytes_left.saturating_add(given_back);
        }
    }

    /// Takes another entry of an object that has `length` of them.
    pub(crate) fn entry(&mut self, length: usize, key_length: usize) -> Result<()> {
        let (before, after) = (object_capacity(length as u64), object_capacity(length as u64 + 1));
        self.value_bytes((after - before) * ENTRY_BYTES, before * ENTRY_BYTES)?;
        self.text(key_length as u64)
    }

    /// Takes a tensor.
    pub(crate) fn tensor(&mut self, name: &str, dims: usize) -> Result<()> {
        let variable = (name.len() as u64).saturating_add(dims as u64 * 8);
        self.bytes(variable.saturating_add(TENSOR_BYTES), 0)
    }

    /// Takes a tensor of any number of components, with what else is said of it.
    pub(crate) fn tensor_with_attributes(&mut self, tensor: &Tensor) -> Result<()> {
        self.tensor(&tensor.name, tensor.shape.len())?;
        self.bytes((tensor.components.len() as u64).saturating_sub(1).saturating_mul(COMPONENT_BYTES), 0)?;
        for (at, (key, value)) in tensor.attributes.iter().enumerate() {
            self.entry(at, key.len())?;
            self.copy(value)?;
        }
        Ok(())
    }

    /// Takes bytes of anything else.
    pub(crate) fn bytes(&mut self, count: u64, for_a_moment: u64) -> Result<()> {
        match self.bytes_left.checked_sub(count).filter(|left| *left >= for_a_moment) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => {
                let limit = BASE_BYTES.saturating_add(self.stored.saturating_mul(BYTES_PER_BYTE));
                Err(self.refuse(format!("{limit} bytes of memory")))
            }
        }
    }

    /// Takes what compressed bytes claim to decode to.
    pub(crate) fn decode(&mut self, claimed: u64) -> Result<()> {
        match self.decoded_left.checked_sub(claimed) {
            Some(left) => {
                self.decoded_left = left;
                Ok(())
            }
            None => {
                let limit = BASE_DECODED_BYTES.saturating_add(self.stored.saturating_mul(DECODED_BYTES_PER_BYTE));
                Err(self.refuse(format!("{limit} decoded bytes")))
            }
        }
    }

    /// Takes what a copy of a value takes.
    pub(crate) fn copy(&mut self, value: &Value) -> Result<()> {
        self.value()?;
        match value {
            Value::String(text) => self.text(text.len() as u64),
            Value::Array(items) => {
                self.array(items.len() as u64)?;
                items.iter().try_for_each(|item| self.copy(item))
            }
            Value::Object(entries) => entries.iter().enumerate().try_for_each(|(at, (key, value))| {
                self.entry(at, key.len())?;
                self.copy(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// What is left now: see [`Budget::give_back`].
    pub(crate) fn mark(&self) -> Mark {
        let Budget { bytes_left, value_bytes_left, values_left, .. } = *self;
        Mark { bytes_left, value_bytes_left, values_left }
    }

    /// Gives back what was taken since, for values that are gone again.
    pub(crate) fn give_back(&mut self, since: Mark) {
        self.bytes_left = since.bytes_left;
        self.value_bytes_left = since.value_bytes_left;
        self.values_left = since.values_left;
    }

    /// The error of what was refused, for parsers that cannot pass it on.
    pub(crate) fn refusal(&mut self) -> Option<Error> {
        self.refused.take()
    }

    fn value_bytes(&mut self, count: u64, for_a_moment: u64) -> Result<()> {
        match self.value_bytes_left.checked_sub(count).filter(|left| *left >= for_a_moment) {
            Some(left) => {
                self.bytes(count, for_a_moment)?;
                self.value_bytes_left = left;
                Ok(())
            }
            None => Err(self.refuse("its values in memory".to_owned())),
        }
    }

    fn refuse(&mut self, limit: String) -> Error {
        let what = format!(
            "the header and index have {} bytes in the file, and need more than the {limit} that weightstream allows \
             for that",
            self.stored
        );
        let error = Error::new(ErrorKind::Limit, what).advise(ADVICE);
        self.refused = Some(error.clone());
        error
    }
}

const ADVICE: &str = "The file is damaged, or made to fill the memory; if you know it to be neither, write the model \
                      with less metadata, or in several files, and please report it.";

/// How many items a vector that grows by itself has room for.
fn array_capacity(length: u64) -> u64 {
    if length == 0 { 0 } else { length.next_power_of_two().max(4) }
}

/// How many entries a hash table that grows by itself has room for.
fn object_capacity(length: u64) -> u64 {
    match length {
        0 => 0,
        1..4 => 3,
        4..8 => 7,
        _ => (length * 8 / 7 + 1).next_power_of_two() / 8 * 7,
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::index::{Component, Tensor};
    use serde_json::{Map, Value};

    #[test]
    fn what_it_counts_is_what_values_take() {
        assert!(size_of::<Value>() as u64 <= VALUE_BYTES);
        assert!((size_of::<(String, Value)>() + 8) as u64 <= ENTRY_BYTES);
        assert!(size_of::<Tensor>() + size_of::<Component>() < TENSOR_BYTES as usize, "{}", size_of::<Tensor>());
        assert!(size_of::<Component>() <= COMPONENT_BYTES as usize, "{}", size_of::<Component>());
        let mut items: Vec<Value> = Vec::new();
        for length in 0..1000 {
            items.push(Value::Null);
            assert_eq!(items.capacity() as u64, array_capacity(length + 1));
        }
    }

    #[test]
    fn real_indexes_fit_in_it_however_well_they_are_compressed() {
        let mut budget = Budget::new(500_000);
        for _ in 0..100_000 {
            budget.tensor("model.layers.100.self_attn.q_proj.weight", 2).unwrap();
        }
        assert!(budget.tensor(&"x".repeat(10 << 20), 2).is_err());
    }

    #[test]
    fn a_real_vocabulary_fits_in_it() {
        let mut budget = Budget::new(1_500_000); // 150,000 tokens with as many merges and types, compressed
        budget.entry(0, 30).unwrap();
        for _ in 0..3 {
            let mut items = Vec::new();
            for at in 0..150_000 {
                budget.item(at).unwrap();
                items.push(0u8);
            }
            budget.ended(&mut items);
        }
        (0..300_000).for_each(|_| budget.text(8).unwrap());
    }

    #[test]
    fn an_object_is_counted_as_its_table_grows() {
        let (mut map, mut budget) = (Map::new(), Budget::new(0));
        let before = budget.mark();
        for at in 0..10_000 {
            budget.entry(at, 4).unwrap();
            map.insert(format!("{at:04}"), Value::Null);
        }
        let taken = before.bytes_left - budget.bytes_left;
        assert!((10_000 * ENTRY_BYTES..25_000 * ENTRY_BYTES).contains(&taken), "{taken}");
        budget.give_back(before);
        assert_eq!(budget.bytes_left, BASE_BYTES);
    }

    #[test]
    fn a_refusal_names_the_size_and_the_limit() {
        let error = Budget::new(1000).array(10 << 20).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit);
        assert!(error.what.contains("1000 bytes") && error.what.contains("786494 values"), "{error}");
    }
}
