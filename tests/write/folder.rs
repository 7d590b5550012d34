//! Folders of Hugging Face, and the metadata and vocabulary that EMBD takes from them, from GGUF and from APR.

use super::model::{Folder, noise, required_by_embd, safetensors_file, to};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use weightstream::ErrorKind;
use weightstream::internals::format::{apr, embd, gguf};
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, ConvertOptions, folder_metadata};

const TOKENS: [&str; 7] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "##ing"];

/// Writes a folder as `save_pretrained` does, with a model of one matrix.
fn hugging_face(folder: &Folder, config: &Value) -> PathBuf {
    let path = folder.path("tiny-bert");
    fs::create_dir(&path).unwrap();
    let tensors = [("embeddings.weight", "F32", &[7, 4][..], noise(1, 112))];
    fs::write(path.join("model.safetensors"), safetensors_file(json!({ "format": "pt" }), &tensors)).unwrap();
    fs::write(path.join("config.json"), config.to_string()).unwrap();
    path
}

fn config() -> Value {
    json!({
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 4, "intermediate_size": 16,
        "max_position_embeddings": 512, "num_attention_heads": 2, "num_hidden_layers": 6, "vocab_size": 7,
    })
}

fn tokenizer(tokens: &[&str]) -> Value {
    let ids: Map<String, Value> = tokens.iter().zip(0..).map(|(token, id)| ((*token).to_owned(), id.into())).collect();
    let added = json!([{ "id": tokens.len() + 1, "content": "<added>", "special": false }]);
    json!({ "version": "1.0", "model": { "type": "WordPiece", "vocab": ids }, "added_tokens": added })
}

fn options(folder: &Path, format: &'static weightstream::internals::format::Format) -> ConvertOptions {
    to(format).metadata(folder_metadata(folder, format).unwrap())
}

fn metadata_of(path: &Path) -> Map<String, Value> {
    Reader::open(path).unwrap().metadata().metadata.clone()
}

#[test]
fn a_folder_has_all_keys_and_the_vocabulary_that_embd_requires() {
    let folder = Folder::new();
    let path = hugging_face(&folder, &config());
    fs::write(path.join("vocab.txt"), TOKENS.join("\n") + "\n").unwrap();
    let converted = folder.convert(&path, "m.weights", &options(&path, &embd::FORMAT)).unwrap();
    assert_eq!(converted.warnings, ["a config.json has no version: `model_version` is \"unknown\""]);

    let metadata = metadata_of(&folder.path("m.weights"));
    let expected = [
        ("model_name", "tiny-bert"),
        ("model_version", "unknown"),
        ("embedding_dim", "4"),
        ("vocab_size", "7"),
        ("num_layers", "6"),
        ("num_attention_heads", "2"),
        ("hidden_size", "4"),
        ("intermediate_size", "16"),
        ("max_position_emb", "512"),
    ];
    for (key, value) in expected {
        assert_eq!(metadata[key], value, "{key}");
    }
    let created = metadata["created_at"].as_str().unwrap();
    assert!(created.len() == 20 && created.starts_with("20") && created.ends_with('Z'), "{created}");
    let ids = json!({ "pad_id": 0, "unk_id": 1, "cls_id": 2, "sep_id": 3, "mask_id": 4 });
    assert_eq!(metadata["vocabulary"], json!({ "tokens": TOKENS, "special_tokens": ids }));
}

