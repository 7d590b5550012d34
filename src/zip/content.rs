//! Reads the content of small entries, which parsers interpret.

use super::directory::{Entry, Method};
use crate::codec::crc32;
use crate::codec::deflate::{Deflate, check_lengths};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use std::borrow::Cow;
use std::ops::Range;

/// The beginning of the content of an entry.
#[derive(Debug)]
pub(crate) struct Beginning<'a> {
    /// The first bytes of the content.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The range of the stored bytes in the file.
    pub(crate) data: Range<u64>,
    /// How the content is stored.
    pub(crate) method: Method,
}

impl Entry {
    /// The whole content, compared with its checksum. What deflated content decodes to counts in `budget`.
    ///
    /// # Errors
    /// `LIMIT` for content of more than `max` bytes; `CHECKSUM`; those of [`Entry::method`] and [`Entry::data`].
    pub(crate) fn content<'w>(&self, window: &'w Window, max: u64, budget: &mut Budget) -> Result<Cow<'w, [u8]>, Stop> {
        if self.byte_length > max {
            let what = format!("the entry {} has {} bytes; the limit is {max}", self.shown_name(), self.byte_length);
            return Err(Error::new(ErrorKind::Limit, what).at(self.offset..self.limit).into());
        }
        let Beginning { bytes, data, .. } = self.beginning(window, self.byte_length, budget)?;
        let found = crc32::checksum(&bytes);
        if found != self.crc32 {
            let what = format!(
                "the entry {} of the archive has the CRC-32 {found:08x}, but {:08x} is expected",
                self.shown_name(),
                self.crc32
            );
            return Err(Error::new(ErrorKind::Checksum, what).at(data).into());
        }
        Ok(bytes)
    }

    /// At least the first `wanted` bytes of the content, or all of it if it is shorter. It may be more, up to all.
    ///
    /// # Errors
    /// Those of [`Entry::method`] and [`Entry::data`]; `FORMAT` if it is deflated, and damaged; `LIMIT`.
    pub(crate) fn beginning<'w>(
        &self,
        window: &'w Window,
        wanted: u64,
        budget: &mut Budget,
    ) -> Result<Beginning<'w>, Stop> {
        let method = self.method()?;
        let data = self.data(window)?;
        let wanted = wanted.min(self.byte_length);
        let bytes = match method {
            Method::Stored => Cow::Borrowed(window.get(data.start..data.start + wanted)?),
            Method::Deflated => {
                check_lengths(self.stored_length, self.byte_length)?;
                budget.decode(wanted)?;
                Cow::Owned(self.inflated(window, &data, wanted)?)
            }
        };
        Ok(Beginning { bytes, data, method })
    }

    /// Decodes the first `wanted` bytes. Reads as many stored bytes first, because most content becomes shorter.
    fn inflated(&self, window: &Window, data: &Range<u64>, wanted: u64) -> Result<Vec<u8>, Stop> {
        let is_whole = wanted == self.byte_length;
        let mut taken = if is_whole { self.stored_length } else { wanted.min(self.stored_length) };
        loop {
            let stored = window.get(data.start..data.start + taken)?;
            let mut decoder = Deflate::new(self.stored_length, 0, self.byte_length);
            let (mut decoded, mut rest) = (Vec::new(), stored);
            while (decoded.len() as u64) < wanted {
                let before = decoded.len();
                let read = decoder.push_some(rest, &mut |bytes| {
                    decoded.extend_from_slice(bytes);
                    Ok(())
                })?;
                rest = rest.get(read..).unwrap_or_default();
                if read == 0 && decoded.len() == before {
                    break;
                }
            }
            if decoded.len() as u64 >= wanted {
                if is_whole {
                    decoder.push(rest, &mut |_| Ok(()))?;
                    decoder.finish()?;
                }
                return Ok(decoded);
            }
            if taken == self.stored_length {
                let what = format!("the entry {} of the archive ends after {} bytes", self.shown_name(), decoded.len());
                return Err(malformed(what).at(data.clone()).into());
            }
            taken = taken.saturating_mul(2).min(self.stored_length);
        }
    }
}
