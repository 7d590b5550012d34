//! Tells the layouts of checkpoints apart.

use super::{archive, detect, legacy};
use crate::error::Result;
use crate::format::HEAD_BYTES;
use crate::index::Parsed;
use crate::window::{Stop, Window};

pub(super) fn parse(window: &Window) -> Result<Parsed, Stop> {
    let head_end = window.file_length().unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
    match detect::recognises_legacy(window.get(0..head_end)?) {
        true => legacy::parse(window),
        false => archive::parse(window),
    }
}
