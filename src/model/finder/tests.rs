//! Tests with names of files as tools write them.

use super::Found::{Nothing, One, Part, Several};
use super::*;

/// What the names alone say.
fn found<'a>(paths: &[&'a str]) -> Found<'a> {
    find(paths, &|_| Content::Unknown)
}

#[test]
fn finds_the_only_model() {
    for (model, others) in [
        ("model.safetensors", &["x.gguf", "README.md", "sub/model.safetensors"][..]),
        ("model.safetensors.index.json", &["model-00001-of-00002.safetensors", "other.safetensors"]),
        ("q/x-q4_0.gguf", &["config.json", "x.gguf.txt"]),
        ("x-Q4.GGUF", &["LICENSE"]),
        ("m-00001-of-00002.gguf", &["m-00002-of-00002.gguf"]),
        ("M-00001-of-00002.GGUF", &["M-00002-of-00002.GGUF"]),
        ("voice.onnx", &["voice.onnx.json", "voice.onnx_data", "voice.onnx.data"]),
        ("x.safetensors", &["x.safetensors.json"]),
        ("x.zt", &[".git/x.safetensors", ".cache/a/x.gguf", "._x.gguf"]),
    ] {
        for paths in [[&[model], others].concat(), [others, &[model]].concat()] {
            assert_eq!(found(&paths), One(model), "{paths:?}");
        }
    }
}

