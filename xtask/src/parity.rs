//! Every fixture, good and bad, through the package in three browsers and through mmap: the same tensors, byte for
//! byte, or the same refusal.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use weightstream::native::{Reader, StreamingLoader};
use weightstream::serve::Server;

use crate::engine::Engine;
use crate::package;
use crate::project::Project;
use crate::webdriver::Browser;

/// Opens a file as a web app would, and tells what every component of every tensor hashes to, by `loadTensor` and
/// by `tensors()`; for a file that is refused, the code of the error.
pub(crate) const IN_THE_PAGE: &str = r#"
async (url, more) => {
  const { StreamingLoader } = await import("/pkg/weightstream.js");
  const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const hashes = async (tensor) => {
    const found = {};
    for (const [role, { data }] of tensor.components) found[role] = hex(await crypto.subtle.digest("SHA-256", data));
    return found;
  };
  // One fixture has a `base_url`: a host that does not exist. Its files lie beside it, where mmap finds them too.
  const local = (address) => address.startsWith(location.origin) ? address : new URL(address.split("/").pop(), new URL(url, location.origin));
  const options = { fetch: (address, init) => fetch(local(address), init), retry: { attempts: 0 }, ...more };
  try {
    const loader = await StreamingLoader.open(url, options);
    const alone = Object.create(null), streamed = Object.create(null);
    for (const { name } of await loader.loadIndex()) alone[name] = await hashes(await loader.loadTensor(name));
    for await (const tensor of loader.tensors()) streamed[tensor.name] = await hashes(tensor);
    await loader.verify();
    loader.close();
    return { alone, streamed };
  } catch (error) {
    return { code: error.code ?? String(error) };
  }
}"#;

pub(crate) fn run(project: &Project) -> Result<()> {
    let fixtures = project.root.join("tests/fixtures");
    let package = package::build(project)?;
    let server = Server::new().mount("/", &fixtures).mount("/pkg", &package).bind("127.0.0.1:0")?.spawn();
    let models = models(&fixtures)?;
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/", server.url()))?;
        let (mut tensors, mut refused) = (0, 0);
        for (path, natively) in &models {
            let in_browser = browser.evaluate(&format!("({IN_THE_PAGE})({})", json!(format!("/{path}"))))?;
            compare(&in_browser, natively).with_context(|| format!("{path} in {engine}"))?;
            match natively {
                Ok(expected) => tensors += expected.len(),
                Err(_) => refused += 1,
            }
        }
        println!(
            "{} files, {tensors} tensors the same through {engine} and mmap, {refused} refused alike",
            models.len()
        );
        ensure!(tensors > 0 && refused > 0, "there are no fixtures to compare");
    }
    Ok(())
}

/// Every model below a folder: its path from there, and what mmap gives.
pub(crate) fn models(folder: &Path) -> Result<Vec<(String, Natively)>> {
    let mut models = Vec::new();
    for file in models_below(folder)? {
        let path = file.strip_prefix(folder)?.to_string_lossy().replace('\\', "/");
        models.push((path, natively(&file)));
    }
    Ok(models)
}

pub(crate) type Natively = weightstream::Result<Map<String, Value>>;

pub(crate) fn compare(in_browser: &Value, natively: &Natively) -> Result<()> {
    match natively {
        Ok(expected) => {
            let gives = |how: &str| in_browser.get(how).and_then(Value::as_object) == Some(expected);
            ensure!(gives("alone"), "loadTensor gives {in_browser}, mmap {expected:?}");
            ensure!(gives("streamed"), "tensors() gives other bytes than mmap");
        }
        Err(error) => {
            let code = in_browser.get("code").and_then(Value::as_str);
            ensure!(code == Some(error.code()), "mmap says {error}, the browser {in_browser}");
        }
    }
    Ok(())
}

/// What mmap gives: each tensor's components by their hashes.
fn natively(file: &Path) -> Natively {
    let mut reader = Reader::open(file)?;
    let names: Vec<_> = reader.tensors().iter().map(|tensor| tensor.name.clone()).collect();
    let mut tensors = Map::new();
    for name in names {
        let loaded = reader.load_tensor(&name)?;
        let hash = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let components = loaded.components.iter().map(|c| (c.role.to_string(), Value::from(hash(&c.buffer))));
        tensors.insert(name, components.collect::<Map<_, _>>().into());
    }
    reader.verify(&())?;
    Ok(tensors)
}

/// The fixtures that are models: all files but the descriptions beside them.
fn models_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut models = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let describes = name.ends_with(".expected.json") || ["INDEX.json", "MANIFEST.json"].contains(&name.as_str());
        if path.is_dir() {
            models.extend(models_below(&path)?);
        } else if !describes && !name.ends_with(".md") && !name.starts_with('.') {
            models.push(path);
        }
    }
    models.sort();
    Ok(models)
}
