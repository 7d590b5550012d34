//! Where contents are kept: bytes that are known by their digest.

use super::{CONTENTS, OpenContents, Store, name_of, now_ms};
use crate::cache::contents::{Content, Contents, Place};
use crate::cache::opfs::SyncFile;
use crate::error::Result;
use js_sys::Array;
use std::ops::Range;
use wasm_bindgen::JsValue;

impl Store {
    /// Notes that bytes of a version have a content.
    pub(super) async fn note_content(
        &mut self,
        content: &Content,
        url: &str,
        version: &str,
        range: Range<u64>,
    ) -> Result<()> {
        let name = name_of(url);
        let open = self.open(&name, false).await?.filter(|open| open.version.as_deref() == Some(version));
        let Some(generation) = open.and_then(|open| open.log.generation()) else { return Ok(()) };
        let Ok(log) = name.as_bytes().try_into() else { return Ok(()) };
        let place = Place { log, generation, start: range.start, byte_length: range.end - range.start };
        match self.contents(true).await? {
            Some(list) => list.add(*content, place),
            None => Ok(()),
        }
    }

    /// Of each content `[URL, version, where it begins, its length]`, or nothing; no length where not all of it is
    /// there.
    pub(super) async fn locate_contents(&mut self, contents: &[Option<Content>]) -> Result<Array> {
        let found = Array::new();
        for content in contents {
            let place = match (content, self.contents(false).await?) {
                (Some(content), Some(list)) => list.find(content).copied(),
                _ => None,
            };
            let place = match place {
                Some(place) => self.describe(&place).await?,
                None => None,
            };
            found.push(&place.map_or(JsValue::UNDEFINED, JsValue::from));
        }
        Ok(found)
    }

    async fn contents(&mut self, make: bool) -> Result<Option<&mut Contents<SyncFile>>> {
        if self.contents.is_none() {
            let lock = self.lock(CONTENTS).await?;
            let Some(file) = self.folder.file(CONTENTS, make).await? else { return Ok(None) };
            self.contents = Some(OpenContents { list: Contents::open(file)?, _lock: lock });
        }
        Ok(self.contents.as_mut().map(|contents| &mut contents.list))
    }

    /// `[URL, version, where it begins, its length]` of what is at a place, if the log is still the one that was meant.
    async fn describe(&mut self, place: &Place) -> Result<Option<Array>> {
        let range = place.start..place.start.saturating_add(place.byte_length);
        if range.is_empty() {
            return Ok(None); // it turned out not to be there
        }
        let name = String::from_utf8_lossy(&place.log).into_owned();
        let open = self.open(&name, false).await?.filter(|open| open.log.generation() == Some(place.generation));
        Ok(open.and_then(|open| {
            open.log.touch(now_ms()).ok()?; // it is in use, if under another name
            let (url, version) = (open.log.description()?.url.as_str(), open.version.as_deref()?);
            let length = if open.log.has(&range) { (place.byte_length as f64).into() } else { JsValue::UNDEFINED };
            Some(Array::of4(&url.into(), &version.into(), &(place.start as f64).into(), &length))
        }))
    }
}
