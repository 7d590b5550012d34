//! Deserializes the header entry of a tensor. Hand-written, because `serde_derive` would add five crates.

use crate::dtype::Dtype;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// The three fields that the format requires; others are ignored, as the `safetensors` package does.
pub(super) struct Entry {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<u64>,
    /// Start and end in bytes, relative to the end of the header.
    pub(super) data_offsets: (u64, u64),
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let (mut dtype, mut shape, mut data_offsets) = (None, None, None);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Dtype => set(&mut dtype, "dtype", map.next_value::<DtypeName>()?.0)?,
                Field::Shape => set(&mut shape, "shape", map.next_value()?)?,
                Field::DataOffsets => set(&mut data_offsets, "data_offsets", map.next_value()?)?,
                Field::Other => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(Entry {
            dtype: dtype.ok_or_else(|| A::Error::missing_field("dtype"))?,
            shape: shape.ok_or_else(|| A::Error::missing_field("shape"))?,
            data_offsets: data_offsets.ok_or_else(|| A::Error::missing_field("data_offsets"))?,
        })
    }
}

fn set<T, E: Error>(field: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    if field.replace(value).is_some() { Err(E::duplicate_field(name)) } else { Ok(()) }
}

enum Field {
    Dtype,
    Shape,
    DataOffsets,
    Other,
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(Text(|name: &str| match name {
            "dtype" => Field::Dtype,
            "shape" => Field::Shape,
            "data_offsets" => Field::DataOffsets,
            _ => Field::Other,
        }))
    }
}

struct DtypeName(Dtype);

impl<'de> Deserialize<'de> for DtypeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(|name: &str| DtypeName(Dtype::from_name(name))))
    }
}

/// Maps a string without copying it.
struct Text<F>(F);

impl<T, F: Fn(&str) -> T> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok((self.0)(text))
    }
}
