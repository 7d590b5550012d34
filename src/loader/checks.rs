//! What bytes are checked by while they go by.

use super::file::ModelFile;
use crate::codec::digest::{self, Hasher};
use crate::codec::pages::PageChecker;
use crate::error::Result;
use crate::index::{ComponentDigest, DigestedBytes};
use crate::source::Source;
use std::cell::RefCell;

/// What bytes are checked by as they go by: those of a component, and of the pages and the file that it lies in.
pub(crate) struct Checks<'a, S: Source> {
    file: Option<&'a ModelFile<S>>,
    pages: &'a RefCell<Vec<PageChecker>>,
    own: Vec<(ComponentDigest, Hasher)>,
}

impl<'a, S: Source> Checks<'a, S> {
    /// For bytes of no component.
    pub(crate) fn of_the_file(file: Option<&'a ModelFile<S>>, pages: &'a RefCell<Vec<PageChecker>>) -> Self {
        Checks { file, pages, own: Vec::new() }
    }

    /// For those of a component that has these digests.
    pub(crate) fn of(self, own: Vec<ComponentDigest>) -> Self {
        Checks { own: own.into_iter().map(|stated| (stated, Hasher::new(stated.digest))).collect(), ..self }
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.file.is_some() || !self.own.is_empty() || !self.pages.borrow().is_empty()
    }

    pub(crate) fn stored(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        if let Some(file) = self.file {
            file.sums.borrow_mut().update(at, bytes);
        }
        self.update(DigestedBytes::Stored, bytes);
        self.pages.borrow_mut().iter_mut().try_for_each(|checker| checker.update(at, bytes))
    }

    pub(crate) fn decoded(&mut self, bytes: &[u8]) {
        self.update(DigestedBytes::Decoded, bytes);
    }

    fn update(&mut self, which: DigestedBytes, bytes: &[u8]) {
        for (_, hasher) in self.own.iter_mut().filter(|(stated, _)| stated.over == which) {
            hasher.update(bytes);
        }
    }

    /// The algorithm of the last of the component's digests.
    pub(crate) fn finish(self) -> Result<Option<&'static str>> {
        compare_all(self.own)
    }
}

/// Compares every digest, and gives the algorithm of the last.
pub(super) fn compare_all(computed: Vec<(ComponentDigest, Hasher)>) -> Result<Option<&'static str>> {
    let mut algorithm = None;
    for (stated, hasher) in computed {
        algorithm = Some(digest::compare(hasher.finish(), stated.digest)?);
    }
    Ok(algorithm)
}
