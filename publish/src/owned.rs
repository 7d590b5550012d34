//! The files at a destination that an earlier run has written. Only these are replaced or deleted.

use super::destination::Destination;
use super::upload::{self, Found, is_foreign};
use std::collections::HashSet;
use weightstream::Result;
use weightstream::internals::publication::Publication;
use weightstream::internals::write::Input;

/// What a run may replace.
pub(super) struct Owned {
    /// The entry of the previous revision.
    pub(super) entry: Option<Vec<u8>>,
    /// The names of the files that the entry or a record names, and of those that were sent.
    files: HashSet<String>,
    replaces_foreign: bool,
}

impl Owned {
    /// Reads the entry at the destination.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is the input, or a file of others that is not to be replaced; those of the store.
    pub(super) fn read(destination: &Destination, input: &dyn Input, replaces_foreign: bool) -> Result<Self> {
        destination.refuse_input(&destination.entry, input)?;
        let key = destination.key_of(&destination.entry)?;
        let publication = |text: &[u8]| Publication::of_entry(text).ok().flatten();
        let (entry, files) = match destination.runtime.block_on(upload::find(&destination.store, &key))? {
            Found::Nothing => (None, HashSet::new()),
            Found::Bytes(text) => match publication(&text) {
                Some(publication) => {
                    let differences = publication.differences().map(|differences| differences.file.path.as_str());
                    let names = publication.files().map(|(name, ..)| name).chain(differences);
                    let names = names.map(str::to_owned).collect();
                    (Some(text), names)
                }
                None if replaces_foreign => (Some(text), HashSet::new()),
                None => return Err(is_foreign(&destination.store.url_of(&key))),
            },
            Found::TooLarge if replaces_foreign => (None, HashSet::new()),
            Found::TooLarge => return Err(is_foreign(&destination.store.url_of(&key))),
        };
        Ok(Owned { entry, files, replaces_foreign })
    }

    /// States that this file was written by this run or an earlier one.
    pub(super) fn add(&mut self, name: &str) {
        self.files.insert(name.to_owned());
    }

    /// Whether a file of tensors or a document may be replaced.
    pub(super) fn may_replace(&self, name: &str) -> bool {
        self.replaces_foreign || self.files.contains(name)
    }

    pub(super) fn may_replace_entry(&self) -> bool {
        self.replaces_foreign || self.entry.is_some()
    }

    /// Whether a file that is no record may be replaced by one.
    pub(super) fn may_replace_record(&self) -> bool {
        self.replaces_foreign
    }
}
