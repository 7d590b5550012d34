//! A memory budget for the parsed head of a file: one budget for everything that is read of it, in any format or
//! encoding.
//!
//! A byte of JSON, CBOR or MessagePack can become a value of 72 bytes, and a byte of Zstandard thousands of them. The
//! budget is a base amount for heads of any length, plus an amount proportional to the stored size. It counts the size
//! of values on 64-bit platforms, so that every platform accepts the same files; on wasm32 they take two thirds of it.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::window::Window;
use serde_json::Value;

/// The memory that a head of any length may take: enough for 100,000 tensors with long names, whose index may compress
/// to half a megabyte. It keeps the peak memory of a malicious file below 64 MiB.
pub(crate) const BASE_BYTES: u64 = 107 << 19;

/// The additional memory for each stored byte of the head, and twice that in a part that only lists tensors: an
/// uncompressed entry takes 60 to 80 bytes in the file, and about 500 in memory.
pub(crate) const BYTES_PER_BYTE: u64 = 4;

/// The part of the memory that metadata values may take in a head of any length. Callers that request the metadata get
/// a copy, which doubles the peak.
const BASE_VALUE_BYTES: u64 = 31 << 20;

/// The additional memory for values for each two stored bytes of the head. A compressed vocabulary of 150,000 tokens
/// fits, with its merges and types, and one of 260,000 tokens in plain JSON.
const VALUE_BYTES_PER_TWO_BYTES: u64 = 7;

/// The number of values that a head of any length may have: the largest vocabularies have 260,000 tokens, each with a
/// score and a type.
const BASE_VALUES: u64 = 768 << 10;

/// The number of stored bytes of the head for each value beyond [`BASE_VALUES`].
const BYTES_PER_VALUE: u64 = 16;

/// The decoded size that compressed parts of any length may have: an index of 100,000 tensors has 13 MB.
pub(crate) const BASE_DECODED_BYTES: u64 = 16 << 20;

/// The additional decoded size for each stored byte. The index of a model of equal layers compresses 20 to 50 times.
/// Prevents a file of a few kilobytes from being decoded for seconds; the rest of the budget bounds memory.
pub(crate) const DECODED_BYTES_PER_BYTE: u64 = 64;

/// The size of a JSON value.
const VALUE_BYTES: u64 = 72;

/// The size of an entry of a JSON object: its hash, key and value, and its slot in the table.
const ENTRY_BYTES: u64 = 8 + 24 + VALUE_BYTES + 9;

/// The overhead of an allocation.
const ALLOCATION_BYTES: u64 = 8;

/// Arrays with less spare capacity are not shrunk, because shrinking copies them.
const MIN_SPARE_ITEMS: usize = 256;

/// The size of a tensor with one component in the index, the loader and the native reader, and a part of what a call
/// that loads all tensors allocates for each.
const TENSOR_BYTES: u64 = 504;

/// The size of each further component of a tensor.
const COMPONENT_BYTES: u64 = 168;

/// The remaining budget.
#[derive(Debug)]
pub(crate) struct Budget {
    stored: u64,
    bytes_left: u64,
    value_bytes_left: u64,
    values_left: u64,
    decoded_left: u64,
    /// The last error. Some parsers cannot pass on errors, only that an error occurred.
    refused: Option<Error>,
}

/// A snapshot of the remaining budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    bytes_left: u64,
    value_bytes_left: u64,
    values_left: u64,
}

/// Returns the maximum number of values for `stored` bytes.
pub(crate) fn max_values(stored: u64) -> u64 {
    BASE_VALUES + stored / BYTES_PER_VALUE
}

impl Budget {
    /// Creates the budget of a head of `length` bytes in the file. If the whole file is compressed, the stored size
    /// counts.
    pub(crate) fn of(window: &Window, length: u64) -> Self {
        Budget::new(window.stored(length))
    }

    /// Creates the budget of a head with `stored` bytes in the file.
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

    /// The budget of a head that only lists tensors.
    pub(crate) fn for_tensors(self) -> Self {
        let bytes_left = self.bytes_left.saturating_add(self.stored.saturating_mul(BYTES_PER_BYTE));
        Budget { bytes_left, ..self }
    }

    /// Adds `stored` bytes of a part that lists tensors to the size of the head.
    pub(crate) fn grow_for_tensors(&mut self, stored: u64) {
        self.grow(stored);
        self.bytes_left = self.bytes_left.saturating_add(stored.saturating_mul(BYTES_PER_BYTE));
    }

    /// Adds `stored` bytes to the size of the head.
    pub(crate) fn grow(&mut self, stored: u64) {
        self.stored = self.stored.saturating_add(stored);
        self.bytes_left = self.bytes_left.saturating_add(stored.saturating_mul(BYTES_PER_BYTE));
    }

    /// Counts a value, which may be an array or an object.
    pub(crate) fn value(&mut self) -> Result<()> {
        match self.values_left.checked_sub(1) {
            Some(left) => {
                self.values_left = left;
                Ok(())
            }
            None => Err(self.refuse(format!("{} values", max_values(self.stored)))),
        }
    }

    /// Counts a string of `byte_length` bytes.
    pub(crate) fn text(&mut self, byte_length: u64) -> Result<()> {
        self.value_bytes(byte_length.saturating_add(ALLOCATION_BYTES), 0)
    }

    /// Counts an array of `count` items, which is allocated at its final size.
    pub(crate) fn array(&mut self, count: u64) -> Result<()> {
        if count > self.values_left {
            return Err(self.refuse(format!("{} values", max_values(self.stored))));
        }
        self.value_bytes(count.saturating_mul(VALUE_BYTES).saturating_add(ALLOCATION_BYTES), 0)
    }

