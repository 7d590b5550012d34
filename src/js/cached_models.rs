//! The deferred code that finds out which cached files belong to one model.

use super::failure::failure;
use crate::browser::deferred;
use crate::cache::READ_BYTES;
use crate::cache::backend::CachedFile;
use crate::cache::client::Client;
use crate::cache::{files, key};
use crate::deferred::Code;
use crate::error::Result;
use crate::format;
use crate::index::{NamedFiles, Parsed, Part};
use crate::model::finder::{may_name_files, numbered_set};
use crate::source::fetch::FetchSource;
use crate::source::part_urls::file_name;
use crate::window::{Stop, Window};
use futures::future::FutureExt;
use js_sys::{Array, Uint8Array};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// An array of `ModelFiles`, by their names in the cache. Requests nothing from servers, and no file counts as used.
pub(super) async fn list() -> Result<JsValue, JsValue> {
    deferred::load(Code::Extras).await.map_err(failure)?; // for `finder`
    let mut listed = Vec::new();
    for cache in files::caches().await {
        for file in cache.list().boxed_local().await.map_err(failure)? {
            listed.push((Rc::clone(&cache), file));
        }
    }
    let names: Names = listed.iter().map(|(_, file)| canonical(key::name_in(&file.key))).collect();
    let (all, mut sets) = (Array::new(), HashSet::new());
    for (cache, file) in &listed {
        let name = key::name_in(&file.key);
        let NamedFiles { parts, differences } = named_files(cache, file, name).boxed_local().await.map_err(failure)?;
        let others = |parts: &[Part]| names_of(name, parts, &names);
        let is_set = differences.is_empty() && file_name(name).is_some_and(|name| numbered_set(&name).is_some());
        let parts = others(&parts);
        // Every file of a numbered set leads to all of them. The first one is opened.
        let entry = parts.first().filter(|_| is_set).cloned().unwrap_or_else(|| name.to_owned());
        if parts.is_empty() || is_set && !sets.insert(entry.clone()) {
            continue;
        }
        let array = |names: Vec<String>| names.into_iter().map(JsValue::from).collect::<Array>();
        all.push(&Array::of3(&entry.into(), &array(parts), &array(others(&differences))));
    }
    Ok(all.into())
}

/// The names of cached files, by the URL that a manifest or a numbered set leads to: an app may have opened the same
/// URL in another spelling, such as with `+` in place of `%2B`.
type Names = HashMap<String, String>;

/// The URL by which another file leads to the file of this name, and the name.
fn canonical(name: &str) -> (String, String) {
    let path = file_name(name).map(|path| Part { path, ..Part::default() });
    let url = path.and_then(|part| url_of(&FetchSource::new(name.to_owned(), Rc::default()), &part));
    (url.unwrap_or_else(|| name.to_owned()), name.to_owned())
}

/// The other files of the model that a file names.
async fn named_files(cache: &Rc<Client>, file: &CachedFile, name: &str) -> Result<NamedFiles> {
    // Names that the caller chose are no URLs: paths in a file lead nowhere from them.
    let Some(file_name) = file_name(name) else { return Ok(NamedFiles::default()) };
    if let Some(set) = numbered_set(&file_name) {
        let parts = set.into_iter().map(|path| Part { path, ..Part::default() }).collect();
        return Ok(NamedFiles { parts, ..NamedFiles::default() });
    }
    if !may_name_files(&file_name, file.byte_length.unwrap_or(file.cached_bytes)) {
        return Ok(NamedFiles::default());
    }
    Ok(parse(cache, file).await?.map(Parsed::into_named_files).unwrap_or_default())
}

/// The names in the cache of files that the file of this name names.
fn names_of(name: &str, parts: &[Part], names: &Names) -> Vec<String> {
    let source = FetchSource::new(name.to_owned(), Rc::default());
    let urls = parts.iter().filter_map(|part| url_of(&source, part));
    urls.map(|url| names.get(&url).cloned().unwrap_or(url)).collect()
}

/// The name in the cache of a file that a file names.
fn url_of(source: &FetchSource, part: &Part) -> Option<String> {
    let file = match &part.url {
        Some(url) => source.part_at_url(url),
        None => source.part(&part.path).ok()?,
    };
    Some(key::name_of_url(file.name()))
}

/// Parses the head of a file. `None` for a file of no format, and for one whose head is not in the cache.
async fn parse(cache: &Rc<Client>, file: &CachedFile) -> Result<Option<Parsed>> {
    let mut window = Window::new(file.byte_length);
    loop {
        match format::parse(&window) {
            Ok(parsed) => return Ok(Some(parsed)),
            Err(Stop::Failed(_)) => return Ok(None),
            Err(Stop::Deferred(code)) => deferred::load(code).await?,
            Err(Stop::Need(range)) => {
                if !read(cache, file, &mut window, range).await.unwrap_or(false) {
                    return Ok(None);
                }
            }
        }
    }
}

/// Copies bytes of a file from the cache into its window. Returns false if the cache does not have all of them, or
/// cannot read them: a damaged file must not hide the others.
async fn read(cache: &Rc<Client>, file: &CachedFile, window: &mut Window<'_>, range: Range<u64>) -> Result<bool> {
    let Range { mut start, end } = range;
    while start < end {
        let until = end.min(start + READ_BYTES);
        let reply = cache.read(&file.key, &file.version, start..until, until, cache.read_buffer());
        let (count, _, buffer) = reply.bytes().await?;
        if count == 0 {
            return Ok(false);
        }
        window.insert(start, &Uint8Array::new_with_byte_offset_and_length(&buffer, 0, count as u32).to_vec());
        cache.recycle(buffer);
        start += count;
    }
    Ok(true)
}
