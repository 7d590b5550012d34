//! What is kept of files where there are only keys and values: IndexedDB, or whatever the caller has.
//!
//! A key says what its value is: which bytes of which file, and their checksum. So a value that is missing, cut off or
//! another one is noticed when it is read, whatever became of the store, and is fetched again. Nothing needs an order
//! of writes, but that a file's head comes before its pieces.
//!
//! | key, behind `weightstream.` | value |
//! | --- | --- |
//! | name`.head` | what a log begins with: URL, version and generation of the file |
//! | name`.used` | when it was last used, in milliseconds since 1970 |
//! | name`.`generation`.`start`.`end`.`CRC-32 | bytes of the file; all four in hexadecimal |
//! | `content.`digest | where bytes with this digest are, as in the list of contents |

use super::PIECE_BYTES;
use super::contents::{self, Content, Place};
use super::extents::{Extents, Piece};
use super::log::{Description, Found};
use super::record::{self, HEAD_BYTES, Head, name_of, write_identity};
use crate::codec::crc32::checksum;
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::ops::Range;

/// What all keys begin with.
const PREFIX: &str = "weightstream.";

const CONTENT: &str = "weightstream.content.";

/// For so long a file that is written to is taken for what it was: what is written in vain meanwhile is found missing.
const LOOK_INTERVAL_MS: u64 = 1_000;

/// Something that keeps values under keys. A key is a valid name of a file: at most 128 of `a` to `z`, digits and dots.
#[allow(async_fn_in_trait, reason = "as for sources")]
pub(crate) trait KeyValues {
    /// The value, if there is one.
    ///
    /// # Errors
    /// `IO` where the store fails.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Keeps a value, of little more than [`PIECE_BYTES`] at the most.
    ///
    /// # Errors
    /// `IO` where the store fails, `LIMIT` where there is no room.
    async fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// Forgets values, which may be gone already.
    ///
    /// # Errors
    /// `IO` where the store fails.
    async fn delete(&self, keys: Vec<String>) -> Result<()>;

    /// All keys that begin so.
    ///
    /// # Errors
    /// `IO` where the store fails.
    async fn keys(&self, prefix: &str) -> Result<Vec<String>>;
}

/// The files.
#[derive(Debug)]
pub(crate) struct Keyed<K> {
    values: K,
    /// What was seen of them. Others may have written since.
    files: Vec<File>,
    /// The piece that was read last: small tensors lie many in one.
    last: Option<(String, Vec<u8>)>,
}

#[derive(Debug)]
struct File {
    name: String,
    description: Description,
    version: String,
    generation: u64,
    extents: Extents,
    /// When its head was last known to be there.
    seen_ms: u64,
}

/// A file that is kept.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Where it came from, and its version.
    pub(crate) description: Description,
    /// How many bytes of it are kept.
    pub(crate) byte_length: u64,
    /// When it was last used, in milliseconds since 1970.
    pub(crate) last_used_ms: u64,
    name: String,
}

/// Where a content is.
#[derive(Debug)]
pub(crate) struct Located {
    /// The URL of the file that it is in.
    pub(crate) url: String,
    /// The version of that file.
    pub(crate) version: String,
    /// Its bytes in that file.
    pub(crate) range: Range<u64>,
    /// Whether all of them are there.
    pub(crate) is_whole: bool,
}

impl<K: KeyValues> Keyed<K> {
    /// The files in `values`.
    pub(crate) fn new(values: K) -> Self {
        Keyed { values, files: Vec::new(), last: None }
    }

    /// Where they are.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "only the browser asks"))]
    pub(crate) fn values(&self) -> &K {
        &self.values
    }

    /// Which version of a file is kept, if one is; it counts as used now.
    ///
    /// # Errors
    /// Those of the store; so for all others.
    pub(crate) async fn version(&mut self, url: &str, now_ms: u64) -> Result<Option<String>> {
        let name = name_of(url);
        self.look(&name).await?;
        let Some(file) = self.file(&name) else { return Ok(None) };
        self.values.set(&used_key(&name), &now_ms.to_le_bytes()).await?;
        Ok(Some(file.version.clone()))
    }

