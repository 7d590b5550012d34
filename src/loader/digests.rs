//! Digests that the caller knows: what a model must be, whatever its files say.

use crate::codec::digest;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{ComponentDigest, Digest, DigestedBytes, Index, Part, Tensor};
use crate::loader::transfer::file::ModelFile;
use crate::setters::setters;
use crate::source::{Buffer, Source};
use std::collections::HashMap;
use std::rc::Rc;

/// Pinned digests. They are checked also where [`Options::verify`](crate::loader::Options::verify) is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Digests {
    /// By tensor: over its decoded bytes; of a tensor of several components over those of one after the other, in the
    /// order of the index. Rows of it are not checked.
    pub tensors: HashMap<String, Digest>,
    /// By file: its path in the model, its name or its URL. Over the bytes as they are stored. They are checked where
    /// the whole of a file is read: a manifest when it is opened, others by `tensors()` of all and by `verify()`.
    pub files: HashMap<String, Digest>,
}

impl Digests {
    setters! {
        with_tensors tensors: HashMap<String, Digest>;
        with_files files: HashMap<String, Digest>;
    }
}

/// What errors call them.
pub(super) const PINNED: &str = "the caller's digests";

impl Digests {
    /// The digest of a file of the model, with the name by which it is pinned: its URL, its path in the model or its
    /// name.
    pub(super) fn of_file(&self, source: &impl Source, part: Option<&Part>) -> Option<(&str, Digest)> {
        let file_name = source.file_name();
        let names = [Some(source.name()), part.map(|part| part.path.as_str()), file_name.as_deref()];
        let pinned = names.into_iter().flatten().find_map(|name| self.files.get_key_value(name));
        pinned.map(|(name, digest)| (name.as_str(), *digest))
    }

    /// The digest that a file should have as a whole: the pinned one, or the one that the manifest states.
    pub(super) fn of_whole_file(&self, source: &impl Source, part: Option<&Part>) -> Option<Digest> {
        let pinned = self.of_file(source, part).map(|(_, digest)| digest);
        pinned.or(part.and_then(|part| part.digest))
    }

    /// Tells a file's source which digests its components should have.
    pub(super) fn expect_contents<S: Source>(&self, file: &ModelFile<S>, index: &Index) {
        for tensor in &index.tensors {
            for component in &tensor.components {
                let pinned = self.of_component(tensor);
                file.expect_content(component, component.digest.iter().chain(&pinned));
            }
        }
    }

    /// The digest of a tensor of one component, as that has it.
    pub(super) fn of_component(&self, tensor: &Tensor) -> Option<ComponentDigest> {
        let digest = self.tensors.get(&tensor.name).filter(|_| tensor.components.len() == 1)?;
        Some(ComponentDigest { digest: *digest, over: DigestedBytes::Decoded })
    }

    /// Checks that every file that is pinned belongs to the model: a digest with a slip in its name would check
    /// nothing.
    ///
    /// # Errors
    /// `NOT_FOUND` for one that does not.
    pub(super) fn check_files<'a, S: Source>(
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
                Err(Error::new(ErrorKind::NotFound, format!("`digests` has \"{name}\", which is no file of the model")))
            }
            None => Ok(()),
        }
    }

    /// As [`Digests::check_files`], for tensors.
    ///
    /// # Errors
    /// `NOT_FOUND` for one that the model does not have.
    pub(super) fn check_tensors(&self, tensors: &[Rc<Tensor>]) -> Result<()> {
        let mut unknown = self.tensors.clone();
        let tensors: &[_] = if unknown.is_empty() { &[] } else { tensors }; // to hash all names takes some time
        for tensor in tensors {
            unknown.remove(&tensor.name);
        }
        match unknown.keys().next() {
            Some(name) => {
                Err(Error::new(ErrorKind::NotFound, "`digests` has it, but the model does not").in_tensor(name))
            }
            None => Ok(()),
        }
    }
}

/// Checks the bytes of buffers, one after the other, and gives the algorithm.
///
/// # Errors
/// `CHECKSUM` where they have another digest.
pub(super) fn check<'a, B: Buffer>(buffers: impl Iterator<Item = &'a B>, stated: Digest) -> Result<&'static str> {
    let mut hasher = digest::Hasher::new(stated);
    for buffer in buffers {
        buffer.inspect(0..buffer.byte_length(), &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
    }
    digest::compare(hasher.finish(), stated)
}

/// Checks a small file, all of which is kept.
///
/// # Errors
/// `CHECKSUM` where it has another digest.
pub(super) async fn check_whole<S: Source>(file: &Rc<ModelFile<S>>, stated: Digest) -> Result<()> {
    let Some(length) = file.length() else { return Err(unknown_length()) };
    let computed = file.parse_with(|window| Ok(digest::digest_of(window.get(0..length)?, stated))).await?;
    digest::compare(computed, stated).map_err(|error| by_the_caller(error).at(0..length))?;
    file.confirm_whole(&stated);
    Ok(())
}

/// Says whose digest it is that does not match.
pub(super) fn by_the_caller(mut error: Error) -> Error {
    error.what = format!("{}, says {PINNED}", error.what);
    error
}

/// The error for a file whose end nobody knows.
pub(super) fn unknown_length() -> Error {
    let what = "its digest is pinned, but its stored bytes cannot be read as a whole: their length is not known";
    Error::new(ErrorKind::Unsupported, what).advise("Serve it as it is, from a host that tells its length.")
}
