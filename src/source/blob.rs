//! A Blob or File, read by its stream; files of one choice lie beside each other.

use super::Answer;
use super::files::{self, ChosenFile};
use super::stream::{StreamBody, broken};
use crate::browser::type_tag::tag;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsCast;
use web_sys::{Blob, File};

/// A Blob, with the files that were given together with it.
#[derive(Debug, Clone)]
pub struct BlobSource {
    file: ChosenFile,
    file_name: Option<String>,
    beside: Rc<Vec<ChosenFile>>,
}

impl BlobSource {
    pub(super) fn new(blob: Blob) -> Self {
        let file_name = (tag(&blob) == "[object File]").then(|| blob.unchecked_ref::<File>().name());
        let path = file_name.clone().unwrap_or_else(|| "the Blob".to_owned());
        BlobSource { file: ChosenFile { blob, path }, file_name, beside: Rc::default() }
    }

    /// The first of several files: see [`BlobSource::arranged`].
    pub(super) fn among(files: Vec<ChosenFile>) -> Option<Self> {
        let first = files.first()?.clone();
        Some(BlobSource::beside(first, Rc::new(files)))
    }

    fn beside(file: ChosenFile, beside: Rc<Vec<ChosenFile>>) -> Self {
        BlobSource { file_name: Some(file.name().to_owned()), file, beside }
    }

    /// The file to open, whichever came first: the one that names the others. All that it names are there.
    pub(super) async fn arranged(self) -> Result<Self> {
        if self.beside.is_empty() {
            return Ok(self);
        }
        let root = files::choose(&self.beside).await?;
        Ok(match self.beside.get(root) {
            Some(file) => BlobSource::beside(file.clone(), self.beside),
            None => self,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.file.path
    }

    pub(super) fn file_name(&self) -> Option<String> {
        self.file_name.clone()
    }

    pub(super) fn read(&self, range: Range<u64>) -> Result<Answer<StreamBody>> {
        let length = self.file.blob.size() as u64;
        let end = range.end.min(length);
        let start = range.start.min(end);
        let piece = self.file.blob.slice_with_f64_and_f64(start as f64, end as f64);
        let piece = piece.map_err(|cause| broken("the Blob cannot be read", cause))?;
        let body = StreamBody::new(Some(piece.stream()), Some(end - start), None)?;
        let identity = Identity { length: Some(length), ..Identity::default() };
        Ok(Answer { start, end: Some(end), file_length: Some(length), is_whole_file: false, identity, body })
    }

    /// The file at `path`, as this one names it.
    pub(super) fn part(&self, path: &str) -> Result<Self> {
        match files::find(&self.beside, &self.file, path)?.and_then(|at| self.beside.get(at)) {
            Some(file) => Ok(BlobSource::beside(file.clone(), Rc::clone(&self.beside))),
            None => {
                let error = Error::new(ErrorKind::NotFound, format!("the model's file \"{path}\" was not given"));
                Err(error.advise("Choose all files of the model together: the manifest and every file that it names."))
            }
        }
    }

    /// The file that the model has at `url`, or beside it at `path`.
    pub(super) fn elsewhere(&self, url: &str, path: &str) -> Result<Self> {
        self.part(if path.is_empty() { files::name_in(url) } else { path })
    }
}
