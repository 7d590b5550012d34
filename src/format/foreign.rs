//! Files that weightstream does not read: the error names their kind and what to do with them.
//!
//! In the npm package, the kinds are in the part of manifests, which is loaded when a file is not recognized.

use super::deferred;
use crate::deferred::Code;
use crate::error::{Error, ErrorKind};
use crate::values::json;
use crate::window::{Stop, Window};

/// The number of bytes at the start of a file that show its kind. The magic of tar is the farthest, at byte 257.
pub(crate) const HEAD_BYTES: u64 = 512;

/// Files of fewer bytes are not models: every format begins with at least a magic and a number.
const MIN_MODEL_BYTES: usize = 8;

/// The number of bytes at the start of a file that messages show.
const SHOWN_BYTES: usize = 8;

/// What a file is, and what to do with it.
type Kind = (&'static str, &'static str);

/// A magic and its offset.
type Magic = (usize, &'static [u8]);

#[cfg(not(feature = "tflite"))]
const LITERT: &str = "Build weightstream with the feature `tflite`.";
const GGML: Kind = ("a GGML file, the predecessor of GGUF", "Convert it to GGUF with the tools of llama.cpp.");
const TO_SAFETENSORS: &str = "Convert it to SafeTensors with `save_file` of `safetensors.torch`.";
const PYTORCH: Kind = ("a PyTorch checkpoint", TO_SAFETENSORS);
const PICKLE: Kind = ("a Python pickle, such as an old PyTorch checkpoint", TO_SAFETENSORS);
const NUMPY_ADVICE: &str = "Convert it to SafeTensors with `save_file` of `safetensors.numpy`.";
const KERAS_ADVICE: &str = "Save its weights as SafeTensors with `save_file` of `safetensors.numpy`.";
const PAGE: Kind = (
    "a web page",
    "Check the URL: the server may have answered with an error page, a log-in page or the start page of an app.",
);
const JSON_DOCUMENT: Kind =
    ("a JSON document", "Check the URL: the server may have answered with the description of an error.");

/// A byte-order mark and `<!` in UTF-16.
const UTF_16_PAGES: [&[u8]; 2] = [b"\xff\xfe<\0!\0", b"\xfe\xff\0<\0!"];

const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

static KINDS: &[(Magic, Kind)] = &[
    (
        (0, LFS_POINTER),
        (
            "a Git LFS pointer, a text in place of the file",
            "Get the file itself: with `git lfs pull`, or at a model hub with `resolve` in place of `raw` in the URL.",
        ),
    ),
    ((0, b"\x93NUMPY"), ("a NumPy array", NUMPY_ADVICE)),
    ((0, b"\x89HDF\r\n\x1a\n"), ("an HDF5 file, such as Keras writes", KERAS_ADVICE)),
    #[cfg(not(feature = "tflite"))]
    ((4, b"TFL3"), ("a TensorFlow Lite model", LITERT)),
    #[cfg(not(feature = "tflite"))]
    ((0, b"LITERTLM"), ("a LiteRT-LM model", LITERT)),
    ((257, b"ustar"), ("a tar archive", "Extract the model from it.")),
    ((0, b"7z\xbc\xaf\x27\x1c"), ("a 7z archive", "Extract the model from it.")),
    ((0, b"\x1f\x8b"), ("compressed with gzip", "Decompress it: a range of a compressed file cannot be read alone.")),
    ((0, b"\x28\xb5\x2f\xfd"), ("compressed with Zstandard", "Decompress it, or convert the model to zTensor.")),
    ((0, b"BZh"), ("compressed with bzip2", "Decompress it.")),
    ((0, b"\xfd7zXZ\0"), ("compressed with xz", "Decompress it.")),
    ((0, b"lmgg"), GGML),
    ((0, b"tjgg"), GGML),
    ((0, b"PK\x03\x04"), ("a ZIP archive", "Extract the model from it.")),
];

/// The error for a file of unknown format.
pub(super) fn unrecognised(window: &Window) -> Stop {
    let head_end = window.file_length().unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
    match window.get(0..head_end) {
        Ok(head) => deferred::check(Code::Manifests).err().unwrap_or_else(|| error_for(head).into()),
        Err(stop) => stop,
    }
}

/// The media type that a server states for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaType {
    /// That of a web page.
    Page,
    /// Another one, or none.
    Other,
}

