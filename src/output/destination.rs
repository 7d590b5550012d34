//! Checks output paths, and renames finished files to them.

use super::partial::partial_path;
use crate::error::{Error, ErrorKind, Result};
use crate::regular_file::kind;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// What happens to a file that an output would replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is kept, and the output is an error.
    Keep,
    /// The output takes its place.
    Replace,
}

/// Rejects an output path that is a file of the model being read, that is not a regular file, or that exists and must
/// be kept. Called for every output before anything is written.
///
/// # Errors
/// `INVALID_ARGUMENT` for such a path; `IO`.
pub fn check(path: &Path, inputs: &[&Path], existing: Existing) -> Result<()> {
    refuse_input(path, inputs)?;
    check_free(path, existing)
}

/// Like [`check`], after the input has been read.
///
/// # Errors
/// `INVALID_ARGUMENT` for a path that is not free; `IO`.
pub fn check_free(path: &Path, existing: Existing) -> Result<()> {
    match replaced(path)? {
        Some(_) if existing == Existing::Keep => Err(exists(path)),
        _ => Ok(()),
    }
}

/// Returns the metadata of the regular file that an output replaces; `None` if the path does not exist.
///
/// A symbolic link is neither followed nor replaced, because the intention of the caller is unknown, and its target may
/// be shared. For example, files of the Hugging Face cache are links to files that are named after their digests.
///
/// # Errors
/// `INVALID_ARGUMENT` for anything other than a regular file, which would be lost.
pub fn replaced(path: &Path) -> Result<Option<Metadata>> {
    let place = |error: Error| error.in_file(&path.display().to_string());
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(place(error.into())),
    };
    if metadata.is_file() {
        return Ok(Some(metadata));
    }
    let followed = fs::metadata(path).ok().filter(|followed| !followed.is_file());
    let (what, advice) = match kind(followed.map_or(metadata.file_type(), |followed| followed.file_type())) {
        "a folder" => ("this is a folder".to_owned(), "Specify a file to write."),
        link @ "a symbolic link" => (
            format!("this is {link}, which is neither followed nor replaced"),
            "Specify the target of the link, or remove the link.",
        ),
        other => (format!("this is {other}, which a file must not replace"), "Specify a file to write."),
    };
    Err(place(Error::new(ErrorKind::InvalidArgument, what).advise(advice)))
}

/// Renames a finished file to its final path.
pub(crate) fn publish(partial: &Path, path: &Path, existing: Existing) -> Result<()> {
    let place = |error: io::Error| Error::from(error).in_file(&path.display().to_string());
    replaced(path)?;
    match existing {
        Existing::Keep => rename_no_replace(partial, path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => place(error),
        }),
        Existing::Replace => fs::rename(partial, path).map_err(place),
    }
}

/// Flushes the folder of `path` to disk. Without this, a crash of the system could undo a rename.
#[cfg(unix)]
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    match synced {
        // Some file systems do not support this, and some folders are writable but cannot be opened.
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied) => {
            Err(Error::from(error).in_file(&folder.display().to_string()))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> Result<()> {
    Ok(())
}

/// Whether both paths refer to the same file, through links of any kind.
fn is_same_file(path: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(path), Ok(other)) = (fs::metadata(path), fs::metadata(other)) {
        return super::partial::Identity::of(&path) == super::partial::Identity::of(&other);
    }
    matches!((fs::canonicalize(path), fs::canonicalize(other)), (Ok(path), Ok(other)) if path == other)
}

fn refuse_input(path: &Path, inputs: &[&Path]) -> Result<()> {
    for output in [path.to_owned(), partial_path(path)] {
        if inputs.iter().any(|input| is_same_file(input, &output)) {
            return Err(is_input(&output.display().to_string()));
        }
    }
    Ok(())
}

/// The error for an output that is an input.
pub fn is_input(place: &str) -> Error {
    let error = Error::new(ErrorKind::InvalidArgument, "this file would be overwritten while it is read");
    error.advise("Choose another output.").in_file(place)
}

fn exists(path: &Path) -> Error {
    let error = Error::new(ErrorKind::InvalidArgument, "this file already exists");
    error
        .advise("Choose another output, or replace the file without `keep_existing`.")
        .in_file(&path.display().to_string())
}

/// Renames without replacing, even if another process creates the target concurrently.
#[cfg(target_os = "linux")]
fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => rename_if_absent(from, to), // not supported by some file systems
        renamed => renamed.map_err(io::Error::from),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    rename_if_absent(from, to)
}

fn rename_if_absent(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}
