//! HDF5, as far as Keras uses it for weights: `.h5`, `.weights.h5`, and `.keras`, a ZIP archive that contains one.
//!
//! Sources: the HDF5 File Format Specification 3.0, and files of Keras 3.15 and h5py 3.16. Read are the superblocks 0
//! to 3, object headers of both versions, groups with symbol tables and with links in their header, and datasets of
//! numbers that are contiguous, or in their header. A tensor has the path of its dataset, such as
//! `layers/dense/vars/0`. The attributes of the root group are the metadata, and those of other groups `groups`, by
//! their path.
//!
//! Datasets that are chunked, compressed, in other files or virtual, and those of other types, are not listed: a
//! warning names them. The same holds for soft and external links, and for groups and attributes in fractal heaps,
//! which HDF5 uses for more than 8 of them if a writer asks for its latest format. A group that is linked twice is
//! listed once.

mod attributes;
mod dataset;
mod datatype;
mod group;
mod header;
mod heap;
mod keras;
mod parse;
mod refused;
mod source;
mod superblock;
mod walk;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "Keras and HDF5",
    extensions: &[".h5", ".keras", ".hdf5"],
    versions: &["0", "2", "3"],
    checksums: &[],
    parser: Parser::new(Detection::LongHead(keras::recognises), parse::parse).in_containers(),
    #[cfg(writes)]
    writer: None,
};

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
