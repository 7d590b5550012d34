//! The positions of the LZ4 blocks of each tensor, in the metadata of the file. With them, rows of a tensor are read
//! without the blocks before them. Only weightstream writes them; other readers ignore the key.

use crate::codec::lz4::{LENGTH_BYTES, MAX_BLOCK_BYTES};
use crate::error::{Result, malformed};
use crate::index::{Blocks, Component, Encoding, Metadata, Tensor};
use serde_json::Value;

/// The key of the metadata. Its value is an object of tensor names. The value of a tensor is a text of six hexadecimal
/// digits for each block: its compressed length, without the length field. Every block but the last has 64 KiB decoded.
/// Tensors of one block are left out.
pub(super) const KEY: &str = "weightstream.lz4_blocks";

/// The digits of a length. The longest block has 0x10110 bytes.
pub(super) const DIGITS: usize = 6;

/// Takes the block lengths out of the metadata. Returns the blocks by the offsets of their components. They are a hint:
/// what is wrong is left out, with a warning, and the loader compares the others with the blocks that it reads.
pub(super) fn take(metadata: &mut Metadata, tensors: &[Tensor], warnings: &mut Vec<String>) -> Vec<(u64, Blocks)> {
    let mut found = Vec::new();
    let Some(stated) = metadata.shift_remove(KEY) else { return found };
    for tensor in tensors {
        let (Some(lengths), [component]) = (stated.get(&tensor.name), tensor.components.as_slice()) else {
            continue;
        };
        match blocks(component, lengths) {
            Ok(blocks) => found.push((component.range.start, blocks)),
            Err(error) => warnings.push(format!(
                "the block lengths of tensor \"{}\" in the metadata are ignored: {}",
                tensor.name, error.what
            )),
        }
    }
    found
}

fn blocks(component: &Component, lengths: &Value) -> Result<Blocks> {
    let lengths = lengths.as_str().filter(|_| component.encoding == Encoding::Lz4Blocks);
    let lengths = lengths.ok_or_else(|| malformed("they are not text, or the tensor has no LZ4 blocks"))?;
    let mut left = component.decoded_length.unwrap_or(0);
    let mut sizes = Vec::with_capacity(lengths.len() / DIGITS);
    for digits in lengths.as_bytes().chunks(DIGITS) {
        let length = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == DIGITS);
        let length = length.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let length = length.ok_or_else(|| malformed("they are not hexadecimal numbers of six digits"))?;
        let decoded = left.min(MAX_BLOCK_BYTES as u64);
        left -= decoded;
        sizes.push((LENGTH_BYTES as u64 + u64::from(length), decoded));
    }
    Blocks::all(component, sizes.into_iter())
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use serde_json::json;

    fn taken(lengths: Value) -> (Option<Blocks>, Vec<String>) {
        let mut component = Component::raw(Dtype::U8, 100..100 + 0x120 + 8);
        component.encoding = Encoding::Lz4Blocks;
        component.decoded_length = Some(65536 + 10);
        let tensors = [Tensor::dense("t".to_owned(), Dtype::U8, vec![65546], component)];
        let mut metadata = json!({ "a": 1, KEY: { "t": lengths } }).as_object().cloned().unwrap();
        let mut warnings = Vec::new();
        let mut blocks = take(&mut metadata, &tensors, &mut warnings);
        assert_eq!(metadata, json!({ "a": 1 }).as_object().cloned().unwrap());
        (blocks.pop().map(|(_, blocks)| blocks), warnings)
    }

    #[test]
    fn reads_the_lengths_of_all_blocks() {
        let (blocks, warnings) = taken(json!("000100000020"));
        let last = blocks.unwrap().last();
        assert_eq!((last.stored, last.decoded), (0x120 + 8, 65546));
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn wrong_lengths_are_ignored_with_a_warning() {
        for wrong in [
            json!("000100000021"),
            json!("000100"),
            json!("00010000002"),
            json!("00010000002g"),
            json!("0001é0000020"),
            json!([256, 32]),
            json!(""),
            json!("000100000020000000"),
        ] {
            let (blocks, warnings) = taken(wrong.clone());
            assert_eq!(blocks, None, "{wrong}");
            assert!(warnings[0].contains("the block lengths of tensor \"t\""), "{warnings:?}");
        }
    }
}