#[test]
fn checkpoints_and_arrays_are_models_only_if_there_is_no_other() {
    for (model, others) in [
        ("x.gguf", &["pytorch_model.bin", "x.pt", "voices.npz", "training_args.bin"][..]),
        ("x.safetensors", &["x.ckpt", "optimizer.pt"]),
        ("pytorch_model.bin", &["training_args.bin", "optimizer.pt", "README.md"]),
        ("pytorch_model.bin.index.json", &["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]),
        ("q/adapter_model.bin", &["q/data.bin"]),
        ("x.pth", &["model.onnx.data", "w.bin"]),
        ("voices.npz", &["README.md"]),
    ] {
        for paths in [[&[model], others].concat(), [others, &[model]].concat()] {
            assert_eq!(found(&paths), One(model), "{paths:?}");
        }
    }
    assert_eq!(found(&["a.pt", "b.npz"]), Several(vec!["a.pt", "b.npz"]));
}

#[test]
fn an_index_stands_for_its_shards() {
    for (index, shards) in [
        ("x.safetensors.index.json", &["x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors"][..]),
        ("x.safetensors.index.fp16.json", &["x.fp16-00001-of-00001.safetensors"]),
        ("x.safetensors.index.fp16.json", &["x-00001-of-00002.fp16.safetensors"]),
        ("X.SafeTensors.Index.JSON", &["X-00001-of-00002.SafeTensors"]),
        ("x.apr", &["x-00001-of-00002.apr", "x-00002-of-00002.apr"]),
        ("x.aeroset.json", &["x-00001-of-00001.aero", "x.index.aero"]),
        ("x.aeroset", &["x-00001-of-00001.aero", "x.index.aero"]),
    ] {
        let paths = [&[index], shards].concat();
        assert_eq!(found(&paths), One(index), "{paths:?}");
        let paths: Vec<_> = paths.iter().map(|path| format!("sub/{path}")).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        assert_eq!(found(&paths), One(paths[0]), "{paths:?}");
    }
}

#[test]
fn an_entry_stands_for_the_files_of_all_revisions() {
    for paths in [
        &["model.apr", "model-7d0f3c2a91b84e65.apr", "model-0000000000000000.apr", "model.sig"][..],
        &["m.safetensors.index.json", "m-7d0f3c2a91b84e65.safetensors"],
        &["m.aeroset.json", "m-7d0f3c2a91b84e65.aero", "m-7d0f3c2a91b84e66.index.aero"],
    ] {
        assert_eq!(found(paths), One(paths[0]), "{paths:?}");
    }
    let other = ["model.apr", "other-7d0f3c2a91b84e65.apr"];
    assert_eq!(found(&other), Several(other.to_vec()));
}

#[test]
fn lists_the_models_of_a_pipeline() {
    let paths = [
        "model_index.json",
        "text_encoder/model.safetensors.index.fp16.json",
        "text_encoder/model.fp16-00001-of-00002.safetensors",
        "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
        "transformer/diffusion_pytorch_model.safetensors.index.json",
        "vae/diffusion_pytorch_model.safetensors",
    ];
    assert_eq!(found(&paths), Several(vec![paths[1], paths[4], paths[5]]));
}

#[test]
fn parts_without_an_index_are_not_ignored() {
    let shards = ["t/x-00001-of-00002.safetensors", "t/x-00002-of-00002.safetensors"];
    assert_eq!(found(&shards), Part(shards[0]));
    assert_eq!(found(&["x-00002-of-00002.gguf"]), Part("x-00002-of-00002.gguf"));
    assert_eq!(found(&[shards[0], shards[1], "vae.safetensors"]), Several(vec![shards[0], "vae.safetensors"]));
    assert_eq!(found(&["README.md", "model.bin", "x.json"]), Nothing);
    assert_eq!(found(&[]), Nothing);
}

#[test]
fn a_number_leads_to_all_files_of_a_set() {
    let set = ["q/x-00001-of-00002.GGUF", "q/x-00002-of-00002.GGUF"];
    for name in set {
        assert_eq!(numbered_set(name).unwrap(), set);
    }
    for name in [
        "x.gguf",
        "x-00001-of-00001.gguf",
        "x-00000-of-00002.gguf",
        "x-00003-of-00002.gguf",
        "x-1-of-2.gguf",
        "x-00001-of-00002.safetensors",
        "x-00001-of-99999.gguf",
        "x-00001-of-18446744073709551615.gguf",
        "",
    ] {
        assert_eq!(numbered_set(name), None, "{name}");
    }
}

#[test]
fn says_which_files_may_name_others() {
    for name in ["x.safetensors.index.json", "x.json", "x.apr", "x.aeroset", "x.onnx", "X.ONNX"] {
        assert!(may_name_files(name, 2 << 20), "{name}");
    }
    for name in ["x.safetensors", "x.gguf", "x-7d0f3c2a91b84e65.apr", "x-00001-of-00002.apr", "x.bin", ""] {
        assert!(!may_name_files(name, 0), "{name}");
    }
    assert!(may_name_files("x.safetensors.index.json", u64::MAX) && !may_name_files("tokenizer.json", 3 << 20));
}

#[test]
fn the_content_of_manifests_decides_if_it_is_known() {
    let named = |path: &str| match path {
        "x.safetensors.index.json" => Content::Manifest(vec!["language.safetensors".to_owned()]),
        "x.apr" => Content::Manifest(vec!["part.apr".to_owned()]),
        _ => Content::Other,
    };
    let index = ["x.safetensors.index.json", "language.safetensors"];
    assert_eq!(find(&index, &named), One(index[0]));
    assert_eq!(find(&["x.apr", "part.apr"], &named), One("x.apr"));
    let two = ["y.apr", "y-7d0f3c2a91b84e65.apr"];
    assert_eq!(find(&two, &named), Several(vec![two[1], two[0]]));
}

#[test]
fn a_document_is_the_model_of_a_folder_without_another() {
    let tfjs = ["model.json", "group1-shard1of2.bin", "group1-shard2of2.bin"];
    assert_eq!(find(&tfjs, &|_| Content::Unknown), Found::One("model.json"));
    let mlc = ["m/params_shard_0.bin", "m/ndarray-cache.json", "m/tensor-cache.json", "m/mlc-chat-config.json"];
    assert_eq!(find(&mlc, &|_| Content::Unknown), Found::One("m/tensor-cache.json"));
    let others = ["model.json", "x.gguf"];
    assert_eq!(find(&others, &|_| Content::Unknown), Found::One("x.gguf"));
    let hidden = [".git/model.json", "group1-shard1of1.bin"];
    assert_eq!(find(&hidden, &|_| Content::Unknown), Found::Nothing);
}
