//! Fields of JSON objects. As in JSON that Protocol Buffers write, a field that is null is absent.

use crate::refusal::{Refusal, invalid};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// An object and its path in the JSON document, for messages.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    path: String,
    object: &'a Value,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(path: impl Into<String>, object: &'a Value) -> Result<Self, Refusal> {
        let path = path.into();
        match object.is_object() {
            true => Ok(Fields { path, object }),
            false => Err(invalid(format!("`{path}` of the signature is not an object"))),
        }
    }

    /// Refuses fields with other names. model-signing does not ignore them either: they might restrict the signature.
    pub(crate) fn only(self, names: &[&str]) -> Result<Self, Refusal> {
        let mut found = self.object.as_object().into_iter().flatten();
        match found.find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, _)) => {
                Err(invalid(format!("the signature has the unknown field `{}`", shortened(&self.path_of(name)))))
            }
            None => Ok(self),
        }
    }

    /// Whether there is a field, even if it is null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.get(name).is_some()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn object(&self, name: &str) -> Result<Fields<'a>, Refusal> {
        let object = self.get(name).ok_or_else(|| self.missing("object", name))?;
        Fields::new(self.path_of(name), object)
    }

    pub(crate) fn optional_object(&self, name: &str) -> Result<Option<Fields<'a>>, Refusal> {
        self.get(name).map(|object| Fields::new(self.path_of(name), object)).transpose()
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str, Refusal> {
        self.get(name).and_then(Value::as_str).ok_or_else(|| self.missing("text", name))
    }

    pub(crate) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.get(name).map(|text| text.as_str().ok_or_else(|| self.missing("text", name))).transpose()
    }

    pub(crate) fn list(&self, name: &str) -> Result<&'a [Value], Refusal> {
        self.get(name).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| self.missing("list", name))
    }

    pub(crate) fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>, Refusal> {
        self.list(name)?.iter().map(|object| Fields::new(self.path_of(name), object)).collect()
    }

    /// The bytes of a text in Base64, which may have line breaks.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        let text: Vec<u8> = self.text(name)?.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        STANDARD
            .decode(text)
            .map_err(|error| invalid(format!("`{}` of the signature is invalid base64: {error}", self.path_of(name))))
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn missing(&self, kind: &str, name: &str) -> Refusal {
        invalid(format!("the signature has no {kind} `{}`", self.path_of(name)))
    }
}

/// The start of a text of the signature, for messages.
pub(crate) fn shortened(text: &str) -> String {
    const MAX_CHARACTERS: usize = 100;
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
