//! Digests that the caller pins. They are checked in addition to the digests that the model's files state.

use crate::algorithm::Algorithm;
use crate::codec::digest;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{ComponentDigest, Digest, DigestedBytes, Index, Part, Tensor};
use crate::loader::transfer::file::ModelFile;
use crate::setters::setters;
use crate::source::{Buffer, ModelSource};
use crate::trust::{PINNED, unknown_length};
use futures::future::{FutureExt, LocalBoxFuture};
use std::collections::HashMap;
use std::rc::Rc;

/// Pinned digests. They are checked even if [`Options::verify`](crate::loader::Options::verify) is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digests {
    /// Digests by tensor name, over the tensor's decoded bytes. For a tensor of several components, the digest is over
    /// their concatenation in index order. A load of single rows is not checked.
    pub tensors: HashMap<String, Digest>,
    /// Digests by file, over the file's stored bytes. The key is the file's path in the model, its name or its URL. A
    /// manifest is checked when the model is opened. Other files are checked when all their bytes are read: by
    /// `tensors()` without names and by `verify()`.
    pub files: HashMap<String, Digest>,
}

impl Digests {
    setters! {
        with_tensors tensors: HashMap<String, Digest>;
        with_files files: HashMap<String, Digest>;
    }
}

impl Digests {
    /// The pinned digest of a file of the model, and its key: the file's URL, its path in the model or its name.
    pub(super) fn of_file(&self, source: &impl ModelSource, part: Option<&Part>) -> Option<(&str, Digest)> {
        let file_name = source.file_name();
        let names = [Some(source.name()), part.map(|part| part.path.as_str()), file_name.as_deref()];
        let pinned = names.into_iter().flatten().find_map(|name| self.files.get_key_value(name));
        pinned.map(|(name, digest)| (name.as_str(), *digest))
    }

    /// The expected digest of a whole file: the pinned digest, or else the digest in the manifest, or else that of the
    /// file's host.
    pub(super) fn of_whole_file(&self, source: &impl ModelSource, part: Option<&Part>) -> Option<Digest> {
        let pinned = self.of_file(source, part).map(|(_, digest)| digest);
        pinned.or(part.and_then(|part| part.digest)).or_else(|| source.stated_digest())
    }

    /// Tells a file's source which digests its components should have.
    pub(super) fn expect_contents<S: ModelSource>(&self, file: &ModelFile<S>, index: &Index) {
        for at in 0..index.tensors.len() {
            if self.tensors.is_empty() && index.tensors.is_raw(at) {
                continue; // it has no digest
            }
            let Some(tensor) = index.tensors.get(at) else { continue };
            for component in &tensor.components {
                let pinned = self.of_component(&tensor);
                file.expect_content(component, component.digest.iter().chain(&pinned));
            }
        }
    }

    /// The pinned digest of a tensor, if the tensor has one component.
    pub(super) fn of_component(&self, tensor: &Tensor) -> Option<ComponentDigest> {
        let digest = self.tensors.get(&tensor.name).filter(|_| tensor.components.len() == 1)?;
        Some(ComponentDigest { digest: *digest, over: DigestedBytes::Decoded })
    }

    /// Checks that every pinned file belongs to the model: a digest under a misspelled name would never be checked.
    ///
    /// # Errors
    /// `NOT_FOUND` for a pinned file that the model does not have.
    pub(super) fn check_files<'a, S: ModelSource>(
        &self,
        files: impl Iterator<Item = (&'a S, Option<&'a Part>)>,
    ) -> Result<()> {
        let mut unknown: Vec<&str> = self.files.keys().map(String::as_str).collect();
        for (file, part) in files {
            let known = self.of_file(file, part).map(|(name, _)| name);
            unknown.retain(|name| Some(*name) != known);
        }
        match unknown.first() {
            Some(name) => {
                let what = format!("`digests` names the file \"{name}\", which is not a file of the model");
                Err(Error::new(ErrorKind::NotFound, what))
            }
            None => Ok(()),
        }
    }

    /// Checks that every pinned tensor is among the names of the tensors of the model.
    ///
    /// # Errors
    /// `NOT_FOUND` for a pinned tensor that the model does not have.
    pub(super) fn check_tensors<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        if self.tensors.is_empty() {
            return Ok(()); // hashing all names takes time
        }
        let mut unknown = self.tensors.clone();
        for name in names {
            unknown.remove(name);
        }
        match unknown.keys().next() {
            Some(name) => {
                let what = "`digests` names this tensor, but the model does not contain it";
                Err(Error::new(ErrorKind::NotFound, what).in_tensor(name))
            }
            None => Ok(()),
        }
    }
}

/// Compares the digest of the concatenated buffers with `stated`. Returns the algorithm.
///
/// # Errors
/// `CHECKSUM` if the digests differ.
pub(super) fn check<'a, B: Buffer>(buffers: impl Iterator<Item = &'a B>, stated: Digest) -> Result<Algorithm> {
    let mut hasher = digest::Hasher::new(stated);
    for buffer in buffers {
        buffer.inspect(0..buffer.byte_length(), &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
    }
    digest::compare(hasher.finish(), stated)
}

/// Compares the digest of a whole manifest with `stated`. All its bytes are held in memory.
///
/// # Errors
/// `CHECKSUM` if the digests differ; `UNSUPPORTED` for a file of unknown length.
pub(super) fn check_whole<S: ModelSource>(file: &Rc<ModelFile<S>>, stated: Digest) -> LocalBoxFuture<'_, Result<()>> {
    let check = async move {
        let Some(length) = file.length() else { return Err(unknown_length()) };
        let computed = file.parse_with(|window| Ok(digest::digest_of(window.get(0..length)?, stated))).await?;
        digest::compare(computed, stated).map_err(|error| as_pinned_mismatch(error).at(0..length))?;
        file.confirm_whole(&stated);
        Ok(())
    };
    check.boxed_local()
}

/// Adds to a mismatch error that the caller pinned the digest.
pub(super) fn as_pinned_mismatch(mut error: Error) -> Error {
    error.what = format!("{}, says {PINNED}", error.what);
    error
}
