//! The signature that a loader compares the files of a model with.

use crate::setters::setters;
use crate::signature::SignedFiles;
use std::sync::Arc;

/// What a verified signature states about the model that is opened.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SignedDigests {
    /// The signed files.
    pub files: Arc<SignedFiles>,
    /// The path of the file that is opened, relative to the signed folder. `None` for its name. The paths of the other
    /// files of the model are relative to it.
    pub path: Option<String>,
}

impl SignedDigests {
    setters! {
        with_files files: Arc<SignedFiles>;
        with_path path: Option<String>;
    }
}
