//! Models with LoRA adapters: the weights are those of the native reader, from URLs, files and in a worker.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use weightstream::{Adapter, Dtype, LoadRequest, OpenOptions};

use crate::engine::Engine;
use crate::failures;
use crate::webdriver::Browser;

const IN_THE_PAGE: &str = include_str!("adapters.js");

/// The names of the models and of the adapters in the folders of the fixtures.
const MODELS: [&str; 2] = ["model.safetensors", "model.gguf"];
const ADAPTERS: [&str; 3] = ["adapter_model.safetensors", "adapter.safetensors", "adapter.gguf"];

/// Loads each fixture with its adapter in a browser, whose server has the fixtures at `/`.
pub(super) fn compare(browser: &Browser, engine: Engine, fixtures: &Path) -> Result<usize> {
    let mut cases = 0;
    for case in fs::read_dir(fixtures.join("adapters"))? {
        let case = case?.path();
        let first = |names: &[&str]| names.iter().map(|name| case.join(name)).find(|path| path.exists());
        let (Some(model), Some(adapter)) = (first(&MODELS), first(&ADAPTERS)) else { continue };
        let url = |path: &Path| format!("/{}", path.strip_prefix(fixtures).unwrap_or(path).display());
        let config = Some(case.join("adapter_config.json")).filter(|path| path.exists());
        let arguments = [json!(url(&model)), json!(url(&adapter)), json!(config.map(|config| url(&config)))];
        let arguments = arguments.map(|argument| argument.to_string()).join(", ");
        let expected = natively(&model, &adapter)?;
        let in_browser = browser.evaluate(&format!("({IN_THE_PAGE})({arguments})"));
        let compared = in_browser.and_then(|in_browser| {
            for how in ["url", "file", "worker"] {
                let found = in_browser.pointer(&format!("/found/{how}")).context("the page returns no tensors")?;
                ensure!(*found == expected, "{how}: {found}\nbut natively {expected}");
            }
            let code = in_browser.get("code").and_then(Value::as_str);
            ensure!(code == Some("UNSUPPORTED"), "a model as an adapter: {in_browser}");
            Ok(())
        });
        failures::keep(compared, browser, engine, &url(&adapter))?;
        cases += 1;
    }
    ensure!(cases > 0, "there are no fixtures with adapters");
    Ok(cases)
}

/// What the native reader loads, as the page returns it.
fn natively(model: &Path, adapter: &Path) -> Result<Value> {
    let model = OpenOptions::new().adapter(Adapter::new(adapter)).open_blocking(model)?;
    let hash = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (mut single, mut streamed, mut rows) = (Map::new(), Map::new(), Map::new());
    for tensor in model.tensors() {
        let (name, count) = (tensor.name.clone(), tensor.shape.first().copied().unwrap_or(1));
        let loaded = model.load(name.as_str())?;
        let layout = tensor.layout.name();
        single.insert(name.clone(), format!("{layout} {} {}", loaded.dtype(), hash(&loaded.bytes()?)).into());
        let last = model.load(LoadRequest::new(&name).rows(count - 1..count))?;
        rows.insert(name.clone(), hash(&last.bytes()?).into());
        let floats = model.load(LoadRequest::new(&name).dtype(Dtype::F32))?;
        streamed.insert(name, hash(&floats.bytes()?).into());
    }
    Ok(json!({ "single": single, "streamed": streamed, "rows": rows }))
}
