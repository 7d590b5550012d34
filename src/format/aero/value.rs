//! Values in MessagePack that have no place in JSON: bytes, extensions, keys that are no text.

use super::super::json;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// A value of any kind as JSON: what JSON cannot say becomes text, bytes in hexadecimal, infinities and NaN by name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Any(pub(super) Value);

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Any;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Any, E> {
        Ok(Any(json::float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Any, E> {
        Ok(Any(value.into()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Any, E> {
        Ok(Any(value.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()))
    }

    fn visit_unit<E>(self) -> Result<Any, E> {
        Ok(Any(Value::Null))
    }

    /// An extension: its number and its bytes.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Any, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Any, A::Error> {
        let mut values = Vec::new();
        while let Some(Any(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Any(values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Any, A::Error> {
        let mut map = Map::new();
        while let Some((Any(key), Any(value))) = entries.next_entry()? {
            let key = match key {
                Value::String(text) => text,
                other => other.to_string(),
            };
            map.insert(key, value);
        }
        Ok(Any(map.into()))
    }
}

/// Bytes, exactly so many: a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes<const N: usize>(pub(super) [u8; N]);

impl<'de, const N: usize> Deserialize<'de> for Bytes<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Exactly<const N: usize>;
        impl<const N: usize> Visitor<'_> for Exactly<N> {
            type Value = Bytes<N>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{N} bytes")
            }
            fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Bytes<N>, E> {
                value.try_into().map(Bytes).map_err(|_| E::invalid_length(value.len(), &self))
            }
        }
        deserializer.deserialize_bytes(Exactly)
    }
}
