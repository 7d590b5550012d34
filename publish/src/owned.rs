//! The files at a destination that an earlier run has written. Only these are replaced or deleted.

use super::destination::Destination;
use super::upload::{self, Found, is_foreign};
use std::collections::HashSet;
use weightstream::Result;
use weightstream::internals::output::Existing;
use weightstream::internals::publication::Publication;
use weightstream::internals::write::Input;

/// What a run may replace.
pub(super) struct Owned {
    /// The entry of the previous revision.
    pub(super) entry: Option<Vec<u8>>,
    /// The names of the files that the entry or a record names, and of those that were sent.
    files: HashSet<String>,
    /// What happens to files of others.
    foreign: Existing,
}

impl Owned {
    /// Reads the entry at the destination.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is the input, or a file of others that is not to be replaced; those of the store.
    pub(super) fn read(destination: &Destination, input: &dyn Input, foreign: Existing) -> Result<Self> {
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
                None if foreign == Existing::Replace => (Some(text), HashSet::new()),
                None => return Err(is_foreign(&destination.store.url_of(&key))),
            },
            Found::TooLarge if foreign == Existing::Replace => (None, HashSet::new()),
            Found::TooLarge => return Err(is_foreign(&destination.store.url_of(&key))),
        };
        Ok(Owned { entry, files, foreign })
    }

    /// States that this file was written by this run or an earlier one.
    pub(super) fn add(&mut self, name: &str) {
        self.files.insert(name.to_owned());
    }

    /// What happens to a file of tensors or a document.
    pub(super) fn existing(&self, name: &str) -> Existing {
        if self.files.contains(name) { Existing::Replace } else { self.foreign }
    }

    pub(super) fn existing_entry(&self) -> Existing {
        if self.entry.is_some() { Existing::Replace } else { self.foreign }
    }

    /// Whether a file that is no record may be replaced by one.
    pub(super) fn may_replace_record(&self) -> bool {
        self.foreign == Existing::Replace
    }
}
