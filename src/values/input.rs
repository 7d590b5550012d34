//! Sequential access to the bytes of a section of a file, stored or compressed.

use crate::error::Result;
#[cfg(feature = "zstd")]
use {
    crate::codec::digest::{self, Hasher},
    crate::codec::zstd::{DecodedLength, Zstd},
    crate::error::{Error, ErrorKind},
    crate::index::Digest,
    std::io,
};

/// A section that is read sequentially.
pub(crate) enum Input<'a> {
    /// The remaining bytes.
    Stored(&'a [u8]),
    #[cfg(feature = "zstd")]
    Packed(Box<Packed<'a>>),
}

/// A Zstandard decoder that decodes block by block, and computes the digest.
#[cfg(feature = "zstd")]
pub(crate) struct Packed<'a> {
    stored: &'a [u8],
    decoder: Zstd,
    /// The number of bytes still to be decoded, according to the claimed length.
    decoded_left: u64,
    digest: Option<(Digest, Hasher)>,
    /// The decoded bytes. Those from `at` on have not been read.
    decoded: Vec<u8>,
    at: usize,
    failed: Option<Error>,
}

impl<'a> Input<'a> {
    /// Creates an input of compressed bytes, with the expected length and digest of the decoded bytes.
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

    /// Returns the number of remaining bytes, according to the claimed length.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Input::Stored(left) => left.len() as u64,
            #[cfg(feature = "zstd")]
            Input::Packed(packed) => packed.decoded_left + packed.ready().len() as u64,
        }
    }

    /// Returns the next `length` bytes, or fewer at the end, without consuming them.
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

    /// Consumes bytes that have been peeked.
    pub(crate) fn consume(&mut self, length: usize) {
        match self {
            Input::Stored(left) => *left = left.get(length..).unwrap_or_default(),
            #[cfg(feature = "zstd")]
            Input::Packed(packed) => packed.at = packed.decoded.len().min(packed.at.saturating_add(length)),
        }
    }

    /// Decodes the remaining bytes, and verifies the digest.
    ///
    /// # Errors
    /// `FORMAT` if the bytes are damaged or decode to another length; `CHECKSUM` if the digest does not match.
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

    /// Decodes until `length` bytes are available, or the end is reached.
    fn fill(&mut self, length: usize) -> Result<()> {
        if self.ready().len() >= length {
            return Ok(());
        }
        self.decoded.drain(..self.at);
        self.at = 0;
        while self.ready().len() < length && self.decode()? {}
        Ok(())
    }

    /// Decodes the next block and appends it. Returns false at the end.
    fn decode(&mut self) -> Result<bool> {
        let before = self.decoded.len();
        loop {
            let Packed { stored, decoder, decoded, digest, .. } = self;
            let consumed = decoder.push_some(stored, &mut |bytes| {
                if let Some((_, hasher)) = digest {
                    hasher.update(bytes);
                }
                decoded.extend_from_slice(bytes);
                Ok(())
            });
            let consumed = consumed.inspect_err(|error| self.failed = Some(error.clone()))?;
            self.stored = self.stored.get(consumed..).unwrap_or_default();
            let decoded = self.decoded.len() - before;
            if decoded > 0 || consumed == 0 {
                self.decoded_left = self.decoded_left.saturating_sub(decoded as u64);
                return Ok(decoded > 0);
            }
        }
    }
}

/// For the JSON parser, which cannot pass on [`Error`]: [`Input::finish`] returns the error.
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
        self.consume(count);
        Ok(count)
    }
}