    /// Counts the next item of a growing array that has `length` items.
    pub(crate) fn item(&mut self, length: usize) -> Result<()> {
        let (before, after) = (array_capacity(length as u64), array_capacity(length as u64 + 1));
        self.value_bytes(VALUE_BYTES, 0)?;
        self.bytes_left = self.bytes_left.saturating_add(VALUE_BYTES); // the growth of the array is counted instead
        self.bytes((after - before) * VALUE_BYTES, before * VALUE_BYTES)
    }

    /// Finishes a growing array: shrinks it, and returns its spare capacity to the budget.
    pub(crate) fn ended<T>(&mut self, items: &mut Vec<T>) {
        let spare = items.capacity() - items.len();
        if spare >= MIN_SPARE_ITEMS {
            items.shrink_to_fit();
            let returned = (array_capacity(items.len() as u64) - items.len() as u64) * VALUE_BYTES;
            self.bytes_left = self.bytes_left.saturating_add(returned);
        }
    }

    /// Counts the next entry of an object that has `length` entries.
    pub(crate) fn entry(&mut self, length: usize, key_length: usize) -> Result<()> {
        let (before, after) = (object_capacity(length as u64), object_capacity(length as u64 + 1));
        self.value_bytes((after - before) * ENTRY_BYTES, before * ENTRY_BYTES)?;
        self.text(key_length as u64)
    }

    /// Counts a tensor.
    pub(crate) fn tensor(&mut self, name: &str, dims: usize) -> Result<()> {
        let variable = (name.len() as u64).saturating_add(dims as u64 * 8);
        self.bytes(variable.saturating_add(TENSOR_BYTES), 0)
    }

    /// Counts a tensor with all its components and attributes.
    pub(crate) fn tensor_with_attributes(&mut self, tensor: &Tensor) -> Result<()> {
        self.tensor(&tensor.name, tensor.shape.len())?;
        self.bytes((tensor.components.len() as u64).saturating_sub(1).saturating_mul(COMPONENT_BYTES), 0)?;
        for (at, (key, value)) in tensor.attributes.iter().enumerate() {
            self.entry(at, key.len())?;
            self.copy(value)?;
        }
        Ok(())
    }

    /// Counts `count` bytes of other data. `temporary` further bytes must be available, but are not counted.
    pub(crate) fn bytes(&mut self, count: u64, temporary: u64) -> Result<()> {
        match self.bytes_left.checked_sub(count).filter(|left| *left >= temporary) {
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

    /// Counts the claimed decoded length of compressed bytes.
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

    /// Counts a copy of a value.
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

    /// Takes a snapshot for [`Budget::give_back`].
    pub(crate) fn mark(&self) -> Mark {
        let Budget { bytes_left, value_bytes_left, values_left, .. } = *self;
        Mark { bytes_left, value_bytes_left, values_left }
    }

    /// Restores the budget to a snapshot, for values that have been dropped.
    pub(crate) fn give_back(&mut self, since: Mark) {
        self.bytes_left = since.bytes_left;
        self.value_bytes_left = since.value_bytes_left;
        self.values_left = since.values_left;
    }

    /// Takes the last error, for parsers that cannot pass it on.
    pub(crate) fn refusal(&mut self) -> Option<Error> {
        self.refused.take()
    }

    fn value_bytes(&mut self, count: u64, temporary: u64) -> Result<()> {
        match self.value_bytes_left.checked_sub(count).filter(|left| *left >= temporary) {
            Some(left) => {
                self.bytes(count, temporary)?;
                self.value_bytes_left = left;
                Ok(())
            }
            None => Err(self.refuse("its values in memory".to_owned())),
        }
    }

    fn refuse(&mut self, limit: String) -> Error {
        let what = format!(
            "the header and index have {} bytes in the file, and need more than the {limit} that weightstream allows \
             for this size",
            self.stored
        );
        let error = Error::new(ErrorKind::Limit, what).advise(ADVICE);
        self.refused = Some(error.clone());
        error
    }
}

const ADVICE: &str = "The file may be damaged or malicious. If it is neither, write the model with less metadata or in \
                      several files, and please report it.";

/// Returns the capacity of a vector that grew to `length` items.
fn array_capacity(length: u64) -> u64 {
    if length == 0 { 0 } else { length.next_power_of_two().max(4) }
}

/// Returns the capacity of a hash table that grew to `length` entries.
fn object_capacity(length: u64) -> u64 {
    match length {
        0 => 0,
        1..4 => 3,
        4..8 => 7,
        _ => (length * 8 / 7 + 1).next_power_of_two() / 8 * 7,
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use crate::index::{Component, Tensor};
    use serde_json::{Map, Value};

    #[test]
    fn counted_sizes_match_the_sizes_of_values() {
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
    fn real_indexes_fit_even_if_they_compress_well() {
        let mut budget = Budget::new(500_000);
        for _ in 0..100_000 {
            budget.tensor("model.layers.100.self_attn.q_proj.weight", 2).unwrap();
        }
        assert!(budget.tensor(&"x".repeat(10 << 20), 2).is_err());
    }

    #[test]
    fn a_real_vocabulary_fits() {
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
    fn objects_count_the_capacity_of_their_table() {
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
    fn errors_state_the_size_and_the_limit() {
        let error = Budget::new(1000).array(10 << 20).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit);
        assert!(error.what.contains("1000 bytes") && error.what.contains("786494 values"), "{error}");
    }
}
