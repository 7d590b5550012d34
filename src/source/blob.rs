//! A Blob or File, read by its stream. Files that are selected together form one model.

use super::RangeResponse;
use super::files::{self, SelectedFile};
use super::stream::{StreamBody, network_error};
use crate::browser::type_tag::tag;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use futures::future::FutureExt;
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsCast;
use web_sys::{Blob, File};

/// A Blob, with the files that were passed together with it.
#[derive(Debug, Clone)]
pub(crate) struct BlobSource {
    file: SelectedFile,
    file_name: Option<String>,
    siblings: Rc<Vec<SelectedFile>>,
}

impl BlobSource {
    pub(super) fn new(blob: Blob) -> Self {
        let file_name = (tag(&blob) == "[object File]").then(|| blob.unchecked_ref::<File>().name());
        let path = file_name.clone().unwrap_or_else(|| "the Blob".to_owned());
        BlobSource { file: SelectedFile { blob, path }, file_name, siblings: Rc::default() }
    }

    /// The first of several files: see [`BlobSource::into_root`].
    pub(super) fn from_files(files: Vec<SelectedFile>) -> Option<Self> {
        let first = files.first()?.clone();
        Some(BlobSource::with_siblings(first, Rc::new(files)))
    }

    fn with_siblings(file: SelectedFile, siblings: Rc<Vec<SelectedFile>>) -> Self {
        BlobSource { file_name: Some(file.name().to_owned()), file, siblings }
    }

    /// Selects the file to open: the one that references the others. Checks that all referenced files are present.
    pub(super) async fn into_root(self) -> Result<Self> {
        if self.siblings.is_empty() {
            return Ok(self);
        }
        #[cfg(feature = "js")]
        crate::browser::deferred::load(crate::deferred::Code::Extras).await?;
        let root = files::find_root(&self.siblings).boxed_local().await?;
        Ok(match self.siblings.get(root) {
            Some(file) => BlobSource::with_siblings(file.clone(), self.siblings),
            None => self,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.file.path
    }

    pub(super) fn file_name(&self) -> Option<String> {
        self.file_name.clone()
    }

    pub(super) fn read(&self, range: Range<u64>) -> Result<RangeResponse<StreamBody>> {
        let length = self.file.blob.size() as u64;
        let end = range.end.min(length);
        let start = range.start.min(end);
        let piece = self.file.blob.slice_with_f64_and_f64(start as f64, end as f64);
        let piece = piece.map_err(|cause| network_error("the Blob cannot be read", cause))?;
        let body = StreamBody::new(Some(piece.stream()), Some(end - start), None)?;
        let identity = Identity { length: Some(length), ..Identity::default() };
        Ok(RangeResponse { end: Some(end), file_length: Some(length), identity, ..RangeResponse::new(start, body) })
    }

    /// The file at `path`, relative to this one.
    pub(super) fn part(&self, path: &str) -> Result<Self> {
        match files::find(&self.siblings, &self.file, path)?.and_then(|at| self.siblings.get(at)) {
            Some(file) => Ok(BlobSource::with_siblings(file.clone(), Rc::clone(&self.siblings))),
            None => {
                let error = Error::new(ErrorKind::NotFound, format!("the model's file \"{path}\" was not selected"));
                let advice = "Select all files of the model together: the manifest and every file that it references.";
                Err(error.advise(advice))
            }
        }
    }

    /// The file that the manifest references by `url`: the file at `path` relative to this one, or else with the file
    /// name of the URL.
    pub(super) fn part_at_url(&self, url: &str, path: &str) -> Result<Self> {
        self.part(if path.is_empty() { files::name_in(url) } else { path })
    }
}
