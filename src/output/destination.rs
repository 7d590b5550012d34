//! Where files are to be written: what must not be replaced, and how a whole file gets its name.

use super::partial::partial_path;
use crate::error::{Error, ErrorKind, Result};
use crate::regular_file::kind;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Refuses an output that is a file of the model being read, that is no regular file, or that exists although existing
/// files shall be kept. Asked of every output before anything is written.
pub(crate) fn check(path: &Path, inputs: &[&Path], keep_existing: bool) -> Result<()> {
    refuse_input(path, inputs)?;
    check_free(path, keep_existing)
}

/// As [`check`], once the input was read.
pub(crate) fn check_free(path: &Path, keep_existing: bool) -> Result<()> {
    match replaced(path)? {
        Some(_) if keep_existing => Err(exists(path)),
        _ => Ok(()),
    }
}

/// The regular file that an output replaces; `None` where there is nothing yet.
///
/// A symbolic link is neither followed nor replaced: which of the two the caller wants is unknown, and what it leads to
/// may be shared: files of the Hugging Face cache, for example, are links to files that are named after their digests.
///
/// # Errors
/// `INVALID_ARGUMENT` for anything else than a regular file, which would be lost.
pub(crate) fn replaced(path: &Path) -> Result<Option<Metadata>> {
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
        "a folder" => ("this is a folder".to_owned(), "Name a file to write."),
        link @ "a symbolic link" => (
            format!("this is {link}, which is neither followed nor replaced"),
            "Name the file that it leads to, or remove the link.",
        ),
        other => (format!("this is {other}, which a file must not replace"), "Name a file to write."),
    };
    Err(place(Error::new(ErrorKind::InvalidArgument, what).advise(advice)))
}

/// Gives a whole file its name.
pub(crate) fn publish(partial: &Path, path: &Path, keep_existing: bool) -> Result<()> {
    let place = |error: io::Error| Error::from(error).in_file(&path.display().to_string());
    replaced(path)?;
    match keep_existing {
        true => rename_to_nothing(partial, path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => place(error),
        }),
        false => fs::rename(partial, path).map_err(place),
    }
}

/// Has the disk remember the names of the files in the folder of `path`: a crash of the machine could undo a rename.
#[cfg(unix)]
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    match synced {
        // Some file systems have no such operation, and some folders can be written to but not be opened.
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

/// Whether both paths lead to the same file, through links of any kind.
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
            let error = Error::new(ErrorKind::InvalidArgument, "this file would be written over while it is read");
            return Err(error.advise("Choose another output.").in_file(&output.display().to_string()));
        }
    }
    Ok(())
}

fn exists(path: &Path) -> Error {
    let error = Error::new(ErrorKind::InvalidArgument, "this file exists already");
    error.advise("Choose another output, or replace the file with `--force`.").in_file(&path.display().to_string())
}

/// Renames without replacing anything, also where another process makes a file of that name just now.
#[cfg(target_os = "linux")]
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => rename_unless_there(from, to), // some file systems cannot
        renamed => renamed.map_err(io::Error::from),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    rename_unless_there(from, to)
}

fn rename_unless_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}
