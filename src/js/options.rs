//! The options of calls, checked.

use super::failure;
use crate::cache::{Choice, Own};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Digest;
use crate::loader::{self, Digests};
use crate::retry::Policy;
use crate::source::cached::Naming;
use crate::source::fetch::Client;
use crate::source::js_buffer::JsBuffer;
use crate::source::web::view;
use crate::workers;
use js_sys::{Function, Object, Reflect};
use serde::Deserialize;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{AbortSignal, RequestCredentials, Url};

/// More connections to one host than browsers open.
const MAX_CONCURRENCY: usize = 16;

/// More than any load has use for.
const MAX_WORKERS: usize = 16;

/// What `StreamingLoader.open` was told.
pub(super) struct Settings {
    pub(super) loader: loader::Options,
    pub(super) client: Client,
    pub(super) signal: Option<AbortSignal>,
    pub(super) on_progress: Option<Function>,
    /// Where files are kept from one load to the next.
    pub(super) cache: Option<Choice>,
    /// What files are cached under.
    pub(super) naming: Naming,
    /// How many workers decode and digest.
    pub(super) workers: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Numbers {
    verify: bool,
    concurrency: f64,
    coalesce_gap: f64,
    max_memory: f64,
    workers: f64,
    digests: Pinned,
    retry: Retry,
}

/// Digests as text.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Pinned {
    tensors: HashMap<String, String>,
    files: HashMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Retry {
    attempts: f64,
    base_delay: f64,
    max_delay: f64,
    stall_timeout: f64,
}

impl Default for Retry {
    fn default() -> Self {
        let policy = Policy::default();
        Retry {
            attempts: f64::from(policy.max_attempts),
            base_delay: policy.base_delay_ms as f64,
            max_delay: policy.max_delay_ms as f64,
            stall_timeout: policy.stall_ms as f64,
        }
    }
}

impl Default for Numbers {
    fn default() -> Self {
        let defaults = loader::Options::default();
        Numbers {
            verify: defaults.verify,
            concurrency: defaults.concurrency as f64,
            coalesce_gap: defaults.coalesce_gap_bytes as f64,
            max_memory: defaults.max_memory_bytes as f64,
            workers: workers::default_count() as f64,
            digests: Pinned::default(),
            retry: Retry::default(),
        }
    }
}

/// Reads the options of `open`; `source` says which origin they are for.
pub(super) fn read(source: &JsValue, options: &JsValue) -> Result<Settings, JsValue> {
    let numbers: Numbers = if options.is_undefined() {
        Numbers::default()
    } else {
        serde_wasm_bindgen::from_value(options.clone())
            .map_err(|error| failure(invalid(format!("the options cannot be used: {error}"))))?
    };
    let loader = checked(&numbers).map_err(failure)?;
    let origin = source.as_string().and_then(|url| Url::new(&url).ok()).map(|url| url.origin()).unwrap_or_default();
    let client = Client {
        fetch: function(options, "fetch").map_err(failure)?,
        headers: headers(options).map_err(failure)?,
        credentials: field(options, "credentials").and_then(|value| RequestCredentials::from_js_value(&value)),
        origin,
        requests: Rc::default(),
    };
    let on_progress = function(options, "onProgress").map_err(failure)?;
    let cache = cache(options, source.is_string()).map_err(failure)?;
    let naming = Naming(function(options, "cacheKey").map_err(failure)?);
    let workers = checked_workers(&numbers).map_err(failure)?;
    Ok(Settings { loader, client, signal: signal(options), on_progress, cache, naming, workers })
}

/// The signal of a call.
pub(super) fn signal(options: &JsValue) -> Option<AbortSignal> {
    field(options, "signal").and_then(|signal| signal.dyn_into().ok())
}

/// The `rows` and `into` of `loadTensor`.
pub(super) fn tensor_request(options: &JsValue) -> Result<(Option<Range<u64>>, Option<JsBuffer>)> {
    let rows = match field(options, "rows") {
        None => None,
        Some(rows) => {
            let rows: (f64, f64) = serde_wasm_bindgen::from_value(rows)
                .map_err(|_| invalid("`rows` is not a pair of row numbers".to_owned()))?;
            Some(integer("rows", rows.0)?..integer("rows", rows.1)?)
        }
    };
    let into = match field(options, "into") {
        None => None,
        Some(into) => {
            let bytes = view(&into).ok_or_else(|| invalid("`into` is no ArrayBuffer and no view of one".to_owned()))?;
            Some(JsBuffer::borrowed(bytes))
        }
    };
    Ok((rows, into))
}

fn checked(numbers: &Numbers) -> Result<loader::Options> {
    let concurrency = integer("concurrency", numbers.concurrency)? as usize;
    if !(1..=MAX_CONCURRENCY).contains(&concurrency) {
        return Err(invalid(format!("`concurrency` is {concurrency}, but can be 1 to {MAX_CONCURRENCY}")));
    }
    let coalesce_gap_bytes = integer("coalesceGap", numbers.coalesce_gap)?;
    let max_memory_bytes = integer("maxMemory", numbers.max_memory)?;
    let retry = Policy {
        max_attempts: integer("retry.attempts", numbers.retry.attempts)?.min(u64::from(u32::MAX)) as u32,
        base_delay_ms: integer("retry.baseDelay", numbers.retry.base_delay)?,
        max_delay_ms: integer("retry.maxDelay", numbers.retry.max_delay)?,
        stall_ms: integer("retry.stallTimeout", numbers.retry.stall_timeout)?.max(1),
        ..Policy::default()
    };
    let digests = Digests { tensors: parsed(&numbers.digests.tensors)?, files: parsed(&numbers.digests.files)? };
    Ok(loader::Options { concurrency, coalesce_gap_bytes, max_memory_bytes, verify: numbers.verify, digests, retry })
}

fn checked_workers(numbers: &Numbers) -> Result<usize> {
    let workers = integer("workers", numbers.workers)? as usize;
    if workers > MAX_WORKERS {
        return Err(invalid(format!("`workers` is {workers}, but can be 0 to {MAX_WORKERS}")));
    }
    Ok(workers)
}

fn parsed(digests: &HashMap<String, String>) -> Result<HashMap<String, Digest>> {
    digests.iter().map(|(name, text)| Ok((name.clone(), text.parse()?))).collect()
}

fn cache(options: &JsValue, is_url: bool) -> Result<Option<Choice>> {
    let choice = field(options, "cache").unwrap_or_else(|| "auto".into());
    let choice = match choice.as_string().as_deref() {
        Some("auto") => Some(Choice::Auto),
        Some("opfs") => Some(Choice::Files),
        Some("none") => None,
        _ => Some(Own::new(choice).map(Choice::Own).ok_or_else(|| {
            let what =
                "`cache` is none of \"auto\", \"opfs\" and \"none\" and no object with get, set, delete and keys";
            invalid(what.to_owned())
        })?),
    };
    Ok(choice.filter(|_| is_url))
}

fn headers(options: &JsValue) -> Result<Vec<(String, String)>> {
    let Some(headers) = field(options, "headers") else { return Ok(Vec::new()) };
    let entries = headers.dyn_ref::<Object>().map(Object::entries).unwrap_or_default();
    let pair = |entry: JsValue| {
        let at = |index| Reflect::get_u32(&entry, index).ok().and_then(|value| value.as_string());
        at(0).zip(at(1)).ok_or_else(|| invalid("`headers` is not an object of strings".to_owned()))
    };
    entries.iter().map(pair).collect()
}

fn function(options: &JsValue, name: &str) -> Result<Option<Function>> {
    match field(options, name) {
        None => Ok(None),
        Some(value) => value.dyn_into().map(Some).map_err(|_| invalid(format!("`{name}` is no function"))),
    }
}

fn integer(name: &str, number: f64) -> Result<u64> {
    if number >= 0.0 && number.fract() == 0.0 && number < (1u64 << 53) as f64 {
        Ok(number as u64)
    } else {
        Err(invalid(format!("`{name}` has {number}, which is no whole number")))
    }
}

/// The property, unless it is undefined or null.
fn field(options: &JsValue, name: &str) -> Option<JsValue> {
    if !options.is_object() {
        return None;
    }
    Reflect::get(options, &name.into()).ok().filter(|value| !value.is_undefined() && !value.is_null())
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}
