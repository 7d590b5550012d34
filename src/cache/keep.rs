//! What pages ask of whatever keeps files.

use super::contents::Content;
use super::status::Kind;
use crate::error::Result;
use js_sys::{Array, ArrayBuffer};
use std::ops::Range;

/// Something that keeps files by URL, a version of each.
pub(super) trait Keep {
    /// Where they are.
    fn kind(&self) -> Kind;

    /// Which version of the file is kept, if one is; it counts as used now.
    async fn version(&mut self, url: &str) -> Result<Option<String>>;

    /// Reads the first bytes of `range` into the buffer. Says how many, and, where there are none, from where on there
    /// are again: `end_of_interest` at the most.
    async fn read(
        &mut self,
        url: &str,
        version: &str,
        range: Range<u64>,
        end_of_interest: u64,
        buffer: &ArrayBuffer,
    ) -> Result<(u64, u64)>;

    /// Keeps bytes of a version; what was there of another version goes.
    async fn write(&mut self, url: &str, version: &str, start: u64, bytes: &[u8]) -> Result<()>;

    /// Notes that bytes of a version have a content.
    async fn note(&mut self, content: &Content, url: &str, version: &str, range: Range<u64>) -> Result<()>;

    /// Of each content `[URL, version, where it begins, its length]`, or nothing; no length where not all of it is
    /// there.
    async fn locate(&mut self, contents: &[Option<Content>]) -> Result<Array>;

    /// Forgets a file: of that version only, where one is named.
    async fn delete(&mut self, url: &str, version: Option<&str>) -> Result<()>;

    /// Of each file that is kept: its URL, how many bytes are kept, how long the file is, and when it was used last.
    async fn list(&self) -> Result<Array>;

    /// Forgets everything.
    async fn clear(&mut self) -> Result<()>;

    /// Another worker wants this log.
    fn give_up(&mut self, _name: &str) {}

    /// Whether there is anything to close.
    fn is_open(&self) -> bool {
        false
    }

    /// Makes sure that what was written stays, and closes everything: other tabs need not call for it then.
    fn rest(&mut self) {}
}
