//! The version of a file without a stated digest, which is recorded beside the file: a later call continues only a part
//! of the same version, and keeps only a file of the same version.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::output::{Existing, write_file};
use weightstream::internals::source::{Identity, ModelSource};
use weightstream::{Error, Result};

/// What the name of the record ends with.
const SUFFIX: &str = ".weightstream.json";

/// A longer file is of another program.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// A version of a file on a server.
pub(super) struct Version {
    /// The URL, without what may be a secret or differ between runs. ETags and dates identify a file only together with
    /// its URL: those of nginx are the date and the length, which models of one kind may share.
    url: String,
    identity: Identity,
}

impl Version {
    /// The version of an open file; `None` if its server states neither an ETag nor a date.
    pub(super) fn of<S: ModelSource>(remote: &RemoteFile<S>) -> Option<Self> {
        let identity = remote.identity().filter(|stated| stated.etag.is_some() || stated.last_modified.is_some())?;
        Some(Version { url: without_secrets(remote.source().name()), identity })
    }
}

/// The record of the version of a file.
pub(super) struct VersionRecord(PathBuf);

impl VersionRecord {
    /// That of the file at `path`.
    pub(super) fn of(path: &Path) -> Self {
        let mut name = OsString::from(path);
        name.push(SUFFIX);
        VersionRecord(PathBuf::from(name))
    }

    /// Whether the part that an interrupted call has left is certainly of this version.
    pub(super) fn confirms_part(&self, now: &Version) -> bool {
        self.confirms(now, None)
    }

    /// Whether a complete file is certainly of this version, and has not been written since.
    pub(super) fn confirms_file(&self, now: &Version, file: &Metadata) -> bool {
        modified(file).is_some_and(|modified| self.confirms(now, Some(&modified)))
    }

    /// `modified` is that of a complete file.
    fn confirms(&self, now: &Version, modified: Option<&str>) -> bool {
        let Some(record) = self.read() else { return false };
        let text = |key: &str| record.get(key).and_then(Value::as_str);
        let mut then = Identity::default();
        then.length = record.get("byteLength").and_then(Value::as_u64);
        (then.etag, then.last_modified) = (text("etag").map(str::to_owned), text("lastModified").map(str::to_owned));
        text("url") == Some(&now.url) && text("modified") == modified && then.is_confirmed_by(&now.identity)
    }

    fn read(&self) -> Option<Value> {
        let metadata = fs::symlink_metadata(&self.0).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_RECORD_BYTES {
            return None;
        }
        serde_json::from_slice(&fs::read(&self.0).ok()?).ok()
    }

    /// Writes the record of a file that is being received.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if something other than a file has its path; `IO`.
    pub(super) fn write_of_part(&self, now: &Version) -> Result<()> {
        self.write(now, None)
    }

    /// Writes the record of a complete file.
    ///
    /// # Errors
    /// Those of [`VersionRecord::write_of_part`].
    pub(super) fn write_of_file(&self, now: &Version, file: &Metadata) -> Result<()> {
        match modified(file) {
            Some(modified) => self.write(now, Some(&modified)),
            None => self.remove(),
        }
    }

    fn write(&self, now: &Version, modified: Option<&str>) -> Result<()> {
        let Identity { etag, last_modified, length, .. } = &now.identity;
        let record = json!({
            "url": now.url, "etag": etag, "lastModified": last_modified, "byteLength": length, "modified": modified,
        });
        write_file(&self.0, record.to_string().as_bytes(), Existing::Replace)
    }

    /// Removes the record: it does not describe the bytes that follow.
    ///
    /// # Errors
    /// `IO` if it remains.
    pub(super) fn remove(&self) -> Result<()> {
        if !fs::symlink_metadata(&self.0).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(());
        }
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::from(error).in_file(&self.0.display().to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// When a file was written, in nanoseconds since 1970; `None` if the platform does not say.
fn modified(file: &Metadata) -> Option<String> {
    let modified = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(modified.as_nanos().to_string())
}

/// A URL without its query, which may have a signature, its fragment, and its user and password.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_urls_have_no_secrets() {
        for (url, recorded) in [
            ("https://u:p@host:1/a/m%3F@1.apr?X-Signature=1#x", "https://host:1/a/m%3F@1.apr"),
            ("https://host?key=a/b", "https://host"),
            ("s3://bucket/a/m.apr", "s3://bucket/a/m.apr"),
            ("m.apr", "m.apr"),
        ] {
            assert_eq!(without_secrets(url), recorded);
        }
    }
}
