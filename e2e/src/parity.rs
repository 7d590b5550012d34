//! Every fixture, good and bad, through the package in three browsers and through mmap: the same heads and the same
//! tensors, byte for byte, or the same refusal.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Number, Value, json};
use sha2::{Digest, Sha256};
use weightstream::index::{Component, Tensor};
use weightstream::native::{Reader, StreamingLoader};
use weightstream_cli::serve::Server;

use crate::engine::Engine;
use crate::long_heads;
use crate::webdriver::Browser;
use xtask::package;
use xtask::project::Project;

/// So many tensors are loaded each by itself: none of the fixtures has more.
const MOST_ALONE: usize = 100;

/// Opens a file as a web app would, and tells its head as JSON and what every component of every tensor hashes to, by
/// `loadTensor` and by `tensors()`; for a file that is refused, the code of the error.
pub const IN_THE_PAGE: &str = include_str!("parity.js");

pub fn run(project: &Project) -> Result<()> {
    let fixtures = project.root.join("tests/fixtures");
    let package = package::build(project)?;
    let long = tempfile::tempdir()?;
    long_heads::write(long.path())?;
    let server = Server::new().mount("/", &fixtures).mount("/pkg", &package).mount("/long", long.path());
    let server = server.bind("127.0.0.1:0")?.spawn();
    let mut models = models(&fixtures)?;
    models.extend(self::models(long.path())?.into_iter().map(|(path, natively)| (format!("long/{path}"), natively)));
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/", server.url()))?;
        let (mut tensors, mut refused) = (0, 0);
        for (path, natively) in &models {
            let in_browser = browser.evaluate(&format!("({IN_THE_PAGE})({})", json!(format!("/{path}"))))?;
            compare(&in_browser, natively).with_context(|| format!("{path} in {engine}"))?;
            match natively {
                Ok(expected) => tensors += expected.tensors.len(),
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
pub fn models(folder: &Path) -> Result<Vec<(String, Natively)>> {
    let mut models = Vec::new();
    for file in models_below(folder)? {
        let path = file.strip_prefix(folder)?.to_string_lossy().replace('\\', "/");
        models.push((path, natively(&file)));
    }
    Ok(models)
}

pub type Natively = weightstream::Result<Model>;

/// What mmap gives of a model.
pub struct Model {
    /// The metadata and the list of tensors, as JavaScript should see them.
    head: Value,
    /// Each tensor's components by their hashes.
    tensors: Map<String, Value>,
}

pub fn compare(in_browser: &Value, natively: &Natively) -> Result<()> {
    match natively {
        Ok(expected) => {
            let Model { head, tensors } = expected;
            let found =
                |how: &str| in_browser.get(how).and_then(Value::as_object).context("the page tells of no tensors");
            let alone = found("alone")?;
            let is_same = alone.len() == tensors.len().min(MOST_ALONE)
                && alone.iter().all(|(name, hashes)| tensors.get(name) == Some(hashes));
            ensure!(is_same, "loadTensor gives {in_browser}, mmap {tensors:?}");
            ensure!(found("streamed")? == tensors, "tensors() gives other bytes than mmap");
            let listed = in_browser.get("head").and_then(Value::as_str).unwrap_or_default();
            let listed = in_one_kind(serde_json::from_str(listed)?);
            ensure!(listed == *head, "loadMetadata and loadIndex give {}", difference(&listed, head));
        }
        Err(error) => {
            let code = in_browser.get("code").and_then(Value::as_str);
            ensure!(code == Some(error.code()), "mmap says {error}, the browser {in_browser}");
        }
    }
    Ok(())
}

fn natively(file: &Path) -> Natively {
    let mut reader = {
        // SAFETY: nothing writes to the fixtures while they are compared.
        unsafe { Reader::open_mapped(file) }?
    };
    let names: Vec<_> = reader.tensors().iter().map(|tensor| tensor.name.clone()).collect();
    let mut tensors = Map::new();
    for name in names {
        let loaded = reader.load_tensor(&name)?;
        let hash = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let components = loaded.components.iter().map(|c| (c.role.to_string(), Value::from(hash(&c.buffer))));
        tensors.insert(name, components.collect::<Map<_, _>>().into());
    }
    reader.verify(&())?;
    let metadata = reader.metadata();
    let about = json!({ "format": metadata.format, "version": metadata.version, "metadata": metadata.metadata });
    let listed: Value = reader.tensors().iter().map(listed).collect();
    Ok(Model { head: in_one_kind(with_bigints(json!([about, listed]))), tensors })
}

/// A `TensorInfo`.
fn listed(tensor: &Tensor) -> Value {
    let component = |component: &Component| {
        let stored_byte_length = component.range.end - component.range.start;
        let mut listed = Map::new();
        listed.insert("role".into(), component.role.clone().into());
        listed.insert("dtype".into(), component.dtype.name().into());
        if let Some(byte_length) = component.decoded_length {
            listed.insert("byteLength".into(), (byte_length as f64).into());
        }
        listed.insert("storedByteLength".into(), (stored_byte_length as f64).into());
        listed.insert("encoding".into(), component.encoding.name().into());
        listed
    };
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype.name(),
        "shape": tensor.shape.iter().map(|dim| *dim as f64).collect::<Vec<_>>(),
        "layout": tensor.layout.name(),
        "byteLength": tensor.byte_length().unwrap_or(0) as f64,
        "shard": tensor.shard,
        "components": tensor.components.iter().map(component).collect::<Vec<_>>(),
        "attributes": tensor.attributes,
    })
}

/// Integers that are not exact as numbers are bigints in JavaScript.
fn with_bigints(value: Value) -> Value {
    const MAX_SAFE_INTEGER: i128 = (1 << 53) - 1;
    each_number(value, &|number| match number.as_i128() {
        Some(integer) if integer.abs() > MAX_SAFE_INTEGER => format!("{integer}n").into(),
        _ => Value::Number(number),
    })
}

/// All other numbers are of one kind there.
fn in_one_kind(value: Value) -> Value {
    each_number(value, &|number| number.as_f64().into())
}

/// The innermost that is not the same.
fn difference(one: &Value, other: &Value) -> String {
    let pairs: Vec<_> = match (one, other) {
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one.iter().zip(other).collect(),
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            one.values().zip(other.values()).collect()
        }
        _ => Vec::new(),
    };
    let inner = pairs.into_iter().find(|(one, other)| one != other);
    inner.map_or_else(|| format!("{one}, mmap {other}"), |(one, other)| difference(one, other))
}

fn each_number(value: Value, change: &dyn Fn(Number) -> Value) -> Value {
    match value {
        Value::Number(number) => change(number),
        Value::Array(items) => items.into_iter().map(|item| each_number(item, change)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, each_number(value, change))).collect(),
        other => other,
    }
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
