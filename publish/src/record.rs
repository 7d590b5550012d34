//! The record of a published file: what the manifest and later runs need to know about it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weightstream::internals::codec::digest::digest_of;
use weightstream::internals::index::Digest;
use weightstream::internals::output::ShardFile;
use weightstream::internals::write::Plan;
use weightstream::internals::write::{ConvertOptions, Input};
use weightstream::{Error, ErrorKind, Result};

/// A file of tensors that exists at the destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FileRecord {
    /// The conversion that the file belongs to.
    pub(super) fingerprint: Fingerprint,
    /// The digest of the input's bytes that the file was made from, if the version of the input is unknown.
    #[serde(default)]
    pub(super) source: Option<String>,
    /// The file name.
    pub(super) name: String,
    /// The length in bytes.
    pub(super) byte_length: u64,
    /// See [`ShardFile::crc32`].
    pub(super) crc32: u32,
    /// The SHA-256 of the file, in hexadecimal.
    pub(super) sha256: String,
    /// Offsets and states from which the SHA-256 can be continued: see
    /// [`DigestState`](weightstream::internals::index::DigestState).
    #[serde(default)]
    pub(super) states: Vec<(u64, String)>,
    /// The SHA-256 of the stored bytes of the components of each tensor, by role.
    pub(super) tensors: BTreeMap<String, BTreeMap<String, String>>,
    /// The SHA-256 of the dense bytes of tensors that are stored in streams.
    #[serde(default)]
    pub(super) dense: BTreeMap<String, String>,
}

/// Identifies a conversion: two runs with the same fingerprint write the same files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    /// The digest of the options, the metadata, the tensors and their division into files.
    pub(super) plan: String,
    /// The version of the files of the input; `None` if it is unknown.
    pub(super) input: Option<String>,
}

/// Returns the fingerprint of a conversion by this version of weightstream.
pub(super) fn fingerprint(options: &ConvertOptions, input: &dyn Input, plan: &Plan) -> Fingerprint {
    let format = options.format.map(|format| format.name);
    let mut options = options.clone();
    options.format = None; // a format contains addresses of functions
    let version = env!("CARGO_PKG_VERSION");
    let (metadata, tensors) = (input.metadata(), input.tensors());
    let text = format!("{version} {format:?}\n{options:?}\n{metadata:?}\n{tensors:?}\n{:?}", plan.shards);
    let plan = digest_of(text.as_bytes(), Digest::Sha256([0; 32])).to_string();
    Fingerprint { plan, input: input.version() }
}

/// The name of the record of a file.
pub(super) fn record_name(entry: &str, number: usize, count: usize) -> String {
    format!("{entry}.{:05}-of-{count:05}.json", number + 1)
}

impl ShardFile for FileRecord {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn byte_length(&self) -> u64 {
        self.byte_length
    }

    fn crc32(&self) -> u32 {
        self.crc32
    }

    fn sha256(&self) -> Result<Digest> {
        let digest = format!("sha256:{}", self.sha256).parse();
        digest.map_err(|_| Error::new(ErrorKind::Format, "the record of this file has no SHA-256").in_file(&self.name))
    }
}
