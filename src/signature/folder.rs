//! Signs and verifies a folder, or a single file, on a disk.

use super::{PrivateKey, SignedFile, Statement, bundle, invalid};
use crate::codec::digest::Hasher;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files of version control, which model-signing leaves out by default.
const IGNORED: [&str; 4] = [".git", ".gitattributes", ".github", ".gitignore"];

const PIECE_BYTES: usize = 1 << 20;

/// Signs a folder with all its files, or a single file. Leaves out the paths in `ignored`, which are relative to the
/// folder, with everything below them, and those of git. Returns the bundle, in JSON.
///
/// # Errors
/// `INVALID_ARGUMENT` if an ignored path leaves the folder; `IO` if a file cannot be read; `UNSUPPORTED` for symbolic
/// links, special files and names that are not UTF-8.
pub fn sign_folder(place: &Path, key: &PrivateKey, ignored: &[String]) -> Result<String> {
    sign_folder_with(place, key, ignored, &())
}

/// Like [`sign_folder`], with progress.
///
/// # Errors
/// Those of [`sign_folder`]; `IO` if `progress` cancels.
pub fn sign_folder_with(place: &Path, key: &PrivateKey, ignored: &[String], progress: &dyn Progress) -> Result<String> {
    let name = fs::canonicalize(place).map_err(|error| unreadable(place, &error))?;
    let name = name.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let inside = |path: &String| {
        normalized(path).ok_or_else(|| {
            let error =
                Error::new(ErrorKind::InvalidArgument, format!("\"{path}\" is not a path in the folder to sign"));
            error.advise("Ignore paths that are relative to the folder.")
        })
    };
    let mut ignored = ignored.iter().map(inside).collect::<Result<Vec<_>>>()?;
    ignored.extend(IGNORED.map(str::to_owned));
    ignored.sort_unstable();
    ignored.dedup();
    let mut statement = Statement { name, ignored, ..Statement::default() };
    let files = files_of(place, &statement)?;
    progress.expects(files.iter().map(|(_, file)| file.metadata().map_or(0, |metadata| metadata.len())).sum());
    for (path, file) in files {
        let mut hasher = Hasher::new(Digest::Sha256([0; 32]));
        read(&file, progress, &mut |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        statement.files.add_file(&path, hasher.finish())?;
    }
    bundle::sign(&statement, key)
}

/// Verifies that a folder, or a single file, is what was signed: every file that the statement lists has its digest,
/// and there is no other file. `unsigned` are paths in the folder that need not be listed, such as the signature
/// itself. Returns the number of files.
///
/// # Errors
/// `SIGNATURE` for the first file that is missing, different or not listed; `IO` if a file cannot be read.
pub fn verify_folder(place: &Path, statement: &Statement, unsigned: &[String]) -> Result<usize> {
    verify_folder_with(place, statement, unsigned, &())
}

/// Like [`verify_folder`], with progress.
///
/// # Errors
/// Those of [`verify_folder`]; `IO` if `progress` cancels.
pub fn verify_folder_with(
    place: &Path,
    statement: &Statement,
    unsigned: &[String],
    progress: &dyn Progress,
) -> Result<usize> {
    let mut expected = statement.clone();
    expected.ignored.extend(unsigned.iter().cloned().chain(IGNORED.map(str::to_owned)));
    let files = files_of(place, &expected)?;
    let is_there = |path: &str| files.iter().any(|(found, _)| found == path);
    if let Some((missing, _)) = statement.files.iter().find(|(path, _)| !is_there(path)) {
        return Err(invalid(format!("the signed file \"{missing}\" is missing")).in_file(&place.to_string_lossy()));
    }
    progress.expects(files.iter().map(|(_, file)| file.metadata().map_or(0, |metadata| metadata.len())).sum());
    for (path, file) in &files {
        // Shards do not list empty files.
        let is_listed_empty = statement.files.of(path).is_err() && is_in_shards(statement) && is_empty(file);
        if !is_listed_empty {
            verify_file_with(file, path, statement, progress)?;
        }
    }
    Ok(files.len())
}

/// Verifies that a file is what was signed. `path` is its path in the signed folder.
///
/// # Errors
/// `SIGNATURE` if the file is different or not listed; `IO` if it cannot be read.
pub fn verify_file(file: &Path, path: &str, statement: &Statement) -> Result<()> {
    verify_file_with(file, path, statement, &())
}

/// Like [`verify_file`], with progress.
///
/// # Errors
/// Those of [`verify_file`]; `IO` if `progress` cancels.
pub fn verify_file_with(file: &Path, path: &str, statement: &Statement, progress: &dyn Progress) -> Result<()> {
    let reject_if_corrupt = |error: Error| error.in_file(&file.to_string_lossy());
    let mut check = statement.files.of(path).map_err(reject_if_corrupt)?.check();
    read(file, progress, &mut |bytes| check.update(bytes).map_err(reject_if_corrupt))?;
    check.finish().map_err(reject_if_corrupt)
}

/// A path without `.` and empty parts, as the paths of files are written. `None` if it leaves its folder or is the
/// folder itself.
fn normalized(path: &str) -> Option<String> {
    let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_inside = !path.starts_with('/') && !parts.contains(&"..") && !parts.is_empty();
    is_inside.then(|| parts.join("/"))
}

fn is_in_shards(statement: &Statement) -> bool {
    statement.files.iter().any(|(_, file): (_, &SignedFile)| file.whole().is_none())
}

fn is_empty(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() == 0)
}

/// The files of a folder that are not ignored, by their paths relative to it, in alphabetical order. A single file has
/// the path `"."`.
fn files_of(place: &Path, statement: &Statement) -> Result<Vec<(String, PathBuf)>> {
    // A path that leaves the folder ignores nothing.
    let ignored: HashSet<String> = statement.ignored.iter().filter_map(|path| normalized(path)).collect();
    let mut files = Vec::new();
    let mut folders = vec![(String::new(), place.to_owned())];
    while let Some((path, place)) = folders.pop() {
        let kind = fs::symlink_metadata(&place).map_err(|error| unreadable(&place, &error))?;
        let is_allowed_link = statement.allows_symlinks || path.is_empty();
        let kind = if kind.is_symlink() && is_allowed_link {
            fs::metadata(&place).map_err(|error| unreadable(&place, &error))?
        } else {
            kind
        };
        if kind.is_dir() {
            for entry in fs::read_dir(&place).map_err(|error| unreadable(&place, &error))? {
                let entry = entry.map_err(|error| unreadable(&place, &error))?;
                let name =
                    entry.file_name().into_string().map_err(|_| refused(&entry.path(), "a name outside UTF-8"))?;
                let path = if path.is_empty() { name } else { format!("{path}/{name}") };
                if !ignored.contains(&path) {
                    folders.push((path, entry.path()));
                }
            }
        } else if kind.is_file() {
            files.push((if path.is_empty() { ".".to_owned() } else { path }, place));
        } else {
            return Err(refused(&place, if kind.is_symlink() { "a symbolic link" } else { "a special file" }));
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn read(file: &Path, progress: &dyn Progress, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let count = opened.read(&mut buffer).map_err(|error| unreadable(file, &error))?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        take(bytes)?;
        progress.advanced(count as u64);
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, error.to_string()).in_file(&file.to_string_lossy())
}

fn refused(file: &Path, what: &str) -> Error {
    let error = Error::new(ErrorKind::Unsupported, format!("this is {what}, which is not signed"));
    error
        .in_file(&file.to_string_lossy())
        .advise("Replace it with a file, or leave it out with `ignored` of `sign_folder`.")
}
