//! The locations of contents, by their digests.

use super::keys::{CONTENT, content_key};
use super::{ChunkedKv, KvStore};
use crate::cache::content_index::{self, ContentId, Location};
use crate::cache::record::name_of;
use crate::error::Result;
use std::collections::HashSet;
use std::ops::Range;

/// The location of a content.
#[derive(Debug)]
pub(crate) struct ContentLocation {
    /// The URL of the file that contains it.
    pub(crate) url: String,
    /// The version of that file.
    pub(crate) version: String,
    /// Its range in that file.
    pub(crate) range: Range<u64>,
    /// Whether the whole range is cached.
    pub(crate) is_whole: bool,
}

impl<K: KvStore> ChunkedKv<K> {
    /// Records the content ID of a range of a version.
    pub(crate) async fn note(
        &mut self,
        content: &ContentId,
        url: &str,
        version: &str,
        range: Range<u64>,
    ) -> Result<()> {
        let name = name_of(url);
        let file = self.file(&name).filter(|file| file.version == version);
        let (Some(file), Ok(log)) = (file, name.as_bytes().try_into()) else { return Ok(()) };
        let location =
            Location { log, generation: file.generation, start: range.start, byte_length: range.end - range.start };
        self.store.set(&content_key(content), &content_index::record(content, &location)).await
    }

    /// Finds the locations of contents.
    pub(crate) async fn locate(&mut self, contents: &[Option<ContentId>]) -> Result<Vec<Option<ContentLocation>>> {
        let known = HashSet::<_>::from_iter(self.store.keys(CONTENT).await?);
        let mut found = Vec::new();
        for content in contents {
            let known = content.filter(|content| known.contains(&content_key(content)));
            found.push(match known {
                Some(content) => self.location(&content).await?,
                None => None,
            });
        }
        Ok(found)
    }

    async fn location(&mut self, content: &ContentId) -> Result<Option<ContentLocation>> {
        let record = self.store.get(&content_key(content)).await?;
        let location = record.and_then(|bytes| content_index::read_record(bytes.first_chunk()?));
        let Some((_, location)) = location.filter(|(of, _)| of == content) else { return Ok(None) };
        let name = String::from_utf8_lossy(&location.log).into_owned();
        let range = location.start..location.start.saturating_add(location.byte_length);
        self.reload(&name).await?;
        let file = self.file(&name).filter(|file| file.generation == location.generation && !range.is_empty());
        Ok(file.map(|file| {
            let is_whole = file.extents.run_end(range.start) >= range.end;
            ContentLocation { url: file.description.url.clone(), version: file.version.clone(), range, is_whole }
        }))
    }
}
