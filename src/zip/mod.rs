//! ZIP archives, as far as archives of tensors use them: stored and deflated entries, ZIP64, no encryption, one volume.
//!
//! Source: PKWARE's APPNOTE.TXT 6.3.10, and what NumPy 2.4, PyTorch 1.6 to 2.15 and Info-ZIP 3.0 write. They differ:
//! NumPy adds a ZIP64 field to each local header and sets its 32-bit sizes to their maximum; PyTorch writes sizes and
//! checksums behind the data, and pads local headers so that data is aligned. Names, lengths and checksums are
//! therefore those of the central directory; the local header of an entry only states how long it is itself.
//!
//! The directory is at the end of the file. Where the data of an entry begins is stated by its local header: see
//! `data`. Bytes may precede the archive, and a comment may follow it.

mod content;
mod data;
mod directory;
mod end;
#[cfg(writes)]
pub(crate) mod write;

pub(crate) use content::Beginning;
pub(crate) use directory::{Archive, Entry, Method};

/// The first bytes of a local header.
const LOCAL_HEADER: [u8; 4] = *b"PK\x03\x04";

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
pub(crate) mod tests;
