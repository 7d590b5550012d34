//! Loads every fixture, valid or invalid, with the package in three browsers and through mmap. Metadata, index and
//! tensors must be identical, or the error codes.

mod adapters;
mod main_part;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Number, Value, json};
use sha2::{Digest, Sha256};
use weightstream::internals::index::{Component, Tensor};
use weightstream::internals::native::Reader;
use weightstream_cli::serve::Server;

use crate::engine::Engine;
use crate::failures;
use crate::large_headers;
use crate::webdriver::Browser;
use xtask::package;
use xtask::project::Project;

/// The maximum number of tensors to load one by one. No fixture has more.
const MAX_SINGLE_LOADS: usize = 100;

/// Opens a file as a web app would. Returns its metadata and index as JSON, and the hashes of all components of all
/// tensors, from `loadTensor` and from `tensors()`. For a rejected file, returns the error code.
pub const IN_THE_PAGE: &str = include_str!("parity.js");

pub fn run(project: &Project) -> Result<()> {
    let fixtures = project.root.join("tests/fixtures");
    let package = package::build(project)?;
    let long = tempfile::tempdir()?;
    large_headers::write(long.path())?;
    let server = Server::new().mount("/", &fixtures).mount("/pkg", &package).mount("/long", long.path());
    let server = server.bind("127.0.0.1:0")?.spawn();
    let mut models = models(&fixtures)?;
    models.extend(self::models(long.path())?.into_iter().map(|(path, native)| (format!("long/{path}"), native)));
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/", server.url()))?;
        let (mut tensors, mut refused) = (0, 0);
        for (path, native) in &models {
            let in_browser = browser.evaluate(&format!("({IN_THE_PAGE})({})", json!(format!("/{path}"))));
            let compared = in_browser.and_then(|in_browser| compare(&in_browser, native));
            failures::keep(compared, &browser, engine, path)?;
            match native {
                Ok(expected) => tensors += expected.tensors.len(),
                Err(_) => refused += 1,
            }
        }
        let adapters = adapters::compare(&browser, engine, &fixtures)?;
        println!("{engine}: {adapters} models with adapters identical to those of the native reader");
        println!(
            "{engine}: {} files, {tensors} tensors identical to mmap, {refused} files rejected with the same error",
            models.len()
        );
        ensure!(tensors > 0 && refused > 0, "there are no fixtures to compare");
    }
    main_part::test(project, &package, &fixtures, &models)
}

/// Every model below a folder: its relative path, and the result of loading it through mmap.
pub fn models(folder: &Path) -> Result<Vec<(String, NativeResult)>> {
    let mut models = Vec::new();
    for file in models_below(folder)? {
        let path = file.strip_prefix(folder)?.to_string_lossy().replace('\\', "/");
        models.push((path, load_natively(&file)));
    }
    Ok(models)
}

pub type NativeResult = weightstream::Result<Model>;

/// A model that was loaded through mmap.
pub struct Model {
    /// The metadata and the index, as JavaScript should see them.
    head: Value,
    /// The hashes of the components of each tensor.
    tensors: Map<String, Value>,
}

pub fn compare(in_browser: &Value, native: &NativeResult) -> Result<()> {
    match native {
        Ok(expected) => {
            let Model { head, tensors } = expected;
            let found = |how: &str| {
                let tensors = in_browser.get(how).and_then(Value::as_object);
                tensors.with_context(|| format!("the page returns no tensors, but {in_browser}"))
            };
            let single = found("single")?;
            let is_same = single.len() == tensors.len().min(MAX_SINGLE_LOADS)
                && single.iter().all(|(name, hashes)| tensors.get(name) == Some(hashes));
            ensure!(is_same, "loadTensor returns {in_browser}, mmap {tensors:?}");
            ensure!(found("streamed")? == tensors, "tensors() returns other bytes than mmap");
            let listed = in_browser.get("head").and_then(Value::as_str).unwrap_or_default();
            let listed = with_float_numbers(serde_json::from_str(listed)?);
            ensure!(listed == *head, "loadMetadata and loadIndex return {}", difference(&listed, head));
        }
        Err(error) => {
            let code = in_browser.get("code").and_then(Value::as_str);
            ensure!(code == Some(error.code()), "mmap fails with {error}, the browser returns {in_browser}");
        }
    }
    Ok(())
}

fn load_natively(file: &Path) -> NativeResult {
    let reader = {
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
    let listed: Value = reader.tensors().iter().map(tensor_info).collect();
    Ok(Model { head: with_float_numbers(with_bigints(json!([about, listed]))), tensors })
}

/// A tensor as a `TensorInfo` in JavaScript.
fn tensor_info(tensor: &Tensor) -> Value {
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
    let mut listed = json!({
        "name": tensor.name,
        "dtype": tensor.dtype.name(),
        "shape": tensor.shape.iter().map(|dim| *dim as f64).collect::<Vec<_>>(),
        "layout": tensor.layout.name(),
        "parameterCount": tensor.shape.iter().map(|dim| *dim as f64).product::<f64>(),
        "byteLength": tensor.byte_length().map(|length| length as f64),
        "shard": tensor.shard,
        "offset": tensor.components.iter().map(|component| component.range.start).min().unwrap_or(0) as f64,
        "digest": stated_digest(tensor),
        "components": tensor.components.iter().map(component).collect::<Vec<_>>(),
        "attributes": tensor.attributes,
        "quantization": tensor.attributes.get("quantization").filter(|_| tensor.layout.name() == "quantized"),
    });
    if let Some(listed) = listed.as_object_mut() {
        listed.retain(|_, value| !value.is_null()); // JSON has no `undefined`
    }
    listed
}

fn stated_digest(tensor: &Tensor) -> Option<String> {
    let [component] = tensor.components.as_slice() else { return None };
    let digest = match component.streams() {
        Some(streams) => streams.digest(),
        None => component.digest.as_ref().map(|stated| stated.digest),
    };
    digest.map(|digest| format!("{}:{digest}", digest.algorithm()))
}

/// Converts integers that a JavaScript number cannot represent exactly to bigints.
fn with_bigints(value: Value) -> Value {
    const MAX_SAFE_INTEGER: i128 = (1 << 53) - 1;
    map_numbers(value, &|number| match number.as_i128() {
        Some(integer) if integer.abs() > MAX_SAFE_INTEGER => format!("{integer}n").into(),
        _ => Value::Number(number),
    })
}

/// Converts numbers to floats, the only number type in JavaScript.
fn with_float_numbers(value: Value) -> Value {
    map_numbers(value, &|number| number.as_f64().into())
}

/// Describes the innermost values that differ.
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

fn map_numbers(value: Value, change: &dyn Fn(Number) -> Value) -> Value {
    match value {
        Value::Number(number) => change(number),
        Value::Array(items) => items.into_iter().map(|item| map_numbers(item, change)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, map_numbers(value, change))).collect(),
        other => other,
    }
}

/// The models among the fixtures: all files except descriptions.
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
