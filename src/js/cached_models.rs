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
use crate::model::finder;
use crate::source::fetch::FetchSource;
use crate::source::part_urls::file_name;
use crate::window::{Stop, Window};
use futures::future::FutureExt;
use js_sys::{Array, Uint8Array};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// An array of `ModelFiles`, by their names in the cache. Requests nothing from servers, and no file counts as used.
pub(super) async fn list() -> Result<JsValue, JsValue> {
    deferred::load(Code::Extras).await.map_err(failure)?; // for `finder`
    let all = Array::new();
    for cache in files::caches().await {
        for file in cache.list().boxed_local().await.map_err(failure)? {
            let name = key::name_in(&file.key);
            let files = named_files(&cache, &file, name).boxed_local().await.map_err(failure)?;
            if !files.parts.is_empty() {
                let names = |parts: &[Part]| names_of(name, parts).map(JsValue::from).collect::<Array>();
                all.push(&Array::of3(&name.into(), &names(&files.parts), &names(&files.differences)));
            }
        }
    }
    Ok(all.into())
}

/// The other files of the model that a file names.
async fn named_files(cache: &Rc<Client>, file: &CachedFile, name: &str) -> Result<NamedFiles> {
    // Names that the caller chose are no URLs: paths in a file lead nowhere from them.
    let Some(file_name) = file_name(name) else { return Ok(NamedFiles::default()) };
    if let Some(set) = finder::numbered_set(&file_name) {
        let parts = set.into_iter().map(|path| Part { path, ..Part::default() }).collect();
        return Ok(NamedFiles { parts, ..NamedFiles::default() });
    }
    if !finder::may_name_files(&file_name) {
        return Ok(NamedFiles::default());
    }
    Ok(parse(cache, file).await?.map(Parsed::into_named_files).unwrap_or_default())
}

/// The names in the cache of files that the file of this name names.
fn names_of(name: &str, parts: &[Part]) -> impl Iterator<Item = String> {
    let source = FetchSource::new(name.to_owned(), Rc::default());
    let urls = parts.iter().filter_map(move |part| match &part.url {
        Some(url) => Some(source.part_at_url(url)),
        None => source.part(&part.path).ok(),
    });
    urls.map(|part| key::name_of_url(part.name()))
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
                if !read(cache, file, &mut window, range).await? {
                    return Ok(None);
                }
            }
        }
    }
}

/// Copies bytes of a file from the cache into its window. Returns false if the cache does not have all of them.
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
