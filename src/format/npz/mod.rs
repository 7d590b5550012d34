//! Archives of NumPy arrays: a ZIP file with a `.npy` file for each array, stored (`numpy.savez`) or deflated
//! (`numpy.savez_compressed`).
//!
//! Source: the documentation of `numpy.savez` and `numpy.lib.format`, and what NumPy 2.4 writes. A tensor has the name
//! of its member without `.npy`. The module `npy` documents how arrays become tensors.
//!
//! The directory of the archive has the lengths and checksums of its members, but only each member says its dtype and
//! shape. Headers that are close together are read in one request; each large array takes one. The checksum of a member
//! covers its header too: that of the elements is computed from both.
//!
//! An archive has no metadata. weightstream writes those of other formats as a comment of the archive, a JSON object,
//! which NumPy ignores, and reads them from there. They also say what dtypes are that NumPy does not have.

mod detect;
mod dtypes;
mod parse;
#[cfg(writes)]
mod write;

use super::entry::{Detection, Format, Parser};

pub(crate) use parse::parse_archive;

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "NumPy archive",
    extensions: &[".npz"],
    versions: &["1.0", "2.0", "3.0"],
    checksums: &["crc32"],
    parser: Parser {
        is_last_choice: true,
        ..Parser::new(Detection::LongHead(detect::recognises), parse::parse).in_containers()
    },
    #[cfg(writes)]
    writer: Some(write::WRITER),
};

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
