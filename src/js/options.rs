//! Converts the options of calls to Rust types. `options/options.js` has checked them.

use super::{failure, mirrors};
use crate::cache::{CacheOption, UserCache};
use crate::deferred::Code;
use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::Hub;
use crate::loader::{self, Digests, Order, SignedDigests, TensorRequest, TensorsRequest};
use crate::names;
use crate::quantization::ModelConfig;
use crate::retry::RetryPolicy;
use crate::signature::SignedFiles;
use crate::source::PartUrls;
use crate::source::cached::KeyFunction;
use crate::source::fetch::Client;
use crate::source::js_buffer::JsBuffer;
use crate::source::mirrors::Mirrors;
use crate::workers;
use js_sys::{Array, Reflect};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{AbortSignal, RequestCredentials};

/// The options of `StreamingLoader.open`.
pub(super) struct Settings {
    pub(super) loader: loader::Options,
    pub(super) client: Rc<Client>,
    pub(super) signal: Option<AbortSignal>,
    pub(super) on_progress: Option<js_sys::Function>,
    /// Where to cache files; `None` for no caching.
    pub(super) cache: Option<CacheOption>,
    /// Under which names files are cached.
    pub(super) key_function: KeyFunction,
    /// Set if nothing is cached. Releases the lock of the download.
    pub(super) release_lock: Option<js_sys::Function>,
    /// The maximum number of workers that decode and compute digests.
    pub(super) workers: usize,
    /// The object of `cache/cross_origin_storage.js`.
    pub(super) cross_origin: Option<JsValue>,
    /// The other addresses of the model.
    pub(super) mirrors: Option<Rc<Mirrors>>,
}

/// Reads the options of `open`. Headers and credentials apply to the origin of `source`.
pub(super) fn read(source: &JsValue, options: &JsValue) -> Result<Settings, JsValue> {
    Ok(Settings {
        loader: loader_options(source, options).map_err(failure)?,
        client: client(source, options),
        signal: signal(options),
        on_progress: object(options, "onProgress"),
        cache: cache(options, source.is_string()),
        key_function: KeyFunction(object(options, "cacheKey")),
        release_lock: object(options, "releaseLock"),
        workers: number(options, "workers").map_or_else(workers::default_count, |workers| workers as usize),
        cross_origin: field(options, "crossOriginStorage"),
        mirrors: mirrors_of(source, options),
    })
}

/// The options of `openFile`.
pub(super) struct FileSettings {
    pub(super) client: Rc<Client>,
    pub(super) retry: RetryPolicy,
    /// The digest of the whole file.
    pub(super) digest: Option<Digest>,
    pub(super) signature: Option<SignedDigests>,
    pub(super) signal: Option<AbortSignal>,
    pub(super) on_progress: Option<js_sys::Function>,
    pub(super) cache: Option<CacheOption>,
    pub(super) key_function: KeyFunction,
    /// The other addresses of the file.
    pub(super) mirrors: Option<Rc<Mirrors>>,
    /// The bytes whose request opens the file, if it is open as soon as the head of the response has arrived.
    pub(super) first: Option<Range<u64>>,
    /// The object of `cache/cross_origin_storage.js`.
    pub(super) cross_origin: Option<JsValue>,
}

/// Reads the options of `openFile`. Headers and credentials apply to the origin of `source`.
pub(super) fn read_file(source: &JsValue, options: &JsValue) -> Result<FileSettings, JsValue> {
    let parse = |text: JsValue| {
        let text = text.as_string().unwrap_or_default();
        text.parse().map_err(|error: Error| Error { what: format!("`digest`: {}", error.what), ..error })
    };
    Ok(FileSettings {
        client: client(source, options),
        retry: retry(&field(options, "retry").unwrap_or_default()),
        signature: signature(source, options).map_err(failure)?,
        digest: field(options, "digest").map(parse).transpose().map_err(failure)?,
        signal: signal(options),
        on_progress: object(options, "onProgress"),
        cache: cache(options, source.is_string()),
        key_function: KeyFunction(object(options, "cacheKey")),
        mirrors: mirrors_of(source, options),
        first: object(options, "first").and_then(|first: Array| pair(&first)),
        cross_origin: field(options, "crossOriginStorage"),
    })
}

/// The `signal` of a call.
pub(super) fn signal(options: &JsValue) -> Option<AbortSignal> {
    object(options, "signal")
}

