//! `.keras`: a ZIP archive with the configuration of a model, and its weights as HDF5.

use super::superblock::SIGNATURE;
use crate::error::{Error, ErrorKind, Result};
use crate::format::foreign::first_name_in_zip;
use crate::index::Metadata;
use crate::values::budget::Budget;
use crate::values::json::parse_value;
use crate::window::{Stop, Window};
use crate::zip::{Archive, Method};
use std::ops::Range;

/// The members of an archive that Keras writes first.
const FIRST_MEMBERS: [&[u8]; 2] = [b"metadata.json", b"config.json"];

/// The member with the weights.
const WEIGHTS: &str = "model.weights.h5";

/// The members that are the metadata, and their keys.
const DOCUMENTS: [(&str, &str); 2] = [("metadata.json", "metadata"), ("config.json", "config")];

/// The maximum length of a document: the configuration of a large model has some megabytes.
const MAX_DOCUMENT_BYTES: u64 = 16 << 20;

/// Whether the file is HDF5, or an archive whose first member is one of Keras.
pub(super) fn recognises(head: &[u8]) -> bool {
    head.starts_with(&SIGNATURE) || first_name_in_zip(head).is_some_and(|name| FIRST_MEMBERS.contains(&name))
}

/// The weights in an archive: their range in the file, and the metadata.
///
/// # Errors
/// [`Stop::Need`] while bytes are missing; `UNSUPPORTED` if the weights are in another member or compressed; those of
/// the archive.
pub(super) fn weights(window: &Window, budget: &mut Budget) -> Result<(Range<u64>, Metadata), Stop> {
    let archive = Archive::read(window)?;
    let find = |name: &str| archive.entries.iter().find(|entry| &*entry.name == name);
    let unsupported = |what: &str| {
        let error = Error::new(ErrorKind::Unsupported, what);
        error.advise("Save the model again with `model.save(\"model.keras\")`.")
    };
    let weights = find(WEIGHTS).ok_or_else(|| unsupported("the archive of Keras has no member `model.weights.h5`"))?;
    if weights.method()? != Method::Stored {
        return Err(unsupported("the weights in the archive of Keras are compressed").into());
    }
    let mut metadata = Metadata::new();
    for (name, key) in DOCUMENTS {
        if let Some(document) = find(name) {
            let bytes = document.content(window, MAX_DOCUMENT_BYTES, budget)?;
            budget.entry(metadata.len(), key.len())?;
            metadata.insert(key.to_owned(), parse_value(&bytes, document.offset, name, budget)?);
        }
    }
    Ok((weights.data(window)?, metadata))
}
