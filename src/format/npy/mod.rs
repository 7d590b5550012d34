//! A file with one array of NumPy: a header, which is a Python dictionary as text, then the elements.
//!
//! Source: the documentation of `numpy.lib.format`, versions 1.0 to 3.0, and what `numpy.save` of NumPy 1.9 to 2.4
//! writes. The tensor is called `arr_0`, because the array has no name. Archives of such files are in the module
//! `npz`, which reads their headers with this one.
//!
//! - A column-major array (`fortran_order`) has the layout `strided`: its shape is the logical one, and the bytes are
//!   in the order of the file. Arrays with less than two dimensions of more than one element are the same in both
//!   orders, and dense.
//! - NumPy has no bfloat16 and no 8-bit floats. `ml_dtypes` writes these as `V2` and `V1`, elements of which only the
//!   size is known. Their bytes are listed with such a dtype.
//! - Arrays of objects are pickles, which are never run: they are refused, like structured arrays and texts.

pub(crate) mod array;
pub(crate) mod header;
mod literal;
pub(crate) mod notes;
pub(crate) mod parse;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: parse::NAME,
    title: "NumPy array",
    extensions: &[".npy"],
    versions: &["1.0", "2.0", "3.0"],
    checksums: &[],
    parser: Parser {
        is_last_choice: true,
        ..Parser::new(Detection::Magic(&[header::MAGIC]), parse::parse).in_containers()
    },
    #[cfg(writes)]
    writer: None,
};

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
pub(crate) mod tests;
