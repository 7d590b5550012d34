//! Names of tensors that llama.cpp does not know: `convert` keeps the names, and llama.cpp has names of its own.

use weightstream::internals::index::Tensor;

/// What the names of llama.cpp begin with.
const OF_LLAMA_CPP: [&str; 3] = ["blk.", "token_embd.", "enc.blk."];

/// What precedes the number of a layer in the names of Hugging Face.
const OF_HUGGING_FACE: [&str; 6] = ["layers", "layer", "h", "block", "blocks", "resblocks"];

/// A name of Hugging Face, such as `model.layers.0.mlp.up_proj.weight`, if no name is one of llama.cpp.
pub(super) fn foreign_name(tensors: &[Tensor]) -> Option<&str> {
    let names = || tensors.iter().map(|tensor| &*tensor.name);
    let is_known = |name: &str| OF_LLAMA_CPP.iter().any(|start| name.starts_with(start));
    if names().any(is_known) { None } else { names().find(|name| is_of_hugging_face(name)) }
}

/// Whether a segment of the name is the number of a layer.
fn is_of_hugging_face(name: &str) -> bool {
    let segments = || name.split('.');
    let mut pairs = segments().zip(segments().skip(1));
    pairs.any(|(layer, number)| OF_HUGGING_FACE.contains(&layer) && number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_hugging_face_are_recognised() {
        for name in [
            "model.layers.0.self_attn.q_proj.weight",
            "bert.encoder.layer.11.output.dense.bias",
            "h.0.attn.c_attn.weight",
            "encoder.block.0.layer.0.SelfAttention.q.weight",
        ] {
            assert!(is_of_hugging_face(name), "{name}");
        }
        for name in ["blk.0.attn_q.weight", "weight", "layers.x", "a.h.weight"] {
            assert!(!is_of_hugging_face(name), "{name}");
        }
    }
}
