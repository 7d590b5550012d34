//! Checks that the bytes that arrive are those of one version of the model.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Result, bail};

use super::faulty_server::page;
use super::model::Model;

/// Compares the tensors that one loader loads with those of the model.
pub struct Check<'a> {
    pub model: &'a Model,
    /// The version that all tensors must have, if it is known.
    pub version: Option<usize>,
    /// Whether the loader can detect that responses are of different versions. All tensors of a file must then be of
    /// one version. Otherwise only all bytes of each tensor must be.
    reveals_versions: bool,
    /// Which version of each file the loader has seen.
    version_of_shard: HashMap<usize, usize>,
}

impl<'a> Check<'a> {
    pub fn new(model: &'a Model, reveals_versions: bool) -> Self {
        Check { model, version: None, reveals_versions, version_of_shard: HashMap::new() }
    }

    /// Checks a tensor, or rows of it, whose bytes are those of the versions for which `is_version` is true.
    pub fn tensor(
        &mut self,
        name: &str,
        shard: Option<usize>,
        rows: Option<(u64, u64)>,
        is_version: impl Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let has_bytes = |version: &usize| self.model.bytes(*version, name, rows).is_some_and(&is_version);
        let versions: Vec<_> = [0, 1].into_iter().filter(has_bytes).collect();
        let known = self.version.or_else(|| self.version_of_shard.get(&shard?).copied());
        match (versions.as_slice(), known) {
            ([], _) => bail!("WRONG BYTES in {name} {rows:?}"),
            (versions, Some(known)) if !versions.contains(&known) => {
                bail!("WRONG BYTES: {name} is of version {versions:?}, and should be of {known}")
            }
            // Small tensors may have the same bytes in both versions.
            ([version], None) if self.reveals_versions => {
                shard.map(|shard| self.version_of_shard.insert(shard, *version));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Compares what is read of an open file with its versions.
pub struct FileCheck<'a> {
    name: &'a str,
    /// The contents that everything that was read so far agrees with.
    contents: Vec<Content<'a>>,
}

#[derive(Clone, Copy)]
enum Content<'a> {
    Version(&'a [u8]),
    /// A page in place of the whole file. The reader of a file of any format cannot detect it.
    Page,
}

impl<'a> FileCheck<'a> {
    pub fn new(model: &'a Model, name: &'a str) -> Self {
        let files = model.versions.iter().filter_map(|version| version.files.get(name));
        let contents = files.map(|file| Content::Version(file)).chain([Content::Page]).collect();
        FileCheck { name, contents }
    }

    /// Checks a read of `range` that returned `length` bytes, for which `is_read` must be true.
    pub fn read(&mut self, range: &Range<u64>, length: u64, is_read: impl Fn(&[u8]) -> bool) -> Result<()> {
        self.contents.retain(|content| match content {
            Content::Version(file) => is_read(part(file, range)),
            Content::Page => is_read(&page(range.start as usize..(range.start + length) as usize)),
        });
        if self.contents.is_empty() {
            bail!("WRONG BYTES in {range:?} of the file {}", self.name);
        }
        Ok(())
    }
}

/// The bytes of `range`, up to the end of the file.
fn part<'a>(file: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let within = |at: u64| file.len().min(at as usize);
    file.get(within(range.start)..within(range.end)).unwrap_or_default()
}
