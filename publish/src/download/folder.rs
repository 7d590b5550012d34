//! What a download may write: files of models in its own folder. An entry may come from a server that is not trusted.

use super::plan::{Plan, PlannedFile};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use weightstream::internals::format::MAX_MANIFEST_BYTES;
use weightstream::internals::output::{
    CreatedFolders, Existing, FinishedFile, PartialFile, check_free, publish, replaced,
};
use weightstream::internals::publication::Publication;
use weightstream::internals::regular_file::{self, Opened};
use weightstream::internals::write::format_of_name;
use weightstream::{Error, ErrorKind, Result};

/// How a file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Empty,
    /// With what an interrupted call has left of it, which can be taken. An interruption leaves the file.
    Continued,
}

/// A folder, and what it may be changed to.
pub(super) struct Folder<'a> {
    pub(super) path: &'a Path,
    /// The files that the entry of an earlier revision lists, and the entry itself.
    owned: HashSet<String>,
    /// What happens to files of others.
    foreign: Existing,
    created: RefCell<CreatedFolders>,
}

impl<'a> Folder<'a> {
    /// Checks all names before anything is written.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a name that a file of a model does not have, for a folder that is a symbolic link, and
    /// for an existing document of others.
    pub(super) fn open(path: &'a Path, plan: &Plan, foreign: Existing) -> Result<Self> {
        let entry = &*plan.entry;
        if entry.contains('/') {
            return Err(refuse(entry, "the last segment of the URL is not a file name"));
        }
        if plan.document.is_some() {
            check_name(entry, |name| name.ends_with(".json") || format_of_name(Path::new(name)).is_some())?;
        }
        for PlannedFile { path: file, accepts, .. } in &plan.files {
            check_name(file, accepts)?;
            if plan.document.is_some() && file == entry {
                return Err(refuse(file, "the entry lists itself"));
            }
        }
        let owned = owned(&path.join(entry));
        let folder = Folder { path, owned, foreign, created: RefCell::default() };
        for PlannedFile { path: file, .. } in &plan.files {
            folder.each_parent(file, |_| Ok(()))?;
        }
        let existing = folder.existing(entry);
        let is_other = |document: &Vec<u8>| existing == Existing::Keep && !folder.has_document(entry, document);
        if plan.document.as_ref().is_some_and(is_other) {
            check_free(&path.join(entry), existing)?;
        }
        Ok(folder)
    }

    /// Writes the document that names the other files, unless the folder has it.
    ///
    /// # Errors
    /// Those of [`Folder::create`].
    pub(super) fn write_document(&self, name: &str, text: &[u8]) -> Result<()> {
        if self.has_document(name, text) && self.existing(name) == Existing::Keep {
            return Ok(());
        }
        let mut file = self.create(name, Start::Empty)?;
        file.write(text)?;
        self.publish(name, file.finish()?)
    }

    /// Whether the folder has a regular file of this content.
    fn has_document(&self, name: &str, text: &[u8]) -> bool {
        let path = self.path.join(name);
        matches!(replaced(&path), Ok(Some(metadata)) if metadata.len() == text.len() as u64)
            && fs::read(&path).is_ok_and(|found| found == text)
    }

    /// Begins to write a file, and creates the folders that it is in.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a file of others, and for a folder that is a symbolic link; `IO`.
    pub(super) fn create(&self, file: &str, start: Start) -> Result<PartialFile> {
        self.created.borrow_mut().create(self.path)?;
        self.each_parent(file, |parent| self.created.borrow_mut().create_one(parent))?;
        let path = self.path.join(file);
        check_free(&path, self.existing(file))?;
        let created = match start {
            Start::Empty => PartialFile::create(&path),
            Start::Continued => PartialFile::continued(&path),
        };
        Ok(created?.not_executable())
    }