#[test]
fn a_tokenizer_has_its_added_tokens_and_empty_ones_for_missing_ids() {
    let folder = Folder::new();
    let path = hugging_face(&folder, &config());
    fs::write(path.join("tokenizer.json"), tokenizer(&TOKENS).to_string()).unwrap();
    fs::write(path.join("vocab.txt"), "ignored").unwrap();
    let metadata = folder_metadata(&path, &embd::FORMAT).unwrap();
    let mut expected = TOKENS.to_vec();
    expected.extend(["", "<added>"]);
    assert_eq!(metadata["vocabulary"]["tokens"], json!(expected));

    fs::write(path.join("tokenizer_config.json"), r#"{ "mask_token": { "content": "<added>" } }"#).unwrap();
    let metadata = folder_metadata(&path, &embd::FORMAT).unwrap();
    assert_eq!(metadata["vocabulary"]["special_tokens"]["mask_id"], 8);

    let unigram = json!({ "model": { "type": "Unigram", "vocab": [["<s>", 0.0], ["a", -1.5]] } });
    fs::write(path.join("tokenizer.json"), unigram.to_string()).unwrap();
    fs::remove_file(path.join("tokenizer_config.json")).unwrap();
    let metadata = folder_metadata(&path, &embd::FORMAT).unwrap();
    assert_eq!(metadata["vocabulary"], json!({ "tokens": ["<s>", "a"] })); // it has no special tokens of BERT

    for damaged in ["{", "[]", "{}", r#"{ "model": { "vocab": { "a": -1 } } }"#] {
        fs::write(path.join("tokenizer.json"), damaged).unwrap();
        let error = folder_metadata(&path, &embd::FORMAT).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{damaged}");
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
    }
}

#[test]
fn every_format_takes_a_folder() {
    let folder = Folder::new();
    let path = hugging_face(&folder, &config());
    fs::write(path.join("tokenizer.json"), tokenizer(&TOKENS).to_string()).unwrap();
    for format in write::formats() {
        let options = ConvertOptions::default().format(format);
        let options = options.metadata(folder_metadata(&path, format).unwrap());
        folder.convert(&path, "out", &options).unwrap();
        let metadata = metadata_of(&folder.path("out"));
        let number = |key: &str| metadata[key].as_str().map_or_else(|| metadata[key].to_string(), str::to_owned);
        assert_eq!(
            (number("num_hidden_layers"), number("hidden_size")),
            ("6".to_owned(), "4".to_owned()),
            "{format:?}"
        );
        match format.name {
            "apr" => assert_eq!(metadata["vocab"][6], "##ing"),
            "embd" => assert_eq!(metadata["vocabulary"]["tokens"][6], "##ing"),
            "gguf" => {
                assert_eq!(metadata["tokenizer.ggml.tokens"][6], "##ing");
                assert_eq!(metadata["tokenizer.ggml.mask_token_id"], 4);
                assert_eq!(metadata["general.architecture"], "bert");
            }
            _ => assert!(!metadata.contains_key("vocabulary"), "{format:?}"),
        }
        // The keys that EMBD requires can be filled in from every format.
        folder.convert("out", "back.weights", &ConvertOptions::default()).unwrap();
        let back = metadata_of(&folder.path("back.weights"));
        assert_eq!((&back["num_layers"], &back["model_name"]), (&json!("6"), &json!("tiny-bert")), "{format:?}");
        let has_vocabulary = ["apr", "embd", "gguf"].contains(&format.name);
        let ids = has_vocabulary.then(|| back["vocabulary"]["special_tokens"]["sep_id"].clone());
        assert_eq!(ids, has_vocabulary.then(|| json!(3)), "{format:?}");
    }
}

#[test]
fn missing_keys_are_named() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({ "format": "pt" }), &[]));
    let error = folder.convert("m.safetensors", "m.weights", &ConvertOptions::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    for key in required_by_embd().keys().filter(|key| *key != "created_at") {
        assert!(error.what.contains(&format!("`{key}`")), "{error}");
    }
    let mut metadata = required_by_embd();
    metadata.remove("num_layers");
    metadata.insert("intermediate_size".to_owned(), Value::Null);
    let options = ConvertOptions::default().metadata(metadata);
    let error = folder.convert("m.safetensors", "m.weights", &options).unwrap_err();
    assert!(error.what.contains("lacks `num_layers`, `intermediate_size`, which EMBD requires"), "{error}");
    assert_eq!(folder.names(), ["m.safetensors"]);

    let converted = folder.convert("m.safetensors", "m.weights", &options.allow_loss(true)).unwrap();
    assert!(converted.warnings[0].contains("num_layers"), "{:?}", converted.warnings);
    assert!(!metadata_of(&folder.path("m.weights")).contains_key("num_layers"));
}

#[test]
fn keys_of_other_architectures_are_recognised() {
    let cases = [
        json!({
            "model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 4, "n_inner": null, "n_positions": 64,
            "vocab_size": 9,
        }),
        json!({
            "model_type": "distilbert", "dim": 8, "n_layers": 2, "n_heads": 4, "hidden_dim": 32,
            "max_position_embeddings": 64, "vocab_size": 9,
        }),
        json!({
            "model_type": "gemma3",
            "text_config": {
                "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
                "max_position_embeddings": 64, "vocab_size": 9,
            },
        }),
        json!({
            "general.architecture": "bert", "general.version": "2", "bert.embedding_length": 8, "bert.block_count": 2,
            "bert.attention.head_count": [4, 4], "bert.feed_forward_length": 32, "bert.context_length": 64,
            "bert.vocab_size": 9,
        }),
    ];
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    for metadata in cases {
        let mut given = metadata.as_object().unwrap().clone();
        given.insert("model_name".to_owned(), "m".into());
        folder.convert("m.safetensors", "m.weights", &to(&embd::FORMAT).metadata(given)).unwrap();
        let written = metadata_of(&folder.path("m.weights"));
        let keys = ["embedding_dim", "hidden_size", "num_layers", "num_attention_heads", "intermediate_size"];
        assert_eq!(keys.map(|key| written[key].as_str().unwrap()), ["8", "8", "2", "4", "32"], "{metadata}");
        assert_eq!(["max_position_emb", "vocab_size"].map(|key| written[key].as_str().unwrap()), ["64", "9"]);
    }
}