/// The options of `loadTensor` that describe what to load.
pub(super) fn tensor_request(options: &JsValue) -> TensorRequest<JsBuffer> {
    let rows = object(options, "rows").and_then(|rows: Array| pair(&rows));
    TensorRequest::default()
        .with_rows(rows)
        .with_into(object(options, "into").map(|into| JsBuffer::borrowed(into).with_array(text(options, "intoArray"))))
        .with_dtype(dtype(options))
        .with_dense(is_dense(options))
}

/// The options of `tensors` that describe what to load.
pub(super) fn tensors_request(options: &JsValue) -> TensorsRequest {
    let names = object(options, "names").map(|names: Array| names.iter().filter_map(|name| name.as_string()).collect());
    let is_in_order = field(options, "order").is_some_and(|order| order == "given");
    TensorsRequest::default()
        .with_names(names)
        .with_order(if is_in_order { Order::Given } else { Order::File })
        .with_dtype(dtype(options))
        .with_dense(is_dense(options))
}

/// Whether the option `layout` asks for dense tensors.
fn is_dense(options: &JsValue) -> bool {
    field(options, "layout").is_some_and(|layout| layout == "dense")
}

/// The dtype of the option `as`.
fn dtype(options: &JsValue) -> Option<Dtype> {
    text(options, "as").as_deref().map(Dtype::from_name)
}

fn client(source: &JsValue, options: &JsValue) -> Rc<Client> {
    let hub = hub(&field(options, "hub").unwrap_or_default());
    let client = Client {
        fetch: object(options, "fetch"),
        headers: pairs(options, "headers").collect(),
        credentials: field(options, "credentials").and_then(|value| RequestCredentials::from_js_value(&value)),
        hub,
        part_urls: part_urls(options),
        ..Client::default()
    }
    .for_url(source.as_string().as_deref());
    Rc::new(client)
}

/// The option `partUrl`.
fn part_urls(options: &JsValue) -> PartUrls {
    let Some(option) = field(options, "partUrl") else { return PartUrls::KeepQuery };
    let Ok(function) = option.dyn_into::<js_sys::Function>() else { return PartUrls::DropQuery };
    PartUrls::Map(Rc::new(move |path, url| {
        // The function is that of `options/options.js`, which returns nothing else than a string or undefined.
        let returned = function.call2(&JsValue::UNDEFINED, &path.into(), &url.into()).map_err(|thrown| {
            let what = "`partUrl` threw an exception for this URL";
            let mut error = Error::new(ErrorKind::InvalidArgument, what).in_file(url);
            error.context.cause = Some(thrown);
            error
        })?;
        Ok(returned.as_string())
    }))
}

fn hub(options: &JsValue) -> Hub {
    let hub = Hub::default();
    let endpoint = text(options, "endpoint").unwrap_or_else(|| hub.endpoint.clone());
    hub.with_endpoint(endpoint).with_token(text(options, "token"))
}

fn loader_options(source: &JsValue, options: &JsValue) -> Result<loader::Options> {
    let defaults = loader::Options::default();
    let digests = field(options, "digests").unwrap_or_default();
    Ok(loader::Options {
        concurrency: number(options, "concurrency").map_or(defaults.concurrency, |number| number as usize),
        coalesce_gap_bytes: number(options, "coalesceGap").unwrap_or(defaults.coalesce_gap_bytes),
        max_memory_bytes: number(options, "maxMemory").unwrap_or(defaults.max_memory_bytes),
        verify: field(options, "verify").and_then(|verify| verify.as_bool()).unwrap_or(defaults.verify),
        digests: Digests { tensors: digests_of(&digests, "tensors")?, files: digests_of(&digests, "files")? },
        signature: signature(source, options)?,
        config: text(options, "config").map(|json| ModelConfig::unchecked(json.into_bytes())),
        retry: retry(&field(options, "retry").unwrap_or_default()),
        previous: None,
    })
}

fn retry(options: &JsValue) -> RetryPolicy {
    let policy = RetryPolicy::default();
    let attempts = number(options, "attempts").map(|attempts| attempts.min(u64::from(u32::MAX)) as u32);
    RetryPolicy {
        max_attempts: attempts.unwrap_or(policy.max_attempts),
        base_delay_ms: number(options, "baseDelay").unwrap_or(policy.base_delay_ms),
        max_delay_ms: number(options, "maxDelay").unwrap_or(policy.max_delay_ms),
        stall_ms: number(options, "stallTimeout").unwrap_or(policy.stall_ms).max(1),
        ..policy
    }
}

