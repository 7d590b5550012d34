//! Other files of the model, and what its signature states about each.

use super::ModelFile;
use crate::error::Result;
use crate::index::Part;
use crate::index::copies::Copies;
use crate::loader::signed_digests::SignedDigests;
use crate::loader::transfer::remote::Joined;
use crate::loader::transfer::signed::SignedContent;
use crate::retry::RetryPolicy;
use crate::source::ModelSource;
use futures::lock::Mutex;
use std::rc::Rc;

impl<S: ModelSource> ModelFile<S> {
    /// Another file of the model. Reads nothing.
    pub(crate) fn part(&self, part: &Part) -> Result<Self> {
        let source = match &part.url {
            Some(url) => self.source.part_at_url(url, &part.path),
            None => self.source.part(&part.path),
        };
        let source = source.map_err(|e| e.in_file(self.source.name()))?;
        let signed = self.signed.as_ref().map(|signed| signed.part(&part.path)).transpose();
        let signed = signed.map_err(|e| e.in_file(source.name()))?;
        Ok(ModelFile { signed, ..ModelFile::new(source, Rc::clone(&self.stats), self.retry) })
    }

    /// The file that the caller opens, whose bytes must be those that were signed.
    ///
    /// # Errors
    /// `SIGNATURE` if the signature does not list it.
    pub(crate) fn with_signature(self, signature: Option<&SignedDigests>) -> Result<Self> {
        let opened = signature.map(|signature| SignedContent::opened(signature, self.source.file_name())).transpose();
        let signed = opened.map_err(|e| e.in_file(self.source.name()))?;
        Ok(ModelFile { signed, ..self })
    }

    /// Like [`ModelFile::part`], for a file of raw bytes.
    pub(crate) fn raw_part(&self, part: &Part) -> Result<Self> {
        self.part(part).map(|file| ModelFile { is_raw: true, ..file })
    }

    /// A file of raw bytes in whose place these files are read, with this policy. Each of them checks its own start.
    pub(crate) fn joined(&self, first: &Part, joined: Rc<dyn Joined<S::Body>>, retry: RetryPolicy) -> Result<Self> {
        let (joined, head_checked) = (Some(joined), Mutex::new(true));
        Ok(ModelFile { signed: None, joined, head_checked, retry, ..self.raw_part(first)? })
    }

    /// Tells the source what the file has in common with files of the previous revision, whose paths are relative to
    /// `manifest`.
    pub(crate) fn expect_copies(&self, manifest: &Self, Copies { files, ranges }: &Copies) -> Result<()> {
        let files = files.iter().map(|path| manifest.source.part(path)).collect::<Result<Vec<_>>>();
        self.source.expect_copies(&files.map_err(|e| e.in_file(manifest.source.name()))?, ranges);
        Ok(())
    }
}
