//! The version of a file without a stated digest, which is kept beside what was received of it: a later call continues
//! only the same version.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use weightstream::Result;
use weightstream::internals::output::write_file;
use weightstream::internals::source::Identity;

/// What the name of the record ends with.
const SUFFIX: &str = ".weightstream.partial.json";

/// A longer file is of another program.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// The record of the version of a file.
pub(super) struct VersionRecord(PathBuf);

impl VersionRecord {
    /// That of the file at `path`.
    pub(super) fn of(path: &Path) -> Self {
        let mut name = OsString::from(path);
        name.push(SUFFIX);
        VersionRecord(PathBuf::from(name))
    }

    /// Whether what was received is certainly of this version.
    pub(super) fn confirms(&self, now: &Identity) -> bool {
        self.read().is_some_and(|then| then.is_confirmed_by(now))
    }

    fn read(&self) -> Option<Identity> {
        let metadata = fs::symlink_metadata(&self.0).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_RECORD_BYTES {
            return None;
        }
        let record: Value = serde_json::from_slice(&fs::read(&self.0).ok()?).ok()?;
        let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut then = Identity::default();
        then.length = record.get("byteLength").and_then(Value::as_u64);
        (then.etag, then.last_modified) = (text("etag"), text("lastModified"));
        Some(then)
    }

    /// Writes the record.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if something other than a file has its path; `IO`.
    pub(super) fn write(&self, now: &Identity) -> Result<()> {
        let record = json!({ "etag": now.etag, "lastModified": now.last_modified, "byteLength": now.length });
        write_file(&self.0, record.to_string().as_bytes(), false)
    }

    /// Removes the record of a complete file.
    pub(super) fn remove(&self) {
        fs::remove_file(&self.0).ok(); // harmless if it fails: there is nothing to continue
    }
}
