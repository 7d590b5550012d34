//! The digests of the files of a signed model.

use super::invalid;
use crate::algorithm::Algorithm;
use crate::codec::digest::Hasher;
use crate::digest::Digest;
use crate::error::Result;
use std::collections::BTreeMap;

/// The files that a verified signature lists, by their paths relative to the signed folder. The path of a signed single
/// file is `"."`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignedFiles {
    files: BTreeMap<String, SignedFile>,
}

/// The digests of one file: of the whole file, or of consecutive pieces of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignedFile {
    /// The ends of the pieces; only the last one may be the end of the file, whatever that is (`None`).
    pieces: Vec<(Option<u64>, Digest)>,
}

impl SignedFiles {
    /// Adds a file with the digest of all its bytes.
    ///
    /// # Errors
    /// `SIGNATURE` if the path leaves the folder or is listed already.
    #[doc(hidden)]
    pub fn add_file(&mut self, path: &str, digest: Digest) -> Result<()> {
        self.add_piece(path, 0, None, digest)
    }

    /// Adds the digest of the bytes from `start` to `end`; without `end`, to the end of the file. The pieces of a file
    /// must be added in order.
    ///
    /// # Errors
    /// `SIGNATURE` if the path leaves the folder, or if the piece does not begin where the one before it ends.
    #[doc(hidden)]
    pub fn add_piece(&mut self, path: &str, start: u64, end: Option<u64>, digest: Digest) -> Result<()> {
        if !is_inside(path) {
            return Err(invalid(format!(
                "the signature lists \"{path}\", which is not a path inside the signed folder"
            )));
        }
        let is_known = self.files.contains_key(path);
        let pieces = &mut self.files.entry(path.to_owned()).or_default().pieces;
        let position = if is_known { pieces.last().and_then(|(end, _)| *end) } else { Some(0) };
        if position != Some(start) || end.is_some_and(|end| end <= start) {
            return Err(invalid(format!("the signature lists \"{path}\" twice, or its pieces are not consecutive")));
        }
        pieces.push((end, digest));
        Ok(())
    }

    /// The digests of a file.
    ///
    /// # Errors
    /// `SIGNATURE` if the signature does not list it.
    #[doc(hidden)]
    pub fn of(&self, path: &str) -> Result<&SignedFile> {
        self.files.get(path).ok_or_else(|| {
            let error = invalid(format!("the signature does not list the file \"{path}\""));
            error.advise("Sign the model with all its files, and check the path of the file in the signed folder.")
        })
    }

    /// The algorithm of the digests, which is the same for all files.
    #[doc(hidden)]
    pub fn algorithm(&self) -> Option<Algorithm> {
        let (_, digest) = self.files.values().next()?.pieces.first()?;
        Some(digest.algorithm())
    }

    /// The paths in alphabetical order, with their digests.
    #[doc(hidden)]
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SignedFile)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }
}

impl SignedFile {
    /// The digest of the whole file, if it is listed as one piece.
    pub fn whole(&self) -> Option<Digest> {
        match self.pieces.as_slice() {
            [(None, digest)] => Some(*digest),
            _ => None,
        }
    }

    /// Compares the file while it is read from its start.
    pub(crate) fn check(&self) -> FileCheck {
        let pieces = self.pieces.clone();
        let hasher = pieces.first().map(|(_, digest)| Hasher::new(*digest));
        FileCheck { pieces, at: 0, position: 0, hasher }
    }
}

/// Compares the bytes of a file with its signed digests.
#[derive(Debug)]
pub(crate) struct FileCheck {
    pieces: Vec<(Option<u64>, Digest)>,
    /// The number of the current piece.
    at: usize,
    position: u64,
    hasher: Option<Hasher>,
}

impl FileCheck {
    /// The offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// `SIGNATURE` if a piece has another digest, or if the file is longer than its pieces.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (Some((end, _)), Some(hasher)) = (self.pieces.get(self.at), &mut self.hasher) else {
                return Err(self.other_digest("is longer than what was signed"));
            };
            let left = end.map_or(u64::MAX, |end| end.saturating_sub(self.position));
            let (now, later) = bytes.split_at(bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            hasher.update(now);
            self.position = self.position.saturating_add(now.len() as u64);
            bytes = later;
            if Some(self.position) == *end {
                self.end_piece()?;
            }
        }
        Ok(())
    }

    /// Compares the last digest at the end of the file.
    ///
    /// # Errors
    /// `SIGNATURE` if it differs, or if the file is shorter than its pieces.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if let Some((None, _)) = self.pieces.get(self.at) {
            self.end_piece()?;
        }
        match self.at == self.pieces.len() {
            true => Ok(()),
            false => Err(self.other_digest("is shorter than what was signed")),
        }
    }

    fn end_piece(&mut self) -> Result<()> {
        let computed = self.hasher.take().map(Hasher::finish);
        let stated = self.pieces.get(self.at).map(|(_, digest)| *digest);
        if computed.is_none() || computed != stated {
            return Err(self.other_digest("has another digest than the signed one"));
        }
        self.at += 1;
        self.hasher = self.pieces.get(self.at).map(|(_, digest)| Hasher::new(*digest));
        Ok(())
    }

    fn other_digest(&self, what: &str) -> crate::error::Error {
        invalid(format!("the file {what}")).at(0..self.position)
    }
}

/// Whether a path stays inside the folder that it is relative to. Its names are those of POSIX, which may contain a
/// backslash. Paths are compared with those that were found, and never opened.
fn is_inside(path: &str) -> bool {
    let is_name = |part: &str| !part.is_empty() && part != "." && part != "..";
    path == "." || (!path.contains('\0') && path.split('/').all(is_name))
}
