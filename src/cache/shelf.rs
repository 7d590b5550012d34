//! Files in IndexedDB, or in what the caller gave.

use super::contents::Content;
use super::indexed::Database;
use super::keep::Keep;
use super::keyed::{KeyValues, Keyed};
use super::log::Found;
use super::opfs::{NO_ROOM, room_bytes};
use super::own::Own;
use super::status::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use js_sys::{Array, ArrayBuffer, Date, Math, Uint8Array};
use std::ops::Range;
use wasm_bindgen::JsValue;

/// How many bytes may be written before the browser is asked again how much room there is.
const ROOM_STEP_BYTES: u64 = 64 << 20;

/// All that is kept.
#[derive(Debug)]
pub(super) struct Shelf {
    files: Keyed<Values>,
    /// Whether it is ours to remove what is old. What the caller gave is the caller's.
    makes_room: bool,
    /// How many bytes can be written before asking again.
    room_bytes: u64,
    /// What was used since is not removed to make room.
    started_ms: u64,
}

/// Where the values are.
#[derive(Debug)]
enum Values {
    Database(Database),
    Own(Own),
}

impl Shelf {
    pub(super) async fn open() -> Result<Self> {
        Ok(Shelf::new(Values::Database(Database::open().await?), true))
    }

    pub(super) fn of(own: Own) -> Self {
        Shelf::new(Values::Own(own), false)
    }

    fn new(values: Values, makes_room: bool) -> Self {
        Shelf { files: Keyed::new(values), makes_room, room_bytes: 0, started_ms: now_ms() }
    }

    /// Sees to it that `byte_length` bytes can be written, and forgets what was not used for longest if they cannot.
    async fn make_room(&mut self, byte_length: u64, url: &str) -> Result<()> {
        while self.room_bytes < byte_length {
            // Chromium counts what is in a database late.
            self.room_bytes = room_bytes(self.files.byte_length().await?).await?.min(ROOM_STEP_BYTES);
            if self.room_bytes < byte_length && !self.files.remove_oldest(url, self.started_ms).await? {
                self.room_bytes = 0;
                return Err(Error::new(ErrorKind::Limit, NO_ROOM));
            }
        }
        self.room_bytes -= byte_length;
        Ok(())
    }
}

impl Keep for Shelf {
    fn kind(&self) -> Kind {
        match self.files.values() {
            Values::Database(_) => Kind::Database,
            Values::Own(_) => Kind::Own,
        }
    }

    async fn version(&mut self, url: &str) -> Result<Option<String>> {
        self.files.version(url, now_ms()).await
    }

    async fn read(
        &mut self,
        url: &str,
        version: &str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: &ArrayBuffer,
    ) -> Result<(u64, u64)> {
        let into = Uint8Array::new(buffer);
        let mut count = 0;
        let Range { start, end } = range;
        let end = end.min(start.saturating_add(u64::from(into.length())));
        while start + u64::from(count) < end {
            let rest = start + u64::from(count)..end_of_interest;
            match self.files.read(url, version, rest, DEFAULT_COALESCE_GAP_BYTES).await? {
                Found::Missing(missing) if count == 0 => return Ok((0, missing.end)),
                Found::Missing(_) => break,
                Found::Bytes(bytes) => {
                    let fits = bytes.get(..(end - start) as usize - count as usize).unwrap_or(bytes);
                    into.subarray(count, count + fits.len() as u32).copy_from(fits);
                    count += fits.len() as u32;
                }
            }
        }
        Ok((u64::from(count), start + u64::from(count)))
    }

    async fn write(&mut self, url: &str, version: &str, start: u64, bytes: &[u8]) -> Result<()> {
        if self.makes_room {
            self.make_room(bytes.len() as u64, url).await?;
        }
        let generation = (Math::random() * 2f64.powi(53)) as u64;
        loop {
            match self.files.write(url, version, start, bytes, generation, now_ms()).await {
                // There may be less room than the browser says.
                Err(error)
                    if self.makes_room
                        && error.kind == ErrorKind::Limit
                        && self.files.remove_oldest(url, self.started_ms).await? => {}
                outcome => return outcome,
            }
        }
    }

    async fn note(&mut self, content: &Content, url: &str, version: &str, range: Range<u64>) -> Result<()> {
        self.files.note(content, url, version, range).await
    }

    async fn locate(&mut self, contents: &[Option<Content>]) -> Result<Array> {
        let places = self.files.locate(contents).await?.into_iter().map(|place| {
            let Some(place) = place else { return JsValue::UNDEFINED };
            let number = |number: u64| JsValue::from_f64(number as f64);
            let length = if place.is_whole { number(place.range.end - place.range.start) } else { JsValue::UNDEFINED };
            Array::of4(&place.url.into(), &place.version.into(), &number(place.range.start), &length).into()
        });
        Ok(places.collect())
    }

    async fn delete(&mut self, url: &str, version: Option<&str>) -> Result<()> {
        self.files.delete(url, version).await
    }

    async fn list(&self) -> Result<Array> {
        let files = self.files.list().await?.into_iter().map(|file| {
            let number = |number: u64| JsValue::from_f64(number as f64);
            let file_length = file.description.identity.length.map_or(JsValue::UNDEFINED, number);
            let url = file.description.url.into();
            JsValue::from(Array::of4(&url, &number(file.byte_length), &file_length, &number(file.last_used_ms)))
        });
        Ok(files.collect())
    }

    async fn clear(&mut self) -> Result<()> {
        self.files.clear().await
    }
}

impl KeyValues for Values {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Values::Database(values) => values.get(key).await,
            Values::Own(values) => values.get(key).await,
        }
    }

    async fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        match self {
            Values::Database(values) => values.set(key, value).await,
            Values::Own(values) => values.set(key, value).await,
        }
    }

    async fn delete(&self, keys: Vec<String>) -> Result<()> {
        match self {
            Values::Database(values) => values.delete(keys).await,
            Values::Own(values) => values.delete(keys).await,
        }
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        match self {
            Values::Database(values) => values.keys(prefix).await,
            Values::Own(values) => values.keys(prefix).await,
        }
    }
}

fn now_ms() -> u64 {
    Date::now() as u64
}
