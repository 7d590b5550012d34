//! Converts the description of a blob in an index to a component of a tensor.

use crate::codec::zstd;
use crate::digest::from_hex;
use crate::dtype::Dtype;
use crate::error::{Result, malformed};
use crate::index::{Component, ComponentDigest, Digest, DigestedBytes, Encoding, role_named};
use crate::values::described::{integer, text};
use serde_json::Value;

/// The recommended alignment of blobs.
pub(super) const ALIGNMENT: u64 = 64;

/// The description of a blob in an index.
#[derive(Debug, Default)]
pub(super) struct Blob<'a> {
    pub(super) offset: u64,
    /// The stored length.
    pub(super) length: u64,
    /// `None` means `raw`.
    pub(super) encoding: Option<&'a str>,
    /// The decoded length, if stated.
    pub(super) decoded_length: Option<u64>,
    /// The algorithm and value of the digest of the stored bytes.
    pub(super) digest: Option<&'a str>,
    pub(super) is_big_endian: bool,
}

impl<'a> Blob<'a> {
    /// Reads the description of a component of 1.x.
    pub(super) fn read(part: &'a Value) -> Result<Self> {
        Ok(Blob {
            encoding: text(part, "encoding")?,
            decoded_length: integer(part, "uncompressed_length")?,
            digest: text(part, "digest")?,
            ..Blob::at(part, "offset", "length")?
        })
    }

    /// Creates a blob with only its offset and length, which `described` has under these keys.
    pub(super) fn at(described: &Value, offset: &str, length: &str) -> Result<Self> {
        let place = |key| integer(described, key)?.ok_or_else(|| malformed(format!("it has no `{key}`")));
        Ok(Blob { offset: place(offset)?, length: place(length)?, ..Blob::default() })
    }

    /// Returns the component of the blob. `expected` is the decoded length, if the shape determines it.
    pub(super) fn component(
        &self,
        role: &str,
        dtype: Dtype,
        expected: Option<u64>,
        findings: &mut Findings,
    ) -> Result<Component> {
        let end = self.offset.checked_add(self.length).filter(|_| self.offset >= super::contents::MAGIC_BYTES);
        let range = end.map(|end| self.offset..end).ok_or_else(|| {
            malformed(format!("its offset {} and length {} are not a range of the file", self.offset, self.length))
        })?;
        findings.misaligned += u64::from(!self.offset.is_multiple_of(ALIGNMENT));

        let mut component = Component {
            role: role_named(role),
            digest: self.component_digest(findings)?,
            ..Component::raw(dtype, range)
        };
        match self.encoding {
            None | Some("raw") => {
                if self.is_big_endian {
                    component.encoding = Encoding::BigEndian;
                }
                check_length(&component, self.length, self.decoded_length)?;
                check_length(&component, self.length, expected)?;
            }
            Some("zstd") => {
                component.encoding = Encoding::Zstd;
                component.decoded_length = self.decoded_length.or(expected);
                if let Some(decoded) = component.decoded_length {
                    check_length(&component, decoded, expected)?;
                    zstd::check_lengths(self.length, decoded)?;
                }
            }
            Some(other) => {
                findings.note(format!("bytes in the unknown encoding \"{other}\" load as they are stored"));
                component.dtype = Dtype::Other(format!("{} in {other}", component.dtype).into());
            }
        }
        Ok(component)
    }

    fn component_digest(&self, findings: &mut Findings) -> Result<Option<ComponentDigest>> {
        Ok(self.digest(findings)?.map(|digest| ComponentDigest { digest, over: DigestedBytes::Stored }))
    }

    /// The stated digest, if its algorithm is known.
    pub(super) fn digest(&self, findings: &mut Findings) -> Result<Option<Digest>> {
        let Some(text) = self.digest else { return Ok(None) };
        let invalid = || malformed(format!("its digest `{text}` is not valid for its algorithm"));
        let (algorithm, value) = text.split_once(':').ok_or_else(invalid)?;
        let value = value.strip_prefix("0x").or(value.strip_prefix("0X")).unwrap_or(value);
        let digest = match algorithm.to_ascii_lowercase().as_str() {
            "crc32c" => Digest::Crc32c(u32::from_be_bytes(from_hex(value).ok_or_else(invalid)?)),
            "sha256" => Digest::Sha256(from_hex(value).ok_or_else(invalid)?),
            _ => {
                findings.note(format!("digests of the unknown algorithm \"{algorithm}\" were not verified"));
                return Ok(None);
            }
        };
        Ok(Some(digest))
    }
}

fn check_length(component: &Component, length: u64, expected: Option<u64>) -> Result<()> {
    match expected {
        Some(expected) if expected != length => {
            let Component { role, dtype, range, .. } = component;
            let what = format!("`{role}` has {length} bytes of {dtype}, but its tensor needs {expected}");
            Err(malformed(what).at(range.clone()))
        }
        _ => Ok(()),
    }
}

/// The maximum number of notes. Files use few encodings and algorithms. Bounds the comparisons for malicious files.
const MAX_NOTES: usize = 32;

/// Collects warnings about blobs. Each warning is reported once, for any number of blobs.
#[derive(Debug, Default, Clone)]
pub(super) struct Findings {
    misaligned: u64,
    notes: Vec<String>,
}

impl Findings {
    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn warnings(self) -> impl Iterator<Item = String> {
        let Findings { misaligned, notes } = self;
        let warning =
            format!("{misaligned} blobs do not begin at multiples of {ALIGNMENT} bytes: reading them requires copies");
        (misaligned > 0).then_some(warning).into_iter().chain(notes)
    }
}
