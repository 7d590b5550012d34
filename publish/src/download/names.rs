//! The names of files of models. Build tools, package managers and shells run or obey files with other names, and a
//! manifest or a repository may come from others: so only known names are written.

use std::path::Path;
use weightstream::internals::format;
use weightstream::internals::write::format_of_name;

/// The extensions of files of tensors without a format of their own: of raw data.
const RAW_EXTENSIONS: [&str; 4] = [".bin", ".data", ".onnx_data", ".weight"];

/// The names of the files that programs read with a model: configurations, tokenizers and templates.
const BESIDE_NAMES: [&str; 17] = [
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "config_sentence_transformers.json",
    "merges.txt",
    "mlc-chat-config.json",
    "model_index.json",
    "modules.json",
    "normalizer.json",
    "params.json",
    "special_tokens_map.json",
    "tekken.json",
    "tokenizer.json",
    "vocab.bpe",
    "vocab.json",
    "vocab.txt",
];

/// Starts and ends of the names of other such files.
const BESIDE_PATTERNS: [(&str, &str); 4] =
    [("tokenizer", ".json"), ("chat_template", ".jinja"), ("", "_config.json"), ("", ".model")];

/// The end of the names of indexes. One beside the model is that of another model.
const INDEX: &str = ".index.json";

/// Whether `publish` gives a file such a name.
pub(super) fn is_published(name: &str) -> bool {
    !name.ends_with(".json") && format_of_name(Path::new(name)).is_some()
}

/// Whether a file of tensors has such a name.
pub(super) fn is_part(name: &str) -> bool {
    let name = name.to_lowercase();
    let has = |extension: &&str| name.len() > extension.len() && name.ends_with(extension);
    let extensions = format::formats().iter().flat_map(|format| format.extensions);
    // Of JSON documents, build tools obey many.
    extensions.filter(|extension| **extension != ".json").chain(&RAW_EXTENSIONS).any(has)
}

/// Whether a file beside the model of a repository is one that programs read with it, by its path or its name.
pub(super) fn is_beside(path: &str) -> bool {
    let is_hidden = path.split('/').any(|name| name.starts_with('.'));
    let name = path.rsplit('/').next().unwrap_or(path);
    let fits = |(start, end): &(&str, &str)| {
        name.len() > start.len().max(end.len()) && name.starts_with(start) && name.ends_with(end)
    };
    let is_known = BESIDE_NAMES.contains(&name) || BESIDE_PATTERNS.iter().any(fits);
    is_known && !is_hidden && !name.ends_with(INDEX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_belong_to_models_are_downloaded() {
        for name in ["m.gguf", "model-00001-of-00002.safetensors", "model.onnx_data", "w.bin", "M.GGUF"] {
            assert!(is_part(name) && !is_beside(name), "{name}");
        }
        for name in ["config.json", "1_Pooling/config.json", "tokenizer.model", "tokenizer_config.json", "vocab.txt"] {
            assert!(is_beside(name) && !is_part(name), "{name}");
        }
        let hostile = [
            "run.sh",
            "Makefile",
            "setup.py",
            ".gguf",
            "a.gguf.exe",
            "pytorch_model.bin.index.json",
            "package.json",
            "requirements.txt",
            "CMakeLists.txt",
            ".x/config.json",
            ".model",
            "vocab.py",
            "README.md",
        ];
        for name in hostile {
            assert!(!is_part(name) && !is_beside(name), "{name}");
        }
    }
}
