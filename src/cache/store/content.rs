//! The content index of the store.

use super::super::backend::ContentLocation;
use super::{CONTENTS, OpenContentIndex, Store, name_of, now_ms};
use crate::cache::content_index::{ContentId, ContentIndex, Location};
use crate::cache::opfs::{IfMissing, SyncFile};
use crate::error::Result;
use std::ops::Range;

impl Store {
    /// Records the content ID of a range of a version.
    pub(super) async fn note_content(
        &mut self,
        content: &ContentId,
        url: &str,
        version: &str,
        range: Range<u64>,
    ) -> Result<()> {
        let name = name_of(url);
        let open = self.open(&name, IfMissing::Skip).await?.filter(|open| open.version.as_deref() == Some(version));
        let Some(generation) = open.and_then(|open| open.log.generation()) else { return Ok(()) };
        let Ok(log) = name.as_bytes().try_into() else { return Ok(()) };
        let location = Location { log, generation, start: range.start, byte_length: range.end - range.start };
        match self.contents(IfMissing::Create).await? {
            Some(list) => list.add(*content, location),
            None => Ok(()),
        }
    }

    /// Returns the location of each content that is found.
    pub(super) async fn locate_contents(
        &mut self,
        contents: &[Option<ContentId>],
    ) -> Result<Vec<Option<ContentLocation>>> {
        let mut found = Vec::new();
        for content in contents {
            let location = match (content, self.contents(IfMissing::Skip).await?) {
                (Some(content), Some(list)) => list.find(content).copied(),
                _ => None,
            };
            found.push(match location {
                Some(location) => self.describe(&location).await?,
                None => None,
            });
        }
        Ok(found)
    }

    async fn contents(&mut self, if_missing: IfMissing) -> Result<Option<&mut ContentIndex<SyncFile>>> {
        if self.contents.is_none() {
            let lock = self.lock(CONTENTS).await?;
            let Some(file) = self.directory.file(CONTENTS, if_missing).await? else { return Ok(None) };
            self.contents = Some(OpenContentIndex { list: ContentIndex::open(file)?, _lock: lock });
        }
        Ok(self.contents.as_mut().map(|contents| &mut contents.list))
    }

    /// Returns the location with its key and version, if its log still has the same generation.
    async fn describe(&mut self, location: &Location) -> Result<Option<ContentLocation>> {
        let range = location.start..location.start.saturating_add(location.byte_length);
        if range.is_empty() {
            return Ok(None); // the content was not found there before
        }
        let name = String::from_utf8_lossy(&location.log).into_owned();
        let open =
            self.open(&name, IfMissing::Skip).await?.filter(|open| open.log.generation() == Some(location.generation));
        Ok(open.and_then(|open| {
            open.log.touch(now_ms()).ok()?; // counts as used, although under another URL
            let (url, version) = (open.log.description()?.url.as_str(), open.version.as_deref()?);
            let byte_length = open.log.has(&range).then_some(location.byte_length);
            Some(ContentLocation {
                key: url.to_owned(),
                version: version.to_owned(),
                start: location.start,
                byte_length,
            })
        }))
    }
}
