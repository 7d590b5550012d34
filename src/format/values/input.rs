//! The bytes of a section of a file, from its start to its end: as they are stored, or decoded as they are read.

use crate::error::Result;
#[cfg(feature = "zstd")]
use {
    crate::codec::digest::{self, Hasher},
    crate::codec::zstd::{DecodedLength, Zstd},
    crate::error::{Error, ErrorKind},
    crate::index::Digest,
    std::io,
};

/// A section that is read from its start.
pub(crate) enum Input<'a> {
    /// What is left of it.
    Stored(&'a [u8]),
    #[cfg(feature = "zstd")]
    Packed(Box<Packed<'a>>),
}

/// Zstandard that is decoded block by block, and digested meanwhile.
#[cfg(feature = "zstd")]
pub(crate) struct Packed<'a> {
    stored: &'a [u8],
    decoder: Zstd,
    /// How much is still to be decoded, if the claim is right.
    decoded_left: u64,
    digest: Option<(Digest, Hasher)>,
    /// What was decoded and not yet read, from `at` on.
    decoded: Vec<u8>,
    at: usize,
    failed: Option<Error>,
}

impl<'a> Input<'a> {
    /// Compressed bytes that should decode to so many, with this digest.
    #[cfg(feature = "zstd")]
    pub(crate) fn packed(stored: &'a [u8], decoded_length: u64, digest: Option<Digest>) -> Self {
        Input::Packed(Box::new(Packed {
            stored,
            decoder: Zstd::new(stored.len() as u64, DecodedLength::Exactly(decoded_length)),
            decoded_left: decoded_length,
            digest: digest.map(|stated| (stated, Hasher::new(stated))),
            decoded: Vec::new(),
            at: 0,
            failed: None,
        }))
    }

    /// How many bytes are left, if what the file claims is right.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Input::Stored(left) => left.len() as u64,
            #[cfg(feature = "zstd")]
            Input::Packed(packed) => packed.decoded_left + packed.ready().len() as u64,
        }
    }

    /// The next `length` bytes, or as many as there are, which stay.
    pub(crate) fn peek(&mut self, length: usize) -> Result<&[u8]> {
        match self {
            Input::Stored(left) => Ok(left.get(..length).unwrap_or(left)),
            #[cfg(feature = "zstd")]
            Input::Packed(packed) => {
                packed.fill(length)?;
                let ready = packed.ready();
                Ok(ready.get(..length).unwrap_or(ready))
            }
        }
    }

    /// Passes over bytes that were peeked at.
    pub(crate) fn pass(&mut self, length: usize) {
        match self {
            Input::Stored(left) => *left = left.get(length..).unwrap_or_default(),
            #[cfg(feature = "zstd")]
            Input::Packed(packed) => packed.at = packed.decoded.len().min(packed.at.saturating_add(length)),
        }
    }

    /// Decodes what was not read, and compares the digest of all.
    ///
    /// # Errors
    /// `FORMAT` where the bytes are damaged or decode to another length, `CHECKSUM` where they have another digest.
    #[cfg(feature = "zstd")]
    pub(crate) fn finish(self) -> Result<()> {
        let Input::Packed(mut packed) = self else { return Ok(()) };
        if let Some(error) = packed.failed.take() {
            return Err(error);
        }
        loop {
            packed.decoded.clear();
            packed.at = 0;
            if !packed.decode()? {
                break;
            }
        }
        packed.decoder.finish()?;
        match packed.digest {
            Some((stated, hasher)) => digest::compare(hasher.finish(), stated).map(|_| ()),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "zstd")]
impl Packed<'_> {
    fn ready(&self) -> &[u8] {
        self.decoded.get(self.at..).unwrap_or_default()
    }

    /// Decodes until `length` bytes can be read, or there are no more.
    fn fill(&mut self, length: usize) -> Result<()> {
        if self.ready().len() >= length {
            return Ok(());
        }
        self.decoded.drain(..self.at);
        self.at = 0;
        while self.ready().len() < length && self.decode()? {}
        Ok(())
    }

    /// Decodes a block behind what was decoded; false at the end.
    fn decode(&mut self) -> Result<bool> {
        let before = self.decoded.len();
        loop {
            let Packed { stored, decoder, decoded, digest, .. } = self;
            let taken = decoder.push_some(stored, &mut |bytes| {
                if let Some((_, hasher)) = digest {
                    hasher.update(bytes);
                }
                decoded.extend_from_slice(bytes);
                Ok(())
            });
            let taken = taken.inspect_err(|error| self.failed = Some(error.clone()))?;
            self.stored = self.stored.get(taken..).unwrap_or_default();
            let decoded = self.decoded.len() - before;
            if decoded > 0 || taken == 0 {
                self.decoded_left = self.decoded_left.saturating_sub(decoded as u64);
                return Ok(decoded > 0);
            }
        }
    }
}

/// For JSON, whose parser knows no errors of ours: [`Input::finish`] tells them.
#[cfg(feature = "zstd")]
impl io::Read for Input<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Input::Packed(packed) = self
            && packed.fill(1).is_err()
        {
            return Err(io::Error::other(Error::new(ErrorKind::Format, "its compressed bytes are damaged").what));
        }
        let ready = match self {
            Input::Stored(left) => left,
            Input::Packed(packed) => packed.ready(),
        };
        let (count, piece) = match ready.get(..into.len()) {
            Some(piece) => (into.len(), piece),
            None => (ready.len(), ready),
        };
        into.get_mut(..count).unwrap_or_default().copy_from_slice(piece);
        self.pass(count);
        Ok(count)
    }
}
