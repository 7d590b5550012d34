//! What the name of a file says about its role in a model.

use crate::format::{self, FileNames};

/// The extension of manifests.
pub(super) const JSON: &str = ".json";

/// The length of the digest in the name of a published file: see `content_name` in `output::shards`.
const DIGEST_DIGITS: usize = 16;

/// The role of a file, by its name.
pub(super) enum Kind<'a> {
    /// A document that names the files of a model. Their names begin with this.
    Manifest(&'a str),
    /// One of several files: `before-00001-of-00003after`.
    Numbered { before: &'a str, after: &'a str, number: u64, count: u64 },
    /// A file of a model whose other files begin with this: `model-7d0f3c2a91b84e65.apr`, `model.index.aero`.
    Named(&'a str),
    /// A model of one file, or a manifest with the extension of the format.
    Whole { stem: &'a str, may_name_files: bool },
}

/// The format and the role of a file; `None` for a file with another extension.
pub(super) fn kind_of(name: &str) -> Option<(&'static FileNames, Kind<'_>)> {
    let lower = name.to_ascii_lowercase(); // of the same length
    let stem_of = |name: &str| {
        let names = format::file_names().iter();
        let fitting = |names: &'static FileNames| {
            let extension = names.extensions.iter().find(|extension| name.ends_with(**extension))?;
            Some((names, *extension, name.len() - extension.len()))
        };
        { names }.find_map(fitting).filter(|(_, _, end)| *end > 0)
    };
    if let Some(base) = lower.strip_suffix(JSON) {
        // The index of a variant: `model.safetensors.index.fp16.json`.
        let base = match base.rsplit_once(".index") {
            Some((base, variant)) if variant.is_empty() || variant.starts_with('.') => base,
            _ => base,
        };
        let (names, _, end) = stem_of(base).filter(|(names, ..)| names.has_manifest)?;
        return Some((names, Kind::Manifest(name.get(..end)?)));
    }
    let (names, extension, end) = stem_of(&lower)?;
    let stem = name.get(..end)?;
    let kind = numbered(stem).or_else(|| names.has_manifest.then(|| named(stem)).flatten().map(Kind::Named));
    let may_name_files = names.manifest_extensions.contains(&extension);
    Some((names, kind.unwrap_or(Kind::Whole { stem, may_name_files })))
}

/// The parts of a name such as `model-00001-of-00003` or `model-00001-of-00003.fp16`.
fn numbered(stem: &str) -> Option<Kind<'_>> {
    let (before, after) = stem.rsplit_once("-of-")?;
    let (before, number) = before.rsplit_once('-')?;
    let (count, after) = after.split_at(after.find('.').unwrap_or(after.len()));
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    Some(Kind::Numbered { before, after, number: digits(number)?, count: digits(count)? })
}

/// What precedes the digest of the content in the name of a published file, or `.index` in that of AERO's index file.
fn named(stem: &str) -> Option<&str> {
    let is_digest = |text: &str| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        text.len() == DIGEST_DIGITS && text.bytes().all(is_digit)
    };
    let indexed = stem.strip_suffix(".index");
    match indexed.unwrap_or(stem).rsplit_once('-') {
        Some((before, digest)) if is_digest(digest) && !before.is_empty() => Some(before),
        _ => indexed.filter(|stem| !stem.is_empty()),
    }
}

/// Splits a path into its folder, with a slash at its end, and its name.
pub(super) fn split_folder(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |slash| slash + 1))
}
