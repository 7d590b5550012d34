//! Reads messages of protocol buffers, for tests that look into ONNX files.

use anyhow::{Context, Result, bail};

/// A message: its fields by number.
pub struct Message<'a>(Vec<(u64, Content<'a>)>);

enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads the fields of a message.
pub fn message(mut bytes: &[u8]) -> Result<Message<'_>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let content = match tag & 7 {
            0 => Content::Number(varint(&mut bytes)?),
            1 => Content::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = varint(&mut bytes)?;
                Content::Bytes(take(&mut bytes, length)?)
            }
            5 => Content::Bytes(take(&mut bytes, 4)?),
            other => bail!("unknown wire type {other}"),
        };
        fields.push((tag >> 3, content));
    }
    Ok(Message(fields))
}

impl<'a> Message<'a> {
    fn of(&self, number: u64) -> impl Iterator<Item = &Content<'a>> {
        self.0.iter().filter(move |(field, _)| *field == number).map(|(_, content)| content)
    }

    /// The fields with this number that are strings, bytes or messages.
    pub fn bytes(&self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.of(number).filter_map(|content| match content {
            Content::Bytes(bytes) => Some(*bytes),
            Content::Number(_) => None,
        })
    }

    /// The first field with this number, as text.
    pub fn text(&self, number: u64) -> Result<String> {
        let bytes = self.bytes(number).next().with_context(|| format!("field {number} is missing"))?;
        Ok(String::from_utf8(bytes.to_vec())?)
    }

    /// The numbers with this number of a field, packed or not.
    pub fn numbers(&self, number: u64) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for content in self.of(number) {
            match content {
                Content::Number(number) => numbers.push(*number),
                Content::Bytes(bytes) => {
                    let mut rest = *bytes;
                    while !rest.is_empty() {
                        numbers.push(varint(&mut rest)?);
                    }
                }
            }
        }
        Ok(numbers)
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?.first().copied().unwrap_or_default();
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    bail!("a number has more than 64 bits")
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length)?).context("a field ends too early")?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_their_numbers() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1a, 3, 1, 0x80, 2, 0x25, 0, 0, 0, 0];
        let message = message(&bytes).unwrap();
        assert_eq!(message.numbers(1).unwrap(), [150]);
        assert_eq!(message.text(2).unwrap(), "hi");
        assert_eq!(message.numbers(3).unwrap(), [1, 256]);
        assert!(message.text(9).is_err());
        assert!((1..bytes.len()).filter(|end| super::message(&bytes[..*end]).is_err()).count() > 6, "cut fields");
    }
}
