//! A Blob or File, read by its stream; files of one choice lie beside each other.

use super::stream::{StreamBody, broken};
use super::{Answer, answer::Identity};
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;
use std::rc::Rc;
use wasm_bindgen::JsCast;
use web_sys::{Blob, File};

/// A Blob, with the files that were given together with it.
#[derive(Debug, Clone)]
pub struct BlobSource {
    blob: Blob,
    name: String,
    beside: Rc<Vec<File>>,
}

impl BlobSource {
    pub(super) fn new(blob: Blob, beside: Rc<Vec<File>>) -> Self {
        let name = blob.dyn_ref::<File>().map_or_else(|| "the Blob".to_owned(), File::name);
        BlobSource { blob, name, beside }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn file_name(&self) -> Option<String> {
        self.blob.dyn_ref::<File>().map(File::name)
    }

    pub(super) fn read(&self, range: Range<u64>) -> Result<Answer<StreamBody>> {
        let length = self.blob.size() as u64;
        let end = range.end.min(length);
        let start = range.start.min(end);
        let piece = self.blob.slice_with_f64_and_f64(start as f64, end as f64);
        let piece = piece.map_err(|cause| broken("the Blob cannot be read", cause))?;
        let body = StreamBody::new(Some(piece.stream()), Some(end - start), None)?;
        let identity = Identity { length: Some(length), ..Identity::default() };
        Ok(Answer { start, end: Some(end), file_length: Some(length), is_whole_file: false, identity, body })
    }

    /// Files have no folders here, so the last segment of the path decides.
    pub(super) fn part(&self, path: &str) -> Result<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        match self.beside.iter().find(|file| file.name() == name) {
            Some(file) => Ok(BlobSource::new(file.clone().unchecked_into(), Rc::clone(&self.beside))),
            None => {
                let error = Error::new(ErrorKind::NotFound, format!("the model's file \"{name}\" was not given"));
                Err(error.advise("Choose all files of the model together: the manifest and every file that it names."))
            }
        }
    }
}
