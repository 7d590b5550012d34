//! Deserializes JSON values within a memory budget: a byte of JSON can become a value of 36 bytes.

use super::budget::Budget;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Reads one value. If the budget is exceeded, [`Budget::refusal`] returns the error.
pub(crate) struct BudgetedValue<'b> {
    pub(crate) budget: &'b mut Budget,
    /// Steps to the next number of the document. Returns its exact value, if that of serde_json may differ from it.
    pub(crate) next_number: &'b mut dyn FnMut() -> Option<f64>,
}

impl<'de> DeserializeSeed<'de> for BudgetedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.budget.value().map_err(D::Error::custom)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BudgetedValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        (self.next_number)();
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        (self.next_number)();
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64((self.next_number)().unwrap_or(value)).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.budget.text(text.len() as u64).map_err(E::custom)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let BudgetedValue { budget, next_number } = self;
        let mut items = Vec::new();
        while let Some(item) =
            seq.next_element_seed(BudgetedValue { budget: &mut *budget, next_number: &mut *next_number })?
        {
            budget.item(items.len()).map_err(A::Error::custom)?;
            items.push(item);
        }
        budget.ended(&mut items);
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let BudgetedValue { budget, next_number } = self;
        let mut entries = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(BudgetedValue { budget: &mut *budget, next_number: &mut *next_number })?;
            budget.entry(entries.len(), key.len()).map_err(A::Error::custom)?;
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}
