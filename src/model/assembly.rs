//! Puts a model together from its parsed files: what the reader of local files and the loader of remote ones do alike.
//!
//! ```text
//! the file that was opened ──▶ Assembly::of ──▶ the parts to open ──▶ Assembly::part, for each ──▶ Assembly::check
//! ```

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::split::Split;
use crate::index::{DataFile, Index, Manifest, Parsed, Part, Tensor, check_catalog};
use std::collections::HashMap;

/// How the files of a model belong together.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// The manifest, which was opened or which follows from the names of numbered files.
    pub(crate) manifest: Option<Manifest>,
    /// How the model is split, as stated in the file that was opened first. `None` for a model with a manifest.
    split: Option<Split>,
}

/// What the file that was opened contains.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Tensors. The file is this one of the model's files, all of which the manifest lists, if there is one.
    Tensors(Index, usize),
    /// Tensors, and these files of raw bytes with others.
    WithData(Index, Vec<DataFile>),
    /// The manifest.
    Document,
}

/// What a part of a model contains.
#[derive(Debug)]
pub(crate) struct PartContent {
    pub(crate) index: Index,
    /// Tensors of the file that are not tensors of the model, because the manifest has them in another file.
    pub(crate) shadowed: Vec<Tensor>,
}

impl Assembly {
    /// Begins with the file that was opened, which has this name.
    ///
    /// # Errors
    /// `NOT_FOUND` for a part of a model whose name does not lead to the others.
    pub(crate) fn of(parsed: Parsed, file_name: Option<&str>) -> Result<(Assembly, Opened)> {
        Ok(match parsed {
            Parsed::File(index) => (Assembly::default(), Opened::Tensors(index.without_manifest(), 0)),
            Parsed::WithData(index, data) => (Assembly::default(), Opened::WithData(index, data)),
            Parsed::Manifest(manifest) => (Assembly { manifest: Some(manifest), split: None }, Opened::Document),
            Parsed::Part(index, split) => {
                let manifest = Some(split.manifest(&index, file_name)?);
                let number = split.number;
                (Assembly { manifest, split: Some(split) }, Opened::Tensors(index, number))
            }
            Parsed::Packed(_) => return Err(malformed("a compressed file contains another one")),
        })
    }

    /// Checks one of the files that the manifest lists, and adds what the manifest states about its content.
    ///
    /// # Errors
    /// `FORMAT` if the file is no part of the model.
    pub(crate) fn part(&self, number: usize, parsed: Parsed) -> Result<PartContent> {
        let (mut index, split) = match parsed {
            Parsed::File(index) => (index, None),
            Parsed::Part(index, split) => (index, Some(split)),
            Parsed::Manifest(_) => return Err(malformed("a manifest names another manifest as a file of the model")),
            Parsed::WithData(..) => {
                return Err(malformed("a file that names further files is named as a file of a model"));
            }
            Parsed::Packed(_) => return Err(malformed("a compressed file contains another one")),
        };
        if let Some(first) = &self.split {
            first.check_part(split.as_ref(), number)?;
        }
        check_catalog(&index, self.manifest.as_ref(), number)?;
        let Some(manifest) = &self.manifest else { return Ok(PartContent { index, shadowed: Vec::new() }) };
        let shadowed = manifest.take_shadowed(number, &mut index);
        manifest.describe(number, &mut index);
        Ok(PartContent { index, shadowed })
    }

    /// Checks that files, given by their names and in their order, form one model.
    ///
    /// # Errors
    /// `FORMAT` if a name occurs in two files, or if the manifest assigns a tensor to a file that does not contain it.
    pub(crate) fn check(&self, files: &[(&str, &Index)]) -> Result<()> {
        if files.len() < 2 && self.manifest.is_none() {
            return Ok(()); // the format of a file has no name twice
        }
        let place = |number: usize, error: Error| match files.get(number) {
            Some((file, _)) => error.in_file(file),
            None => error,
        };
        let mut file_of_name: HashMap<&str, usize> = HashMap::new();
        for (number, (_, index)) in files.iter().enumerate() {
            for name in index.tensors.names() {
                if let Some(other) = file_of_name.insert(name, number).and_then(|other| files.get(other)) {
                    let what = format!("it is in two files of the model, here and in {}", other.0);
                    return Err(place(number, malformed(what).in_tensor(name)));
                }
            }
        }
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let catalog = manifest.catalog.as_ref().and_then(|catalog| files.get(catalog.part));
        let stated = manifest.stated_parts(catalog.map(|(_, index)| &index.other_shards));
        let stated = stated.collect::<Result<Vec<_>>>()?;
        let misplaced = stated.into_iter().filter(|(name, part)| file_of_name.get(name) != Some(part));
        // The first in order, so that a model always has the same error.
        if let Some((name, part)) = misplaced.min() {
            let what = "the manifest says that it is in this file, but it is not";
            return Err(place(part, malformed(what).in_tensor(name)));
        }
        let unstated = file_of_name.iter().filter(|(name, _)| manifest.check_stated(name).is_err());
        if let Some((name, number)) = unstated.min() {
            manifest.check_stated(name).map_err(|error| place(*number, error))?;
        }
        match &self.split {
            Some(split) => split.check_tensor_count(file_of_name.len()).map_err(|error| place(split.number, error)),
            None => Ok(()),
        }
    }
}

/// Checks that a file has the length that the manifest states.
///
/// # Errors
/// `TRUNCATED` for a shorter file, `FORMAT` for a longer one.
pub(crate) fn check_length(part: Option<&Part>, length: Option<u64>) -> Result<()> {
    match (part.and_then(|part| part.byte_length), length) {
        (Some(stated), Some(length)) if stated != length => {
            let kind = if length < stated { ErrorKind::Truncated } else { ErrorKind::Format };
            let error = Error::new(kind, format!("the manifest says {stated} bytes, but the file has {length}"));
            Err(error.advise("The manifest and this file do not belong together: upload all files of the model again."))
        }
        _ => Ok(()),
    }
}

/// Checks that nothing is stated about the stored bytes of a part that is compressed as a whole, which are not kept.
///
/// # Errors
/// `UNSUPPORTED` if the manifest has a digest of them.
pub(crate) fn check_packed(part: Option<&Part>) -> Result<()> {
    match part.and_then(|part| part.digest) {
        None => Ok(()),
        Some(_) => {
            let what = "the file is compressed as a whole, so that its digest in the manifest cannot be compared";
            let error = Error::new(ErrorKind::Unsupported, what);
            Err(error.advise("Write the model again without compressing whole files."))
        }
    }
}