#[test]
fn a_time_in_seconds_becomes_iso_8601_and_returns() {
    let folder = Folder::new();
    for (stated, written) in [("1700000000", "2023-11-14T22:13:20Z"), ("253402300799", "9999-12-31T23:59:59Z")] {
        let mut given = required_by_embd();
        given.insert("created_at".to_owned(), stated.into());
        folder.write("m.safetensors", &safetensors_file(Value::Object(given.clone()), &[]));
        folder.convert("m.safetensors", "m.weights", &ConvertOptions::default()).unwrap();
        assert_eq!(metadata_of(&folder.path("m.weights"))["created_at"], written);
        folder.convert("m.weights", "back.safetensors", &ConvertOptions::default()).unwrap();
        assert_eq!(metadata_of(&folder.path("back.safetensors")), given);
    }
    let mut far = required_by_embd();
    far.insert("created_at".to_owned(), "253402300800".into());
    folder.write("far.safetensors", &safetensors_file(Value::Object(far), &[]));
    let error = folder.convert("far.safetensors", "m.weights", &ConvertOptions::default()).unwrap_err();
    assert!(error.what.contains("`created_at`"), "{error}");
}

/// llama.cpp stores the tokens of BERT with `▁` at the start of a word in place of `##` inside one.
#[test]
fn the_vocabulary_of_bert_in_gguf_becomes_word_piece_and_back() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    let gguf_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u{2581}hello", "ing"];
    let mut metadata = required_by_embd();
    metadata.extend([
        ("general.architecture".to_owned(), json!("bert")),
        ("tokenizer.ggml.model".to_owned(), json!("bert")),
        ("tokenizer.ggml.tokens".to_owned(), json!(gguf_tokens)),
        ("tokenizer.ggml.token_type".to_owned(), json!([3, 3, 3, 3, 3, 1, 1])),
        ("tokenizer.ggml.bos_token_id".to_owned(), json!(2)),
    ]);
    for (key, id) in [("unknown", 1), ("seperator", 3), ("padding", 0), ("mask", 4)] {
        metadata.insert(format!("tokenizer.ggml.{key}_token_id"), id.into());
    }
    folder.convert("m.safetensors", "m.gguf", &to(&gguf::FORMAT).metadata(metadata)).unwrap();
    folder.convert("m.gguf", "m.weights", &ConvertOptions::default()).unwrap();
    let ids = json!({ "pad_id": 0, "unk_id": 1, "cls_id": 2, "sep_id": 3, "mask_id": 4 });
    let vocabulary = json!({ "tokens": TOKENS, "special_tokens": ids });
    assert_eq!(metadata_of(&folder.path("m.weights"))["vocabulary"], vocabulary);

    folder.convert("m.weights", "back.gguf", &ConvertOptions::default()).unwrap();
    let back = metadata_of(&folder.path("back.gguf"));
    assert_eq!(back["tokenizer.ggml.tokens"], json!(gguf_tokens));
    assert_eq!(back["tokenizer.ggml.seperator_token_id"], 3);
    assert!(!back.contains_key("tokenizer.ggml.cls_token_id") && !back.contains_key("vocabulary"));
}

#[test]
fn the_vocabulary_of_apr_is_found() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    let mut metadata = required_by_embd();
    metadata.insert("vocab".to_owned(), json!(TOKENS));
    folder.convert("m.safetensors", "m.apr", &to(&apr::FORMAT).metadata(metadata)).unwrap();
    folder.convert("m.apr", "m.weights", &ConvertOptions::default()).unwrap();
    assert_eq!(metadata_of(&folder.path("m.weights"))["vocabulary"], json!({ "tokens": TOKENS }));
}

