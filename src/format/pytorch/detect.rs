//! Detects checkpoints: ZIP archives that are none of another format, and files before PyTorch 1.6, which begin with a
//! pickled number.

use crate::format::foreign::first_name_in_zip;

/// The number, without the header of the pickle.
const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// The names of the first members of archives of Keras.
const OF_KERAS: [&[u8]; 2] = [b"metadata.json", b"config.json"];

/// Whether the file is a checkpoint, or an archive that only its directory tells from one.
pub(super) fn recognises(head: &[u8]) -> bool {
    first_name_in_zip(head).is_some_and(|name| !OF_KERAS.contains(&name)) || recognises_legacy(head)
}

/// Whether the file begins like those before PyTorch 1.6. Since protocol 4, the number is in a frame.
pub(super) fn recognises_legacy(head: &[u8]) -> bool {
    let follows = |at: usize| head.get(at..).is_some_and(|rest| rest.starts_with(MAGIC));
    head.starts_with(&[0x80]) && (follows(2) || follows(11))
}