    /// Gives a finished file its name.
    ///
    /// # Errors
    /// Those of [`Folder::create`].
    pub(super) fn publish(&self, name: &str, file: FinishedFile) -> Result<()> {
        self.each_parent(name, |_| Ok(()))?;
        publish(vec![file], self.existing(name))
    }

    /// What happens to a file of this name.
    fn existing(&self, file: &str) -> Existing {
        if self.owned.contains(file) { Existing::Replace } else { self.foreign }
    }

    /// Calls `visit` with each folder below this one that a file is in. Afterwards, it must not be anything else.
    fn each_parent(&self, file: &str, mut visit: impl FnMut(&Path) -> io::Result<()>) -> Result<()> {
        let mut parent = PathBuf::from(self.path);
        let mut segments: Vec<&str> = file.split('/').collect();
        segments.pop();
        for segment in segments {
            parent.push(segment);
            visit(&parent).map_err(|error| in_folder(&parent, error))?;
            match fs::symlink_metadata(&parent) {
                Ok(metadata) if metadata.is_dir() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(_) => {
                    let what = "a file would be written into this folder, but it is a symbolic link or a file";
                    let error = Error::new(ErrorKind::InvalidArgument, what);
                    return Err(error.advise("Remove it, or choose another folder.").in_file(&shown(&parent)));
                }
                Err(error) => return Err(in_folder(&parent, error)),
            }
        }
        Ok(())
    }
}

/// Checks that a path has only visible names, and that the last one `is_expected`.
fn check_name(path: &str, is_expected: impl Fn(&str) -> bool) -> Result<()> {
    let is_hidden = path.split('/').any(|name| name.is_empty() || name.starts_with('.'));
    if is_hidden || path.contains(is_special) {
        return Err(refuse(path, "the model lists a hidden file, or a name with special characters"));
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    match is_expected(name) {
        true => Ok(()),
        false => Err(refuse(path, "by its name, this is not a file of a model")),
    }
}

/// Whether a character separates paths on some platform, or makes a name look like another one: control characters,
/// and those of Unicode that are invisible or change the direction or the line.
fn is_special(c: char) -> bool {
    let is_invisible = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}');
    is_invisible || c.is_control() || matches!(c, '\\' | ':')
}

/// The names of the files that an existing entry lists, and its own name.
fn owned(entry: &Path) -> HashSet<String> {
    let read = || -> Option<Publication> {
        replaced(entry).ok()??;
        let Opened::File(file, _) = regular_file::open(entry).ok()? else { return None };
        let mut text = Vec::new();
        file.take(MAX_MANIFEST_BYTES).read_to_end(&mut text).ok()?;
        Publication::of_entry(&text).ok()?
    };
    let Some(publication) = read() else { return HashSet::new() };
    let name = entry.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    publication.files().map(|(path, ..)| path.to_owned()).chain(name).collect()
}

fn refuse(path: &str, what: &str) -> Error {
    let error = Error::new(ErrorKind::InvalidArgument, format!("{what}: it is not downloaded"));
    error.advise("Do not download this model unless you trust its server.").in_file(path)
}

fn in_folder(path: &Path, error: io::Error) -> Error {
    Error::from(error).in_file(&shown(path))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_files_of_models_are_written() {
        let is_model = |name: &str| format_of_name(Path::new(name)).is_some();
        for good in ["model-7d0f3c2a91b84e65.apr", "a/b/m.safetensors", "ü [1] #.aero", "m.index.aero"] {
            assert!(check_name(good, is_model).is_ok(), "{good}");
        }
        for bad in [
            ".git/hooks/pre-commit",
            "bashrc",
            ".m.apr",
            "a/.ssh/m.apr",
            "a//m.apr",
            "m.apr/",
            "a/./m.apr",
            "m\n.apr",
            "m\u{202e}fdp.apr",
            "m\u{200b}.apr",
            "m.apr:stream",
            "run.sh",
            "Makefile",
            "m.apr.partial",
        ] {
            assert!(check_name(bad, is_model).is_err(), "{bad}");
        }
    }
}
