//! Detects ONNX files, which have no magic.

use super::fields::model;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Whether the file begins like a ModelProto: with fields of the message, in any order, as far as they are in `head`.
/// Nearly every tool writes the IR version first.
pub(super) fn recognises(head: &[u8]) -> bool {
    let (mut rest, mut fields, mut has_version) = (head, 0, false);
    // The keys of these fields are also characters at the beginning of texts, and their content may be any.
    let is_text = head.first().is_some_and(|key| matches!(key, b'"' | b'(' | b'2'));
    while let Some(&first) = rest.first() {
        let is_cut = first >= 0x80 && rest.len() < 2;
        if is_cut {
            break;
        }
        let Ok((number, wire_type)) = decode_key(&mut rest) else { return false };
        let Ok(varint) = decode_varint(&mut rest) else { break }; // cut, as 10 bytes are never needed here
        fields += 1;
        match (wire_type, number) {
            (WireType::Varint, model::IR_VERSION) if (1..=0x7f).contains(&varint) => has_version = true,
            (WireType::Varint, model::MODEL_VERSION) => {}
            (WireType::LengthDelimited, _) => {
                let length = usize::try_from(varint).unwrap_or(usize::MAX);
                let known = rest.get(..length).unwrap_or(rest);
                if !is_plausible(number, known, length, has_version) {
                    return false;
                }
                rest = rest.get(length..).unwrap_or_default();
            }
            _ => return false,
        }
    }
    if has_version { fields > 1 } else { fields > usize::from(is_text) && !is_length_of_json(head) }
}

/// Whether a field of the model, of which `known` bytes of `length` are known, may have this content.
fn is_plausible(number: u32, known: &[u8], length: usize, has_version: bool) -> bool {
    match number {
        model::PRODUCER_NAME..=model::DOMAIN | model::DOC_STRING => {
            // Other Protobuf files have messages in these fields. Texts may have control characters.
            let has_controls = known.iter().any(|&byte| byte < b' ' && !b"\t\n\r".contains(&byte));
            !(has_controls && is_message(known, length))
        }
        // Without the version, the first field of the message inside is checked, too.
        model::GRAPH if !has_version => is_message(known, length) && begins_with(known, &GRAPH_FIELDS),
        model::OPSET_IMPORT | model::METADATA_PROPS if !has_version => {
            is_message(known, length) && begins_with(known, &[1, 2])
        }
        model::GRAPH
        | model::OPSET_IMPORT
        | model::METADATA_PROPS
        | model::TRAINING_INFO
        | model::FUNCTIONS
        | model::CONFIGURATION => {
            // A message begins with the key of one of its first 31 fields, and has no groups.
            known.first().is_none_or(|&key| key >= 8 && matches!(key & 7, 0 | 2))
        }
        _ => false,
    }
}

/// Whether the first field of a message, if it is known, is one of these.
fn begins_with(message: &[u8], fields: &[u8]) -> bool {
    message.first().is_none_or(|key| fields.contains(&(key >> 3)) && matches!(key & 7, 0 | 2))
}

/// The fields of a graph.
const GRAPH_FIELDS: [u8; 10] = [1, 2, 5, 10, 11, 12, 13, 14, 15, 16];

/// Whether the bytes look like the beginning of a Protobuf message of `length` bytes.
fn is_message(mut known: &[u8], length: usize) -> bool {
    let mut left = length;
    while !known.is_empty() {
        let before = known.len();
        let Ok((_, wire_type)) = decode_key(&mut known) else { return false };
        let skipped = match wire_type {
            WireType::Varint => decode_varint(&mut known).map(|_| 0),
            WireType::LengthDelimited => decode_varint(&mut known),
            WireType::SixtyFourBit => Ok(8),
            WireType::ThirtyTwoBit => Ok(4),
            WireType::StartGroup | WireType::EndGroup => return false,
        };
        let Ok(skipped) = skipped else { return left > before }; // cut by the end of what is known
        let taken = (before - known.len()) as u64;
        let Some(rest) = (left as u64).checked_sub(taken).and_then(|left| left.checked_sub(skipped)) else {
            return false;
        };
        left = usize::try_from(rest).unwrap_or(usize::MAX);
        known = usize::try_from(skipped).ok().and_then(|skipped| known.get(skipped..)).unwrap_or_default();
    }
    true
}

/// Whether the file begins like SafeTensors: with a length of 8 bytes before a JSON object.
fn is_length_of_json(head: &[u8]) -> bool {
    let Some((length, text)) = head.split_first_chunk::<8>() else { return false };
    length.ends_with(&[0; 4]) && text.first().is_some_and(|byte| b"{ \n\t\r".contains(byte))
}
