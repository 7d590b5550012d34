//! Converts a part of an object to a component of a tensor.

use super::super::blob::Findings;
use super::super::dtypes::part_dtype;
use crate::codec::zstd;
use crate::digest::from_hex;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Component, ComponentDigest, Digest, DigestedBytes, Encoding, role_named};
use crate::values::described::{integer, integers, text};
use serde_json::Value;
use std::ops::Range;

/// The alignment of blobs. The first blob begins at this offset.
pub(super) const ALIGNMENT: u64 = 4096;

/// Zstandard frames, followed by a skippable frame with a seek table (profile `zt.zstd-seekable/1`).
const ZSTD_SEEKABLE: &str = "zt.zstd-seekable/1";

/// The description of a part in the manifest.
pub(super) struct Part<'a> {
    pub(super) dtype: Dtype,
    range: Range<u64>,
    /// `None` means raw.
    encoding: Option<&'a str>,
    pub(super) decoded_length: u64,
    /// The algorithm and value of the digest of the decoded bytes.
    digest: Option<&'a str>,
}

impl<'a> Part<'a> {
    pub(super) fn read(described: &'a Value) -> Result<Self> {
        if let Some(shard) = text(described, "shard")? {
            return Err(in_shards(&format!("it is in another file, the shard \"{shard}\"")));
        }
        let range = match *integers(described, "blob")? {
            [offset, length] if offset >= ALIGNMENT && offset.is_multiple_of(ALIGNMENT) => {
                offset.checked_add(length).map(|end| offset..end)
            }
            _ => None,
        };
        let range = range.ok_or_else(|| {
            malformed(format!("its `blob` is not an offset, which must be a multiple of {ALIGNMENT}, and a length"))
        })?;
        let (encoding, stated) = (text(described, "encoding")?, integer(described, "decoded_length")?);
        let decoded_length = match (encoding, stated) {
            (None, None) => range.end - range.start,
            (Some(_), Some(decoded)) => decoded,
            _ => return Err(malformed("it has only one of `encoding` and `decoded_length`")),
        };
        let (stored, logical) = (text(described, "dtype")?, text(described, "type")?);
        let dtype = part_dtype(stored.ok_or_else(|| malformed("it has no `dtype`"))?, logical)?;
        let digest = text(described, "digest")?;
        Ok(Part { dtype, range, encoding, decoded_length, digest })
    }

    pub(super) fn component(&self, role: &str, findings: &mut Findings) -> Result<Component> {
        let mut component =
            Component { role: role_named(role), ..Component::raw(self.dtype.clone(), self.range.clone()) };
        match self.encoding {
            None => {}
            Some(ZSTD_SEEKABLE) => {
                zstd::check_lengths(self.range.end - self.range.start, self.decoded_length)?;
                component.encoding = Encoding::Zstd;
                component.decoded_length = Some(self.decoded_length);
            }
            Some(other) => {
                findings.note(format!("bytes in the unknown encoding \"{other}\" load as they are stored"));
                component.dtype = Dtype::Other(format!("{} in {other}", component.dtype).into());
                return Ok(component); // its digest covers decoded bytes, which are not available
            }
        }
        component.digest = self.digest(findings)?;
        Ok(component)
    }

    fn digest(&self, findings: &mut Findings) -> Result<Option<ComponentDigest>> {
        let Some(text) = self.digest else { return Ok(None) };
        let invalid = || malformed(format!("its digest `{text}` is not valid for its algorithm, or not in lower case"));
        let (algorithm, value) = text.split_once(':').ok_or_else(invalid)?;
        if value.contains(|digit: char| digit.is_ascii_uppercase()) {
            return Err(invalid());
        }
        let digest = match algorithm {
            "xxh3" => Digest::Xxh3(u64::from_be_bytes(from_hex(value).ok_or_else(invalid)?)),
            "sha256" => Digest::Sha256(from_hex(value).ok_or_else(invalid)?),
            _ => {
                findings.note(format!("digests of the unknown algorithm \"{algorithm}\" were not verified"));
                return Ok(None);
            }
        };
        Ok(Some(ComponentDigest { digest, over: DigestedBytes::Decoded }))
    }
}

/// The error for a model in several files.
pub(super) fn in_shards(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, what)
        .advise("weightstream does not read zTensor models in several files: write the model as one file.")
}