fn digests_of(digests: &JsValue, name: &str) -> Result<HashMap<String, Digest>> {
    let parse = |(key, text): (String, String)| match text.parse() {
        Ok(digest) => Ok((key, digest)),
        Err(mut error @ Error { .. }) => {
            error.what = format!("`digests.{name}` of \"{key}\": {}", error.what);
            Err(error)
        }
    };
    pairs(digests, name).map(parse).collect()
}

/// The parts of the module that these options need.
pub(super) fn code_of(options: &JsValue) -> impl Iterator<Item = Code> {
    let has = |name, code| field(options, name).map(|_| code);
    let of_calls = [has("signature", Code::Extras), has("adapters", Code::Quantization), has("mirrors", Code::Mirrors)];
    of_calls.into_iter().chain([has("crossOriginStorage", Code::CachedFiles)]).flatten()
}

/// The option `mirrors`.
fn mirrors_of(source: &JsValue, options: &JsValue) -> Option<Rc<Mirrors>> {
    object(options, "mirrors").map(|urls| mirrors::of(source, &urls))
}

/// What a signature states, which `signature/signature.js` has verified. Unless the caller states the path of the
/// file at `source`, it is the one relative to the signature.
fn signature(source: &JsValue, options: &JsValue) -> Result<Option<SignedDigests>> {
    field(options, "signature").map(|signature| signed_digests(source, &signature)).transpose()
}

#[inline(never)] // so that its code is deferred
fn signed_digests(source: &JsValue, signature: &JsValue) -> Result<SignedDigests> {
    let mut files = SignedFiles::default();
    let listed: Array = object(signature, "files").unwrap_or_default();
    for file in listed {
        let file: Array = file.unchecked_into();
        let (path, digest) = (file.get(0).as_string().unwrap_or_default(), file.get(1).as_string().unwrap_or_default());
        let [start, end] = [2, 3].map(|at| file.get(at).as_f64().map(|number| number as u64));
        files.add_piece(&path, start.unwrap_or(0), end, digest.parse()?)?;
    }
    let below = || names::path_below(&text(signature, "url")?, &source.as_string()?);
    let path = text(signature, "path").or_else(below);
    Ok(SignedDigests::default().with_files(Arc::new(files)).with_path(path))
}

fn cache(options: &JsValue, is_url: bool) -> Option<CacheOption> {
    let option = field(options, "cache").unwrap_or_else(|| "auto".into());
    let option = match option.as_string().as_deref() {
        Some("auto") => Some(CacheOption::Auto),
        Some("opfs") => Some(CacheOption::Files),
        Some("none") => None,
        // An object without the methods stands for storage that the platform does not have.
        _ => Some(UserCache::new(option).map_or(CacheOption::Auto, CacheOption::UserCache)),
    };
    option.filter(|_| is_url)
}

/// The pairs of strings of an array option.
fn pairs(options: &JsValue, name: &str) -> impl Iterator<Item = (String, String)> {
    let pairs: Array = object(options, name).unwrap_or_default();
    pairs.into_iter().filter_map(|pair| {
        let pair: Array = pair.unchecked_into();
        pair.get(0).as_string().zip(pair.get(1).as_string())
    })
}

/// A range as a pair of numbers. Infinity is the end of a file of unknown length.
fn pair(pair: &Array) -> Option<Range<u64>> {
    let number = |at| pair.get(at).as_f64().map(|number| number as u64);
    Some(number(0)?..number(1)?)
}

/// The value of an integer option.
fn number(options: &JsValue, name: &str) -> Option<u64> {
    field(options, name).and_then(|number| number.as_f64()).map(|number| number as u64)
}

fn text(options: &JsValue, name: &str) -> Option<String> {
    field(options, name).and_then(|text| text.as_string())
}

fn object<T: JsCast>(options: &JsValue, name: &str) -> Option<T> {
    field(options, name).map(JsCast::unchecked_into)
}

/// The option `adapters`.
pub(super) fn adapters(options: &JsValue) -> Option<Array> {
    object(options, "adapters")
}

/// The value of a property, unless it is undefined or null.
pub(super) fn field(options: &JsValue, name: &str) -> Option<JsValue> {
    if !options.is_object() {
        return None;
    }
    Reflect::get(options, &name.into()).ok().filter(|value| !value.is_undefined() && !value.is_null())
}
