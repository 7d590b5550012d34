//! Encodes MessagePack in memory.

use rmp::encode::{self, ByteBuf};
use serde_json::Value;

/// Encodes values one after another. The caller writes as many entries as it declared at the start of a map or array.
///
/// The output is part of a chunk, which is far shorter than 4 GiB, the maximum length in MessagePack.
#[derive(Default)]
pub(super) struct Packer(ByteBuf);

impl Packer {
    pub(super) fn map(&mut self, entries: usize) {
        let Ok(_) = encode::write_map_len(&mut self.0, entries as u32);
    }

    pub(super) fn array(&mut self, items: usize) {
        let Ok(_) = encode::write_array_len(&mut self.0, items as u32);
    }

    pub(super) fn text(&mut self, text: &str) {
        let Ok(()) = encode::write_str(&mut self.0, text);
    }

    /// Writes an unsigned integer in the shortest encoding.
    pub(super) fn uint(&mut self, number: u64) {
        let Ok(_) = encode::write_uint(&mut self.0, number);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let Ok(()) = encode::write_bin(&mut self.0, bytes);
    }

    pub(super) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => {
                let Ok(()) = encode::write_nil(&mut self.0);
            }
            Value::Bool(value) => {
                let Ok(()) = encode::write_bool(&mut self.0, *value);
            }
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => self.uint(number),
                (None, Some(number)) => {
                    let Ok(_) = encode::write_sint(&mut self.0, number);
                }
                (None, None) => {
                    let Ok(()) = encode::write_f64(&mut self.0, number.as_f64().unwrap_or_default());
                }
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.array(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Object(entries) => {
                self.map(entries.len());
                for (key, value) in entries {
                    self.text(key);
                    self.value(value);
                }
            }
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn matches_the_examples_of_the_messagepack_specification() {
        let mut packer = Packer::default();
        packer.value(&json!({ "compact": true, "schema": [0, -1, 1.5, null, 300] }));
        packer.bytes(&[7, 8]);
        let expected =
            b"\x82\xa7compact\xc3\xa6schema\x95\x00\xff\xcb\x3f\xf8\0\0\0\0\0\0\xc0\xcd\x01\x2c\xc4\x02\x07\x08";
        assert_eq!(packer.into_bytes(), expected);
    }
}
