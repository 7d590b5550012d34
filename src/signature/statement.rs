//! What a signature states: the names and digests of the files of a model.

use super::SignedFiles;
use crate::digest::Digest;
use crate::error::Result;

/// What a signature states about a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The name of the signed folder or file. It is informative.
    pub name: String,
    /// The files and their digests.
    pub files: SignedFiles,
    /// Paths in the signed folder that were left out, with everything below them.
    pub ignored: Vec<String>,
    /// Whether files behind symbolic links were signed.
    pub allows_symlinks: bool,
}

impl Statement {
    /// What a verified signature states.
    ///
    /// # Errors
    /// `SIGNATURE` if its list of files contradicts itself.
    pub(super) fn new(stated: weightstream_signatures::Statement) -> Result<Self> {
        let mut files = SignedFiles::default();
        for resource in stated.resources {
            let digest = match resource.algorithm {
                "blake3" => Digest::Blake3(resource.digest),
                _ => Digest::Sha256(resource.digest),
            };
            files.add_piece(&resource.path, resource.start, resource.end, digest)?;
        }
        let weightstream_signatures::Statement { name, ignored, allows_symlinks, .. } = stated;
        Ok(Statement { name, files, ignored, allows_symlinks })
    }

    /// The payload to sign, for files with the SHA-256 of all their bytes.
    pub(super) fn payload(&self) -> String {
        let digest = |(path, file): (_, &super::SignedFile)| match file.whole()? {
            Digest::Sha256(digest) => Some((path, digest)),
            _ => None,
        };
        let files = self.files.iter().filter_map(digest).collect();
        weightstream_signatures::payload(&self.name, files, &self.ignored, self.allows_symlinks)
    }
}
