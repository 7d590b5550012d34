//! Models in several files: what names the files, and which of them holds which tensor.

use super::{Digest, Index, Metadata};
use crate::error::{Error, ErrorKind, Result, malformed};
use std::collections::HashMap;

/// The largest models are uploaded in some hundred files. Stops a count, or a list, that would make the loader prepare
/// and open thousands of files: each one costs memory, requests, and natively a file descriptor.
pub(crate) const MAX_PARTS: u64 = 1024;

/// A small document that names the files of a model.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The format of the manifest's files.
    pub format: &'static str,
    /// The version, as the manifest states it.
    pub version: String,
    /// What the manifest says of the model.
    pub metadata: Metadata,
    /// The files, in the manifest's order: a tensor's `shard` counts them.
    pub parts: Vec<Part>,
    /// Which file holds which tensor, where the manifest says.
    pub tensor_parts: HashMap<String, usize>,
    /// The file that says it in the manifest's stead, where there is one.
    pub catalog: Option<Catalog>,
}

/// The file of a model that lists the tensors of the others ([`Index::elsewhere`]), with numbers of shards that only
/// the manifest explains.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// Which of the manifest's parts it is.
    pub part: usize,
    /// Which part holds a shard.
    pub part_of_shard: HashMap<u64, usize>,
}

/// One file of a model in several.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Relative to the manifest; checked to stay in its folder. May be empty where there is a URL.
    pub path: String,
    /// Where the file is instead, if the model was opened from a URL: any http(s) URL. Only AEROSET has some.
    pub url: Option<String>,
    /// Length in bytes, where the manifest says.
    pub byte_length: Option<u64>,
    /// A checksum of the file, where the manifest has one.
    pub digest: Option<Digest>,
}

impl Catalog {
    /// The part that holds a tensor of this shard.
    ///
    /// # Errors
    /// `FORMAT` where the manifest has no part with this shard.
    pub(crate) fn part_of(&self, tensor: &str, shard: u64) -> Result<usize> {
        let part = self.part_of_shard.get(&shard).copied();
        part.ok_or_else(|| {
            malformed(format!("it is in shard {shard}, which no file of the manifest has")).in_tensor(tensor)
        })
    }
}

impl Manifest {
    /// Which part holds which tensor, as far as the manifest and its catalog say. `listed` is what the catalog lists.
    ///
    /// # Errors
    /// As for [`Catalog::part_of`].
    pub(crate) fn stated_parts<'a>(
        &'a self,
        listed: Option<&'a HashMap<String, u64>>,
    ) -> impl Iterator<Item = Result<(&'a str, usize)>> {
        let mapped = self.tensor_parts.iter().map(|(name, part)| Ok((name.as_str(), *part)));
        let catalog = self.catalog.iter().zip(listed);
        let listed = catalog.flat_map(|(catalog, listed)| listed.iter().map(move |listed| (catalog, listed)));
        mapped.chain(listed.map(|(catalog, (name, shard))| Ok((name.as_str(), catalog.part_of(name, *shard)?))))
    }
}

/// Checks that a model does not have more files than weightstream takes. Called before anything is prepared for each.
///
/// # Errors
/// `LIMIT` for more than [`MAX_PARTS`].
pub(crate) fn check_part_count(count: u64) -> Result<()> {
    match count {
        0..=MAX_PARTS => Ok(()),
        _ => {
            let what = format!("the model has {count} files; weightstream takes at most {MAX_PARTS}");
            Err(Error::new(ErrorKind::Limit, what).advise("Write the model again in fewer, larger files."))
        }
    }
}

/// Checks that a part that lists tensors of other files is the one that the manifest has for that.
///
/// # Errors
/// `FORMAT` where it should hold them itself.
pub(crate) fn check_elsewhere(index: &Index, manifest: Option<&Manifest>, part: usize) -> Result<()> {
    let catalog = manifest.and_then(|manifest| manifest.catalog.as_ref());
    if index.elsewhere.is_empty() || catalog.is_some_and(|catalog| catalog.part == part) {
        return Ok(());
    }
    Err(malformed("it lists tensors but holds none of them, and the manifest does not have it as its index"))
}

/// A part's path as a manifest names it, if it stays in the manifest's folder.
///
/// Paths are file names, not URLs: whoever makes a URL of one must escape it.
pub(crate) fn part_path(path: &str) -> Result<String> {
    let leads_out = path.split(['/', '\\']).any(|segment| segment == "..");
    let absolute = path.starts_with(['/', '\\']) || path.split('/').next().is_some_and(|s| s.contains(':'));
    if path.is_empty() || leads_out || absolute || path.contains(['\\', '\0']) {
        let error = malformed(format!("the manifest names the file \"{path}\", which is not inside its folder"));
        return Err(error.advise("Do not load this model unless you trust it; its manifest must name files beside it."));
    }
    Ok(path.to_owned())
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn a_part_stays_in_its_folder() {
        for good in ["a.apr", "shards/a.apr", "a..b", "%2e%2e/a", "ü 1.apr"] {
            assert!(part_path(good).is_ok(), "{good}");
        }
        for bad in
            ["", "../a", "a/../../b", "/a", "\\a", "a\\b", "..", "file:///x", "https://h/x", "//h/x", "data:,x", "C:/x"]
        {
            assert!(part_path(bad).is_err(), "{bad}");
        }
    }
}
