//! The trust plan: which digests of a file's stored bytes must match before a call passes on what it has read.
//!
//! Loads, `verify`, and everything that writes or compares models make the same plan for each file. How they read the
//! bytes differs: [`Sums`] computes the digests from bytes in any order.

mod coverage;
mod sums;
#[cfg(all(test, native))]
mod tests;

pub(crate) use coverage::Coverage;
pub(crate) use sums::Sums;

use crate::codec::digest;
use crate::digest::Digest;
use crate::digest_state::DigestState;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Expected, RangeChecksum};
use std::ops::Range;

/// How error messages name the digest that the manifest states.
const MANIFEST: &str = "the manifest";

/// How error messages name the digest that the host of a file states.
pub(crate) const HOST: &str = "the hub";

/// How error messages name the digests of the caller.
pub(crate) const PINNED: &str = "the caller's digests";

/// The digests of a whole file that the file itself does not state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StatedDigests {
    /// That of the manifest.
    pub(crate) manifest: Option<Digest>,
    /// That of the signature, or of the caller.
    pub(crate) pinned: Option<Digest>,
    /// That of the host.
    pub(crate) host: Option<Digest>,
}

impl StatedDigests {
    /// Whether there are any.
    pub(crate) fn are_any(&self) -> bool {
        [self.manifest, self.pinned, self.host].iter().any(Option::is_some)
    }
}

/// The digests of a file that a call compares if it passes on the whole model.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilePlan {
    checksums: Vec<RangeChecksum>,
    /// States from which the SHA-256 of the whole file can be continued, in the order of their offsets.
    states: Vec<DigestState>,
}

/// A digest that matched, and the range of the file that it covers.
pub(crate) type Matched = (Range<u64>, Digest);

impl FilePlan {
    /// `in_file` are the checksums that the file states. `length` is that of the file; `stored_length` is unknown for a
    /// file that is compressed as a whole.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a pinned digest of a file of unknown length.
    pub(crate) fn new(
        in_file: Vec<RangeChecksum>,
        stated: StatedDigests,
        length: Option<u64>,
        stored_length: Option<u64>,
    ) -> Result<Self> {
        let mut checksums = in_file;
        let mut add = |digest, length, by: &str| {
            checksums.push(RangeChecksum { over: 0..length, stated: Expected::Digest(digest), by: by.to_owned() });
        };
        if let (Some(digest), Some(length)) = (stated.manifest, length) {
            add(digest, length, MANIFEST);
        }
        if let Some(digest) = stated.pinned {
            add(digest, stored_length.ok_or_else(unknown_length)?, PINNED);
        } else if let (Some(digest), Some(length)) = (stated.host, stored_length) {
            add(digest, length, HOST);
        }
        Ok(FilePlan { checksums, states: Vec::new() })
    }

    /// Adds states from which the SHA-256 of the whole file can be continued, in the order of their offsets.
    pub(crate) fn with_states(self, states: &[DigestState]) -> Self {
        FilePlan { states: states.to_vec(), ..self }
    }

    pub(crate) fn checksums(&self) -> &[RangeChecksum] {
        &self.checksums
    }

    /// The digests, of which no bytes have been read.
    pub(crate) fn begin(&self) -> Sums {
        let ranges = self.checksums.iter().map(|checksum| (checksum.over.clone(), algorithm_of(checksum)));
        Sums::new(ranges).with_states(&self.states)
    }

    /// The offsets of the CRC-32 values that must be read before [`FilePlan::compare`].
    pub(crate) fn footers(&self) -> impl Iterator<Item = u64> {
        self.checksums.iter().filter_map(|checksum| match checksum.stated {
            Expected::Crc32At(at) => Some(at),
            Expected::Digest(_) => None,
        })
    }

    /// Compares all digests, and returns those that matched; the last one is that of the whole file, if one is stated.
    /// `crc32s` are the values at [`FilePlan::footers`]. `computed` returns the digest of a range with the algorithm of
    /// the given one.
    ///
    /// # Errors
    /// `CHECKSUM` for the first that differs; those of `computed`.
    pub(crate) fn compare(
        &self,
        crc32s: &[u32],
        mut computed: impl FnMut(&Range<u64>, Digest) -> Result<Digest>,
    ) -> Result<Vec<Matched>> {
        let mut footers = crc32s.iter().map(|crc32| Digest::Crc32(*crc32));
        let mut matched: Vec<Matched> = Vec::new();
        for RangeChecksum { over, stated, by } in &self.checksums {
            let expected = match stated {
                Expected::Digest(digest) => *digest,
                Expected::Crc32At(_) => footers.next().unwrap_or(Digest::Crc32(0)),
            };
            // APR's specification does not say whether the CRC in a manifest covers the whole file or the bytes before
            // its footer, whose CRC was compared already.
            if by == MANIFEST && matches!(expected, Digest::Crc32(_)) && matched.iter().any(|(_, of)| *of == expected) {
                continue;
            }
            digest::compare(computed(over, expected)?, expected).map_err(|mut error| {
                error.what = format!("{}, says {by}", error.what);
                error.at(over.clone())
            })?;
            matched.push((over.clone(), expected));
        }
        Ok(matched)
    }
}

/// A digest with the algorithm of a checksum. Its value is not used.
fn algorithm_of(checksum: &RangeChecksum) -> Digest {
    match checksum.stated {
        Expected::Digest(digest) => digest,
        Expected::Crc32At(_) => Digest::Crc32(0),
    }
}

/// The error for a pinned digest of a file of unknown length.
pub(crate) fn unknown_length() -> Error {
    let what = "the pinned digest of this file cannot be checked: the length of its stored bytes is unknown";
    Error::new(ErrorKind::Unsupported, what).advise("Serve the file uncompressed, from a host that reports its length.")
}
