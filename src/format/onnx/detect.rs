//! Detects ONNX files, which have no magic.

use super::fields::model;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Whether the file begins like a ModelProto: with the IR version, which every tool writes first, and then with other
/// fields of the message, as far as they are in `head`.
pub(super) fn recognises(head: &[u8]) -> bool {
    let mut rest = head;
    let mut next = || decode_key(&mut rest).ok().zip(decode_varint(&mut rest).ok());
    if !matches!(next(), Some(((model::IR_VERSION, WireType::Varint), 1..=0x7f))) {
        return false;
    }
    let mut fields = 0;
    while let Some(&first) = rest.first() {
        let is_cut = first >= 0x80 && rest.len() < 2;
        if is_cut {
            break;
        }
        let Ok((number, wire_type)) = decode_key(&mut rest) else { return false };
        let is_text = matches!(number, model::PRODUCER_NAME..=model::DOMAIN | model::DOC_STRING);
        let is_message = matches!(
            number,
            model::GRAPH
                | model::OPSET_IMPORT
                | model::METADATA_PROPS
                | model::TRAINING_INFO
                | model::FUNCTIONS
                | model::CONFIGURATION
        );
        match wire_type {
            WireType::LengthDelimited if is_text || is_message => {}
            WireType::Varint if number == model::MODEL_VERSION => {}
            _ => return false,
        }
        fields += 1;
        let Ok(varint) = decode_varint(&mut rest) else { break }; // cut, as 10 bytes are never needed here
        if wire_type == WireType::Varint {
            continue;
        }
        let length = usize::try_from(varint).unwrap_or(usize::MAX);
        let known = rest.get(..length).unwrap_or(rest);
        let is_plausible = match is_text {
            true => known.iter().all(|&byte| byte >= b' ' || b"\t\n\r".contains(&byte)),
            // A message begins with the key of one of its first 31 fields, and has no groups.
            false => known.first().is_none_or(|&key| key >= 8 && matches!(key & 7, 0 | 2)),
        };
        if !is_plausible {
            return false;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    fields > 0
}
