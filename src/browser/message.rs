//! Messages between threads: plain objects with named fields, from Rust types. Their buffers are not copied.

use crate::error::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_wasm_bindgen::Serializer;
use wasm_bindgen::JsValue;

/// A message with the number of the request or task that it belongs to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message<T> {
    pub(crate) number: u32,
    pub(crate) body: T,
}

impl<T: Serialize> Message<T> {
    /// # Errors
    /// `INTERNAL` if a value has no form in JavaScript.
    pub(crate) fn encode(&self) -> Result<JsValue> {
        // Lengths of unknown end are `u64::MAX`, which a number cannot hold.
        let serializer = Serializer::new().serialize_large_number_types_as_bigints(true);
        self.serialize(&serializer).map_err(|error| invalid(&error))
    }
}

impl<T: DeserializeOwned> Message<T> {
    /// # Errors
    /// `INTERNAL` if the message does not have this type.
    pub(crate) fn decode(message: JsValue) -> Result<Self> {
        serde_wasm_bindgen::from_value(message).map_err(|error| invalid(&error))
    }
}

fn invalid(error: &serde_wasm_bindgen::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("invalid message between threads: {error}"))
}

/// As [`serde_wasm_bindgen::preserve`], for a JavaScript value that may be missing.
pub(crate) mod preserve_option {
    use serde::{Deserializer, Serializer};
    use wasm_bindgen::{JsCast, JsValue};

    pub(crate) fn serialize<S: Serializer, T: JsCast>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serde_wasm_bindgen::preserve::serialize(value, serializer),
            None => serde_wasm_bindgen::preserve::serialize(&JsValue::UNDEFINED, serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: JsCast>(deserializer: D) -> Result<Option<T>, D::Error> {
        let value: JsValue = serde_wasm_bindgen::preserve::deserialize(deserializer)?;
        Ok(value.dyn_into().ok())
    }
}
