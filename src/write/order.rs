//! The order in which tensors are written, which is the order in which a streaming reader receives them.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::output::target::shares_bytes;
use std::collections::HashMap;

/// The order of tensors in the new file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorOrder {
    /// As in the source.
    #[default]
    Source,
    /// As a model computes: embeddings, then layer by layer, then the rest, such as the head; an encoder before its
    /// decoder. Layers are recognised by the number in the names, as in `model.layers.0.mlp.weight`,
    /// `blk.0.attn_q.weight` and `encoder/layer_0/kernel`. Tensors of a layer keep the order of the source.
    Layers,
    /// These tensors first, in this order, then the others as in the source.
    Names(Vec<String>),
}

impl TensorOrder {
    /// Whether the first tensors are those that a reader needs first.
    pub(super) fn is_for_streaming(&self) -> bool {
        *self != TensorOrder::Source
    }

    /// Sorts the tensors. Tied tensors stay together, at the place of the first of them.
    ///
    /// # Errors
    /// `NOT_FOUND` for a name that no tensor has; `INVALID_ARGUMENT` for one that occurs twice.
    pub(super) fn sort(&self, tensors: &mut Vec<Tensor>) -> Result<()> {
        let keys: Vec<Key> = match self {
            TensorOrder::Source => return Ok(()),
            TensorOrder::Layers => tensors.iter().map(|tensor| Key::of_name(&tensor.name)).collect(),
            TensorOrder::Names(names) => positions(names, tensors)?,
        };
        let mut groups: Vec<(Key, Vec<Tensor>)> = Vec::new();
        for (tensor, key) in std::mem::take(tensors).into_iter().zip(keys) {
            match groups.last_mut().filter(|(_, tied)| tied.last().is_some_and(|last| shares_bytes(last, &tensor))) {
                Some((first, tied)) => {
                    tied.push(tensor);
                    *first = key.min(*first);
                }
                None => groups.push((key, vec![tensor])),
            }
        }
        groups.sort_by_key(|(key, _)| *key); // stable
        tensors.extend(groups.into_iter().flat_map(|(_, tied)| tied));
        Ok(())
    }
}

/// Where a tensor belongs: in an encoder, a decoder or behind them; before, in or behind the layers; the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u8, u8, u64);

impl Key {
    fn of_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let words: Vec<&str> = name.split(['.', '/', '_', ':']).collect();
        let number = words.iter().find_map(|word| word.parse::<u64>().ok());
        let is_embedding = ["embed", "embd", "wte", "wpe"].iter().any(|part| name.contains(part));
        let (part, layer) = match number {
            Some(layer) => (1, layer),
            None if is_embedding => (0, 0),
            None => (2, 0),
        };
        let stack = if words.contains(&"decoder") {
            1
        } else if words.contains(&"encoder") || part < 2 {
            0
        } else {
            2
        };
        Key(stack, part, layer)
    }
}

/// The keys that put the tensors in the order of `names`.
fn positions(names: &[String], tensors: &[Tensor]) -> Result<Vec<Key>> {
    let mut places = HashMap::new();
    for (place, name) in names.iter().enumerate() {
        if places.insert(name.as_str(), place as u64).is_some() {
            let what = "the order lists this tensor twice";
            return Err(Error::new(ErrorKind::InvalidArgument, what).in_tensor(name));
        }
    }
    let keys: Vec<_> = tensors
        .iter()
        .map(|tensor| places.remove(tensor.name.as_str()).map_or(Key(1, 0, 0), |place| Key(0, 0, place)))
        .collect();
    match names.iter().find(|name| places.contains_key(name.as_str())) {
        None => Ok(keys),
        Some(name) => {
            let error = Error::new(ErrorKind::NotFound, "the order lists a tensor that is not written");
            Err(error.in_tensor(name))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::index::Component;

    fn sorted(order: &TensorOrder, names: &[&str]) -> Result<Vec<String>> {
        let tensor = |(at, name): (usize, &&str)| {
            let start = if name.starts_with("tied") { 4096 } else { 64 * at as u64 };
            let data = Component::raw(Dtype::U8, start..start + 8);
            Tensor::dense((*name).to_owned(), Dtype::U8, vec![8], data)
        };
        let mut tensors = names.iter().enumerate().map(tensor).collect();
        order.sort(&mut tensors).map(|()| tensors.into_iter().map(|tensor| tensor.name).collect())
    }

    #[test]
    fn layers_come_in_the_order_of_the_computation() {
        for expected in [
            vec![
                "model.embed_tokens.weight",
                "model.layers.0.w",
                "model.layers.2.w",
                "model.layers.10.w",
                "lm_head.weight",
            ],
            vec![
                "token_embd.weight",
                "blk.0.attn_q.weight",
                "blk.0.attn_k.weight",
                "blk.11.attn_q.weight",
                "output.weight",
            ],
            vec!["wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.1.attn.weight", "ln_f.weight"],
            vec!["embeddings.LayerNorm.bias", "encoder.layer.0.a", "encoder.layer.1.a", "pooler.dense.bias"],
            vec![
                "encoder.embed_positions.weight",
                "encoder.layers.0.w",
                "encoder.layers.1.w",
                "encoder.norm.weight",
                "decoder.embed_tokens.weight",
                "decoder.layers.0.w",
                "decoder.layers.1.w",
                "lm_head.weight",
            ],
            vec!["encoder/layer_2/kernel", "encoder/layer_10/kernel", "head/kernel"],
        ] {
            let reversed: Vec<_> = expected.iter().rev().copied().collect();
            assert_eq!(sorted(&TensorOrder::Layers, &expected).unwrap(), expected);
            let from_reversed = sorted(&TensorOrder::Layers, &reversed).unwrap();
            let keys = |names: &[String]| names.iter().map(|name| Key::of_name(name)).collect::<Vec<_>>();
            let expected: Vec<_> = expected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(keys(&from_reversed), keys(&expected), "{from_reversed:?}");
        }
    }

    #[test]
    fn named_tensors_come_first_and_tied_ones_stay_together() {
        let order = |names: &[&str]| TensorOrder::Names(names.iter().map(|name| (*name).to_owned()).collect());
        let names = ["a", "b", "tied 1", "tied 2", "c"];
        assert_eq!(sorted(&order(&["c", "tied 2"]), &names).unwrap(), ["c", "tied 1", "tied 2", "a", "b"]);
        assert_eq!(sorted(&TensorOrder::Source, &names).unwrap(), names);
        assert_eq!(sorted(&order(&["c", "d"]), &names).unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(sorted(&order(&["c", "c"]), &names).unwrap_err().kind, ErrorKind::InvalidArgument);
    }
}
