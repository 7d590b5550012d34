//! Messages between threads: plain objects with named fields. `type` is the kind of the message, and `number` that of
//! the request or task that it belongs to.
//!
//! The fields are read and written by hand: with serde, the module is 50 KiB larger.

use js_sys::{Array, Object, Reflect};
use wasm_bindgen::{JsCast, JsValue};

/// A message of a thread to another, with its number.
#[derive(Debug)]
pub(crate) struct Message<T> {
    pub(crate) number: u32,
    pub(crate) body: T,
}

/// A message that can be sent.
pub(crate) trait Body: Sized {
    /// The fields, and the buffers to transfer instead of copying them.
    fn encode(self) -> (Fields, Array);

    /// `None` if the fields are not those of such a message.
    fn decode(fields: &Fields) -> Option<Self>;
}

impl<T: Body> Message<T> {
    /// The message, and the buffers to transfer.
    pub(crate) fn encode(self) -> (JsValue, Array) {
        let (fields, transferred) = self.body.encode();
        (fields.with("number", self.number).into(), transferred)
    }

    /// Decodes the data of a message event.
    pub(crate) fn decode(event: &JsValue) -> Option<Self> {
        let fields = Fields(Reflect::get(event, &"data".into()).ok()?.dyn_into().ok()?);
        Some(Message { number: fields.number("number")? as u32, body: T::decode(&fields)? })
    }
}

/// The fields of a message, or of an object in one.
#[derive(Debug)]
pub(crate) struct Fields(Object);

impl Fields {
    /// An object without fields.
    pub(crate) fn new() -> Self {
        Fields(Object::new())
    }

    /// A message of this type.
    pub(crate) fn of_type(name: &str) -> Self {
        Fields::new().with("type", name)
    }

    /// The fields of a value, if it is an object.
    pub(crate) fn of(value: JsValue) -> Option<Self> {
        value.dyn_into().ok().map(Fields)
    }

    pub(crate) fn with(self, name: &str, value: impl Into<JsValue>) -> Self {
        Reflect::set(&self.0, &name.into(), &value.into()).ok(); // a new object accepts any property
        self
    }

    /// Adds an integer of at most 2^53 as a number, and a larger one as a bigint.
    pub(crate) fn with_number(self, name: &str, value: u64) -> Self {
        let number = value as f64;
        let is_exact = number <= js_sys::Number::MAX_SAFE_INTEGER;
        self.with(name, if is_exact { number.into() } else { JsValue::from(value) })
    }

    /// Adds an integer, unless it is `None`.
    pub(crate) fn with_optional(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.with_number(name, value),
            None => self,
        }
    }

    pub(crate) fn get(&self, name: &str) -> JsValue {
        Reflect::get(&self.0, &name.into()).unwrap_or_default()
    }

    /// The field `type`.
    pub(crate) fn kind(&self) -> Option<String> {
        self.text("type")
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).as_string()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let value = self.get(name);
        value.as_f64().map(|number| number as u64).or_else(|| u64::try_from(value).ok())
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_truthy()
    }

    pub(crate) fn object<T: JsCast>(&self, name: &str) -> Option<T> {
        self.get(name).dyn_into().ok()
    }
}

impl From<Fields> for JsValue {
    fn from(fields: Fields) -> Self {
        fields.0.into()
    }
}