#[test]
fn positions_are_left_out_where_they_cannot_be_stored_and_nothing_else() {
    let folder = Folder::new();
    let positions: Vec<u8> = (0..300i64).flat_map(i64::to_le_bytes).collect();
    let mut others = positions.clone();
    others[2399] = 1;
    for (name, bytes, is_left_out) in
        [("bert.position_ids", &positions, true), ("bert.position_ids", &others, false), ("ids", &positions, false)]
    {
        let tensors = [(name, "I64", &[1, 300][..], bytes.clone()), ("t", "U8", &[2][..], noise(2, 2))];
        folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
        match folder.convert("m.safetensors", "m.weights", &to(&embd::FORMAT)) {
            Ok(converted) => {
                assert!(is_left_out);
                assert_eq!(converted.tensors, 1);
                assert!(converted.warnings[0].contains("positions"), "{:?}", converted.warnings);
            }
            Err(error) => assert!(!is_left_out && error.context.tensor.as_deref() == Some(name), "{error}"),
        }
    }
}

#[test]
fn a_sentence_transformer_and_a_snapshot_of_the_hub_are_recognised() {
    let folder = Folder::new();
    let path = hugging_face(&folder, &config());
    fs::create_dir(path.join("1_Pooling")).unwrap();
    fs::write(path.join("1_Pooling/config.json"), r#"{ "word_embedding_dimension": 4 }"#).unwrap();
    assert_eq!(folder_metadata(&path, &embd::FORMAT).unwrap()["embedding_dim"], 4);
    fs::create_dir(path.join("2_Dense")).unwrap();
    fs::write(path.join("2_Dense/config.json"), r#"{ "in_features": 4, "out_features": 2 }"#).unwrap();
    assert_eq!(folder_metadata(&path, &embd::FORMAT).unwrap()["embedding_dim"], 2);

    let snapshots = folder.path("models--owner--tiny-bert/snapshots");
    fs::create_dir_all(&snapshots).unwrap();
    fs::rename(path, snapshots.join("0123abc")).unwrap();
    let metadata = folder_metadata(&snapshots.join("0123abc"), &embd::FORMAT).unwrap();
    assert_eq!((&metadata["model_name"], &metadata["model_version"]), (&json!("owner/tiny-bert"), &json!("0123abc")));
}

#[test]
fn the_model_of_a_folder_is_found_or_the_choices_are_named() {
    let folder = Folder::new();
    let path = folder.path("models");
    fs::create_dir(&path).unwrap();
    let open = || Reader::open(&path).map(|reader| reader.tensors()[0].name.clone());
    let write = |name: &str, tensor: &str| {
        let tensors = [(tensor, "U8", &[1][..], vec![1])];
        fs::write(path.join(name), safetensors_file(json!({}), &tensors)).unwrap();
    };
    let refused = |words: &str| {
        let error = open().unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(words), "{error}");
    };
    refused("which is empty");
    fs::write(path.join("training_args.bin"), "PK").unwrap();
    refused("which contains training_args.bin");
    write("model-00001-of-00002.safetensors", "shard"); // a part of a model is not a model
    refused("no model");
    write("b.safetensors", "b");
    refused("Specify one of b.safetensors, model-00001-of-00002.safetensors."); // the other part may be missing
    fs::rename(path.join("model-00001-of-00002.safetensors"), path.join("shard.part")).unwrap();
    assert_eq!(open().unwrap(), "b");
    write("a.safetensors", "a");
    refused("Specify one of a.safetensors, b.safetensors.");
    write("model.safetensors", "model");
    assert_eq!(open().unwrap(), "model");
    fs::rename(path.join("shard.part"), path.join("model-00001-of-00002.safetensors")).unwrap();
    write("model-00002-of-00002.safetensors", "other");
    let map = json!({ "shard": "model-00001-of-00002.safetensors", "other": "model-00002-of-00002.safetensors" });
    let index = json!({ "metadata": {}, "weight_map": map }).to_string();
    fs::write(path.join("model.safetensors.index.json"), index).unwrap();
    refused("Specify one of model.safetensors, model.safetensors.index.json.");
    fs::remove_file(path.join("model.safetensors")).unwrap();
    assert_eq!(open().unwrap(), "shard");
}

#[test]
fn a_split_gguf_model_is_found_by_its_first_file() {
    let folder = Folder::new();
    fs::create_dir(folder.path("split")).unwrap();
    folder.write("m.safetensors", &super::model::varied());
    let options = to(&gguf::FORMAT).max_shard_bytes(Some(150_000));
    let converted = folder.convert("m.safetensors", "split/m.gguf", &options).unwrap();
    assert!(converted.files.len() > 1);
    assert_eq!(Reader::open(folder.path("split")).unwrap().tensors().len(), converted.tensors);
}
