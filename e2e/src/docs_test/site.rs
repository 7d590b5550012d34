//! The files at the URLs of the documentation.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, json};
use weightstream::Dtype;
use weightstream::internals::native::Reader;
use weightstream::internals::signature::{self, PrivateKey};
use weightstream::internals::write::{self, ConvertOptions};

/// The paths of the model, in the format of their extension. Those of other hosts are below `sites/`.
const MODELS: [&str; 7] = [
    "model/model.apr",
    "model/model.gguf",
    "models/model.safetensors",
    "sites/example.org/model.apr",
    "sites/example.org/model.gguf",
    "sites/example.org/model.safetensors",
    "sites/example.org/private/model.safetensors",
];

/// The repository of the examples on the Hugging Face Hub, at a branch and at a commit.
const HUB: [&str; 2] = [
    "sites/huggingface.co/owner/name/resolve/main",
    "sites/huggingface.co/owner/name/resolve/5f0d1e0a4c3b2a19080706050403020100ffeedd",
];

/// Files of other formats, with their content.
const FILES: [(&str, &str); 3] = [
    ("model/tokenizer.json", "{ \"vocab\": {} }"),
    ("model/weights.bin", "0123456789abcdef"),
    ("sites/example.org/tokenizer.json", "{ \"vocab\": {} }"),
];

/// A key that signs only the model of the documentation.
const SIGNING_KEY: &str = include_str!("../../../tests/docs/signing.key");

/// The names, dtypes and shapes of the tensors.
const TENSORS: [(&str, &str, &[usize]); 5] = [
    ("embeddings.weight", "F32", &[256, 64]),
    ("encoder.bias", "F32", &[512]),
    ("encoder.weight", "F32", &[64, 64]),
    ("blk.0.attn_q.weight", "F32", &[64, 64]),
    ("position_ids", "I64", &[1, 512]),
];

/// Writes the files into a folder. `fixtures` is the folder of the fixtures of the repository.
pub(super) fn write(folder: &Path, fixtures: &Path) -> Result<()> {
    let source = folder.join("model.safetensors");
    fs::write(&source, model()?)?;
    let reader = Reader::open(&source)?;
    let models = MODELS.iter().map(|path| (*path).to_owned());
    for path in models.chain(HUB.iter().map(|path| format!("{path}/model.safetensors"))) {
        let out = ready(folder, &path)?;
        if path.ends_with(".safetensors") {
            fs::copy(&source, out)?;
        } else {
            let is_quantized = path.ends_with(".gguf");
            let options = if is_quantized { quantized() } else { ConvertOptions::default() };
            write::convert(&reader, &out, &options, &())?;
        }
    }
    for (path, content) in FILES {
        fs::write(ready(folder, path)?, content)?;
    }
    for path in HUB {
        fs::write(ready(folder, &format!("{path}/tokenizer.json"))?, "{ \"vocab\": {} }")?;
    }
    sign(folder, &source)?;
    fs::copy(fixtures.join("dense/sparse.zt"), ready(folder, "sites/example.org/sparse.zt")?)?;
    for file in ["model.safetensors", "adapter_model.safetensors", "adapter_config.json"] {
        fs::copy(
            fixtures.join("adapters/peft").join(file),
            ready(folder, &format!("sites/example.org/adapted/{file}"))?,
        )?;
    }
    fs::copy(fixtures.join("ztensor/zt123_zstd_sha.zt"), ready(folder, "model/net.zt")?)?; // of the live examples
    Ok(())
}

/// A signed folder. The documentation has the public key.
fn sign(folder: &Path, model: &Path) -> Result<()> {
    fs::copy(model, ready(folder, "sites/example.org/signed/model.safetensors")?)?;
    let key = PrivateKey::from_pem(SIGNING_KEY)?;
    let bundle = signature::sign_folder(&folder.join("sites/example.org/signed"), &key, &[], &())?;
    Ok(fs::write(folder.join("sites/example.org/signed/model.sig"), bundle)?)
}

/// The model has no metadata, which GGUF should have.
fn quantized() -> ConvertOptions {
    ConvertOptions::default().dtype(Dtype::Q4_0).allow_loss(true)
}

/// The path of a file whose folder exists.
fn ready(folder: &Path, path: &str) -> Result<std::path::PathBuf> {
    let path = folder.join(path);
    fs::create_dir_all(path.with_file_name(""))?;
    Ok(path)
}

/// A SafeTensors file. Its content never changes, because the documentation has digests of it.
pub(crate) fn model() -> Result<Vec<u8>> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, dtype, shape) in TENSORS {
        let start = data.len();
        for at in 0..shape.iter().product::<usize>() {
            match dtype {
                "I64" => data.extend((at as i64).to_le_bytes()),
                _ => data.extend(((at % 1000) as f32 / 1000.0 - 0.5).to_le_bytes()),
            }
        }
        let range = [start, data.len()];
        header.insert(name.to_owned(), json!({ "dtype": dtype, "shape": shape, "data_offsets": range }));
    }
    let header = serde_json::to_vec(&header)?;
    Ok([&(header.len() as u64).to_le_bytes(), header.as_slice(), data.as_slice()].concat())
}