    /// As [`Log::read`](super::log::Log::read), of a version of a file.
    pub(crate) async fn read(
        &mut self,
        url: &str,
        version: &str,
        range: Range<u64>,
        least_run: u64,
    ) -> Result<Found<'_>> {
        let name = name_of(url);
        if self.file(&name).is_none() {
            self.look(&name).await?;
        }
        if !self.find(&name, version, range.start).await? {
            self.look(&name).await?; // another tab may have kept it since
            if !self.find(&name, version, range.start).await? {
                let file = self.file(&name).filter(|file| file.version == version);
                return Ok(Found::Missing(file.map_or(range.clone(), |file| file.extents.missing(&range, least_run))));
            }
        }
        let extent = self.file(&name).and_then(|file| file.extents.find(range.start));
        let (Some((extent, piece)), Some((_, bytes))) = (extent, &self.last) else { return Ok(Found::Missing(range)) };
        let (start, end) = (range.start - piece.start, extent.end.min(range.end) - piece.start);
        Ok(Found::Bytes(bytes.get(start as usize..end as usize).unwrap_or_default()))
    }

    /// Keeps `bytes`, at most [`PIECE_BYTES`] of them, which begin at `start` in that version of the file. What there
    /// was of another version goes. `generation` is random.
    pub(crate) async fn write(
        &mut self,
        url: &str,
        version: &str,
        start: u64,
        bytes: &[u8],
        generation: u64,
        now_ms: u64,
    ) -> Result<()> {
        let unusable = || Error::new(ErrorKind::Internal, "bytes were to be kept in a way that no store takes");
        let end =
            start.checked_add(bytes.len() as u64).filter(|end| end - start <= PIECE_BYTES).ok_or_else(unusable)?;
        let name = name_of(url);
        // Another tab may have forgotten the file since, or begun it anew.
        let is_fresh = self.file(&name).is_some_and(|file| now_ms.abs_diff(file.seen_ms) < LOOK_INTERVAL_MS);
        if !is_fresh {
            let head = self.head(&name).await?.map(|(_, generation)| generation);
            if self.file(&name).map(|file| file.generation) != head {
                self.look(&name).await?;
            }
        }
        if self.file(&name).is_none_or(|file| file.version != version) {
            let description = Description { url: url.to_owned(), identity: record::read_identity(version) };
            self.begin(&name, description, generation, now_ms).await?;
        }
        let file = self.files.iter_mut().find(|file| file.name == name).ok_or_else(unusable)?;
        if !is_fresh {
            file.seen_ms = now_ms;
        }
        loop {
            let gap = file.extents.missing(&(start..end), 1);
            if gap.is_empty() {
                return Ok(());
            }
            let part = bytes.get((gap.start - start) as usize..(gap.end - start) as usize).ok_or_else(unusable)?;
            let piece = Piece { start: gap.start, byte_length: part.len() as u32, crc32: checksum(part), at: 0 };
            self.values.set(&piece_key(&name, file.generation, &piece), part).await?;
            file.extents.insert(piece);
        }
    }

    /// Forgets a file: of that version only, where one is named.
    pub(crate) async fn delete(&mut self, url: &str, version: Option<&str>) -> Result<()> {
        let name = name_of(url);
        self.look(&name).await?;
        if version.is_some_and(|version| self.file(&name).is_none_or(|file| file.version != version)) {
            return Ok(());
        }
        self.forget(&name).await
    }

    /// Every file that is kept.
    pub(crate) async fn list(&self) -> Result<Vec<Listed>> {
        let mut lengths: Vec<(String, u64)> = Vec::new();
        for key in self.values.keys(PREFIX).await? {
            let (Some((name, rest)), false) = (split(&key), key.starts_with(CONTENT)) else { continue };
            let byte_length = parse_piece(rest).map_or(0, |(_, piece)| u64::from(piece.byte_length));
            match lengths.iter_mut().rfind(|(known, _)| known == name) {
                Some((_, length)) => *length += byte_length,
                None => lengths.push((name.to_owned(), byte_length)),
            }
        }
        let mut files = Vec::new();
        for (name, byte_length) in lengths {
            let Some((description, _)) = self.head(&name).await? else { continue };
            let used = self.values.get(&used_key(&name)).await?;
            let last_used_ms = used.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?))).unwrap_or(0);
            files.push(Listed { description, byte_length, last_used_ms, name });
        }
        Ok(files)
    }

    /// How many bytes are kept of all files.
    pub(crate) async fn byte_length(&self) -> Result<u64> {
        let keys = self.values.keys(PREFIX).await?;
        let pieces = keys.iter().filter_map(|key| parse_piece(split(key)?.1));
        Ok(pieces.map(|(_, piece)| u64::from(piece.byte_length)).sum())
    }

    /// Forgets everything.
    pub(crate) async fn clear(&mut self) -> Result<()> {
        self.files.clear();
        self.values.delete(self.values.keys(PREFIX).await?).await
    }

    /// Removes the file that was not used for longest, but neither this one nor any that was used since then; whether
    /// there was one.
    pub(crate) async fn remove_oldest(&mut self, but_url: &str, since_ms: u64) -> Result<bool> {
        let but = name_of(but_url);
        let old = self.list().await?.into_iter().filter(|file| file.name != but && file.last_used_ms < since_ms);
        match old.min_by_key(|file| file.last_used_ms) {
            Some(oldest) => self.forget(&oldest.name).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Notes that bytes of a version have a content.
    pub(crate) async fn note(&mut self, content: &Content, url: &str, version: &str, range: Range<u64>) -> Result<()> {
        let name = name_of(url);
        let file = self.file(&name).filter(|file| file.version == version);
        let (Some(file), Ok(log)) = (file, name.as_bytes().try_into()) else { return Ok(()) };
        let place =
            Place { log, generation: file.generation, start: range.start, byte_length: range.end - range.start };
        self.values.set(&content_key(content), &contents::record(content, &place)).await
    }

    /// Where contents are.
    pub(crate) async fn locate(&mut self, contents: &[Option<Content>]) -> Result<Vec<Option<Located>>> {
        let known = HashSet::<_>::from_iter(self.values.keys(CONTENT).await?);
        let mut found = Vec::new();
        for content in contents {
            let known = content.filter(|content| known.contains(&content_key(content)));
            found.push(match known {
                Some(content) => self.place(&content).await?,
                None => None,
            });
        }
        Ok(found)
    }

    async fn place(&mut self, content: &Content) -> Result<Option<Located>> {
        let record = self.values.get(&content_key(content)).await?;
        let place = record.and_then(|bytes| contents::read_record(bytes.first_chunk()?));
        let Some((_, place)) = place.filter(|(of, _)| of == content) else { return Ok(None) };
        let name = String::from_utf8_lossy(&place.log).into_owned();
        let range = place.start..place.start.saturating_add(place.byte_length);
        self.look(&name).await?;
        let file = self.file(&name).filter(|file| file.generation == place.generation && !range.is_empty());
        Ok(file.map(|file| {
            let is_whole = file.extents.run_end(range.start) >= range.end;
            Located { url: file.description.url.clone(), version: file.version.clone(), range, is_whole }
        }))
    }

    fn file(&self, name: &str) -> Option<&File> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Whether the byte is there: the piece that it is in is the last one then. A damaged piece is forgotten.
    async fn find(&mut self, name: &str, version: &str, position: u64) -> Result<bool> {
        let Some(file) = self.files.iter_mut().find(|file| file.name == name && file.version == version) else {
            return Ok(false);
        };
        while let Some((_, piece)) = file.extents.find(position) {
            let key = piece_key(name, file.generation, &piece);
            if self.last.as_ref().is_some_and(|(last, _)| *last == key) {
                return Ok(true);
            }
            let bytes = self.values.get(&key).await?;
            match bytes.filter(|bytes| bytes.len() == piece.byte_length as usize && checksum(bytes) == piece.crc32) {
                Some(bytes) => {
                    self.last = Some((key, bytes));
                    return Ok(true);
                }
                None => {
                    self.values.delete(vec![key]).await?;
                    file.extents.remove(&piece);
                }
            }
        }
        Ok(false)
    }

    /// Looks anew which file is kept under a name, and what of it.
    async fn look(&mut self, name: &str) -> Result<()> {
        self.files.retain(|file| file.name != name);
        let Some((description, generation)) = self.head(name).await? else { return Ok(()) };
        let (mut extents, mut old) = (Extents::default(), Vec::new());
        for key in self.values.keys(&key(name, "")).await? {
            match split(&key).and_then(|(_, rest)| parse_piece(rest)) {
                Some((of, piece)) if of == generation => extents.insert(piece),
                Some(_) => old.push(key),
                None => {}
            }
        }
        let version = write_identity(&description.identity);
        self.files.push(File { name: name.to_owned(), description, version, generation, extents, seen_ms: 0 });
        if old.is_empty() { Ok(()) } else { self.values.delete(old).await }
    }

    async fn begin(&mut self, name: &str, description: Description, generation: u64, now_ms: u64) -> Result<()> {
        let head = record::describe(&description, generation, now_ms)
            .ok_or_else(|| Error::new(ErrorKind::Limit, "its URL is too long to keep a file under"))?;
        self.forget(name).await?;
        self.values.set(&key(name, "head"), &head).await?;
        self.values.set(&used_key(name), &now_ms.to_le_bytes()).await?;
        let version = write_identity(&description.identity);
        let extents = Extents::default();
        self.files.push(File { name: name.to_owned(), description, version, generation, extents, seen_ms: 0 });
        Ok(())
    }

    async fn forget(&mut self, name: &str) -> Result<()> {
        self.files.retain(|file| file.name != name);
        self.values.delete(self.values.keys(&key(name, "")).await?).await
    }

    async fn head(&self, name: &str) -> Result<Option<(Description, u64)>> {
        let bytes = self.values.get(&key(name, "head")).await?.unwrap_or_default();
        let Some(head) = bytes.first_chunk().and_then(Head::read) else { return Ok(None) };
        let description = bytes.get(HEAD_BYTES..).and_then(|text| head.describes(text.get(..head.text_length)?));
        Ok(description.map(|description| (description, head.generation)))
    }
}

fn key(name: &str, rest: &str) -> String {
    format!("{PREFIX}{name}.{rest}")
}

fn used_key(name: &str) -> String {
    key(name, "used")
}

fn content_key(content: &Content) -> String {
    format!("{CONTENT}{}", blake3::Hash::from_bytes(*content).to_hex())
}

fn piece_key(name: &str, generation: u64, piece: &Piece) -> String {
    let Piece { start, byte_length, crc32, .. } = piece;
    let end = start + u64::from(*byte_length);
    key(name, &format!("{generation:x}.{start:x}.{end:x}.{crc32:x}"))
}

/// The name in a key, and what follows it.
fn split(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(PREFIX)?.split_once('.')
}

/// Reads what [`piece_key`] wrote: the generation and the piece.
fn parse_piece(rest: &str) -> Option<(u64, Piece)> {
    let mut numbers = rest.split('.').map(|digits| u64::from_str_radix(digits, 16).ok());
    let mut number = || numbers.next().flatten();
    let (generation, start, end, crc32) = (number()?, number()?, number()?, number()?);
    let byte_length = end.checked_sub(start).filter(|length| (1..=PIECE_BYTES).contains(length))?;
    let piece = Piece { start, byte_length: byte_length as u32, crc32: u32::try_from(crc32).ok()?, at: 0 };
    numbers.next().is_none().then_some((generation, piece))
}
