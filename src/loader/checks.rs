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
    own: Option<(ComponentDigest, Hasher)>,
}

impl<'a, S: Source> Checks<'a, S> {
    /// For bytes of no component.
    pub(crate) fn of_the_file(file: Option<&'a ModelFile<S>>, pages: &'a RefCell<Vec<PageChecker>>) -> Self {
        Checks { file, pages, own: None }
    }

    /// For those of a component that has this digest.
    pub(crate) fn of(self, own: Option<ComponentDigest>) -> Self {
        Checks { own: own.map(|stated| (stated, Hasher::new(stated.digest))), ..self }
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.file.is_some() || self.own.is_some() || !self.pages.borrow().is_empty()
    }

    pub(crate) fn stored(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        if let Some(file) = self.file {
            file.sums.borrow_mut().update(at, bytes);
        }
        if let Some((ComponentDigest { over: DigestedBytes::Stored, .. }, hasher)) = &mut self.own {
            hasher.update(bytes);
        }
        self.pages.borrow_mut().iter_mut().try_for_each(|checker| checker.update(at, bytes))
    }

    pub(crate) fn decoded(&mut self, bytes: &[u8]) {
        if let Some((ComponentDigest { over: DigestedBytes::Decoded, .. }, hasher)) = &mut self.own {
            hasher.update(bytes);
        }
    }

    pub(crate) fn finish(self) -> Result<Option<&'static str>> {
        match self.own {
            Some((stated, hasher)) => digest::compare(hasher.finish(), stated.digest).map(Some),
            None => Ok(None),
        }
    }
}