/// Checks that a file of raw bytes, which has no magic, is not a text that a server sent in its place.
///
/// # Errors
/// `UNSUPPORTED` for a web page, another document in its syntax, JSON, a Git LFS pointer, and any text that was sent as
/// a web page.
pub(crate) fn check_headerless(window: &Window, media_type: MediaType) -> Result<(), Stop> {
    let head_end = window.file_length().unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
    let head = json::without_byte_order_mark(window.get(0..head_end)?);
    let is_pointer = head.starts_with(LFS_POINTER);
    let is_wide_page = UTF_16_PAGES.iter().any(|start| head.starts_with(start));
    if !is_pointer && !is_wide_page && (head.len() < MIN_PAGE_BYTES || !is_text(head)) {
        return Ok(());
    }
    deferred::check(Code::Manifests)?;
    let kind = match head.trim_ascii_start() {
        _ if is_wide_page => Some(PAGE),
        [b'{', ..] => Some(JSON_DOCUMENT),
        [b'<', ..] => kind_of(head),
        _ if media_type == MediaType::Page => Some(PAGE),
        _ => kind_of(head).filter(|_| is_pointer),
    };
    match kind {
        Some((kind, advice)) => {
            let what = format!("this file is {kind}, not the data of the model's tensors");
            Err(Error::new(ErrorKind::Unsupported, what).advise(advice).at(0..head.len() as u64).into())
        }
        None => Ok(()),
    }
}

/// Whether bytes are printable text. The end may be within a character.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok()).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !text.is_empty() && text.chars().all(|character| !character.is_control() || character.is_ascii_whitespace())
}

/// Weights of fewer bytes may look like text by chance. `<!doctype html>` has 15 characters.
const MIN_PAGE_BYTES: usize = 15;

#[inline(never)] // it is deferred in the npm package
fn error_for(head: &[u8]) -> Error {
    let shown_bytes = head.get(..SHOWN_BYTES).unwrap_or(head);
    let shown = shown_bytes.escape_ascii();
    let error = match kind_of(head) {
        Some((kind, advice)) => {
            let what = format!("this file is {kind}, not a model that weightstream reads");
            return Error::new(ErrorKind::Unsupported, what).advise(advice);
        }
        None if head.is_empty() => Error::new(ErrorKind::Truncated, "the file is empty"),
        None if head.len() < MIN_MODEL_BYTES => {
            let what = format!("the file is only `{shown}`; every model is longer");
            Error::new(ErrorKind::Truncated, what)
        }
        None => Error::new(ErrorKind::Unsupported, format!("no known model format begins with `{shown}`")),
    };
    error.at(0..shown_bytes.len() as u64)
}

#[inline(never)]
fn kind_of(head: &[u8]) -> Option<Kind> {
    let has = |(offset, magic): Magic| head.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    let text = json::without_byte_order_mark(head).trim_ascii_start();
    let found = || KINDS.iter().find(|(magic, _)| has(*magic)).map(|(_, kind)| *kind);
    match head {
        _ if text.starts_with(b"<") => Some(PAGE),
        // A pickle of protocol 2 or later, and the first opcode: of PyTorch's magic number, of a dictionary, of a
        // global, or of a frame.
        [0x80, 2..=5, 0x8a | b'}' | b'c' | 0x95, ..] => Some(PICKLE),
        #[cfg(not(feature = "onnx"))]
        [8, 1..=0x7f, 0x12 | 0x1a | 0x22 | 0x28 | 0x3a | 0x42, ..] => {
            Some(("an ONNX model", "Build weightstream with the feature `onnx`."))
        }
        _ => first_name_in_zip(head).and_then(kind_of_zip).or_else(found),
    }
}

/// The name of the first file in a ZIP archive.
pub(super) fn first_name_in_zip(head: &[u8]) -> Option<&[u8]> {
    let header = head.strip_prefix(b"PK\x03\x04")?;
    let length = header.get(22..24)?.try_into().map(u16::from_le_bytes).ok()?;
    header.get(26..)?.get(..usize::from(length))
}

fn kind_of_zip(first_name: &[u8]) -> Option<Kind> {
    const IN_PYTORCH: [&[u8]; 4] = [b"/data.pkl", b"/version", b"/byteorder", b"/.format_version"];
    if first_name.ends_with(b".npy") {
        return Some(("an archive of NumPy arrays", NUMPY_ADVICE));
    }
    if first_name == b"metadata.json" || first_name == b"config.json" {
        return Some(("a Keras model", KERAS_ADVICE));
    }
    IN_PYTORCH.iter().any(|end| first_name.ends_with(end)).then_some(PYTORCH)
}

#[cfg(all(test, not(feature = "onnx"), native))]
mod tests {
    #[test]
    fn names_onnx_where_its_feature_is_off() {
        let error = super::error_for(b"\x08\x08\x12\x07pytorch\x3a\x00");
        assert!(error.to_string().contains("an ONNX model") && error.to_string().contains("feature `onnx`"), "{error}");
    }
}
