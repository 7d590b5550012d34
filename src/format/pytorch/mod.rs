//! Checkpoints of PyTorch, as `torch.save` writes them, without running any code of theirs.
//!
//! Source: `torch/serialization.py`, `torch/_utils.py` and `torch/_weights_only_unpickler.py` of PyTorch 2.15, and
//! files that PyTorch 2.15 writes in all its formats. There are two layouts:
//!
//! - Since PyTorch 1.6, a ZIP archive: `NAME/data.pkl`, a pickle of what was saved, `NAME/data/KEY`, the bytes of each
//!   storage, and small members such as `NAME/byteorder`. TorchScript archives have the same, and code, which is
//!   ignored.
//! - Before, or with `_use_new_zipfile_serialization=False`, pickles one after another, and then the storages, each
//!   with its number of elements before it.
//!
//! A checkpoint may be any object. Its tensors are listed with the keys, attributes and positions that lead to them,
//! joined with dots: `state_dict.encoder.weight`, `optimizer.state.0.exp_avg`. Parameters of a module that was saved as
//! a whole have the names of its `state_dict()`. Everything else, as far as JSON can express it, is the metadata.
//! Objects of other classes are never created; tensors that only code could make of them are not listed, and a warning
//! names them.
//!
//! Tensors are views of storages, and may share them: tied weights have the same bytes. A tensor whose elements are not
//! in row-major order, such as a transposed one, has the layout `strided`: see `index::strides`.

mod archive;
mod chunked;
mod detect;
mod dtypes;
mod legacy;
mod listing;
mod parse;
mod pickle;
mod rebuild;
mod state;

use super::entry::{Detection, Format, Parser};

/// The format.
pub const FORMAT: Format = Format {
    name: listing::NAME,
    title: "PyTorch checkpoint",
    extensions: &[".pt", ".pth", ".bin", ".ckpt"],
    versions: &["1001", "3"],
    checksums: &["crc32"],
    parser: Parser {
        has_weight_map: true,
        is_last_choice: true,
        ..Parser::new(Detection::LongHead(detect::recognises), parse::parse).in_containers()
    },
    #[cfg(writes)]
    writer: None,
};

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
