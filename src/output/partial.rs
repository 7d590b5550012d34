//! The temporary file of an output that is being written. The writer creates it; it never opens one that already
//! exists.

use super::destination::replaced;
use crate::error::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// How often the usual name is tried: each time another process may take it first.
const ATTEMPTS: usize = 3;

/// A temporary file. Dropping it removes it, unless it was given its name.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The name that it will have.
    pub(crate) path: PathBuf,
    /// The name that it has.
    pub(crate) partial: PathBuf,
    pub(crate) published: bool,
    identity: Option<Identity>,
    /// The permissions of the file that it replaces.
    permissions: Option<fs::Permissions>,
}

/// What tells a file from all others while it is there; `None` where the system does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
}

impl Guard {
    /// Makes a new, empty file beside `path`, which is open for writing and locked.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` where `path` is something that a file must not replace; `IO`, also where another process is
    /// writing the same output.
    pub(crate) fn create(path: &Path) -> Result<(Guard, File)> {
        let permissions = replaced(path)?.map(|metadata| metadata.permissions());
        let usual = partial_path(path);
        for _ in 0..ATTEMPTS {
            let created = create_new(&usual, permissions.as_ref());
            if matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                match remove_leftover(&usual) {
                    Leftover::Removed => continue,
                    Leftover::Busy => return Err(busy(path)),
                    Leftover::Foreign => break,
                }
            }
            let guard = Guard::new(path, usual.clone(), created, permissions.clone())?;
            match guard.1.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(busy(path)),
                // Before it was locked, another process may have taken it for one that was left.
                _ if guard.0.is_in_place() => return Ok(guard),
                _ => {}
            }
        }
        let mut unusual = usual.into_os_string();
        unusual.push(format!(".{:016x}", RandomState::new().hash_one(path)));
        let partial = PathBuf::from(unusual);
        let created = create_new(&partial, permissions.as_ref());
        Guard::new(path, partial, created, permissions)
    }

    fn new(
        path: &Path,
        partial: PathBuf,
        created: io::Result<File>,
        permissions: Option<fs::Permissions>,
    ) -> Result<(Guard, File)> {
        let place = |error: io::Error| Error::from(error).in_file(&path.display().to_string());
        let file = created.map_err(place)?;
        let identity = file.metadata().ok().and_then(|metadata| Identity::of(&metadata));
        Ok((Guard { path: path.to_owned(), partial, published: false, identity, permissions }, file))
    }

    /// Brings the file to the disk, with the permissions of the one that it replaces.
    pub(crate) fn finish(&self, file: &File) -> Result<()> {
        if let Some(permissions) = &self.permissions {
            file.set_permissions(permissions.clone()).map_err(|e| self.place(e))?;
        }
        // Otherwise a crash of the machine could leave the new name with the content not yet there.
        file.sync_all().map_err(|e| self.place(e))
    }

    /// Checks that the temporary name is still that of the file that was written.
    ///
    /// # Errors
    /// `IO` where another process has removed or replaced it.
    pub(crate) fn check_in_place(&self) -> Result<()> {
        match self.is_in_place() {
            true => Ok(()),
            false => {
                let error = Error::new(ErrorKind::Io, "another process has replaced or removed this temporary file");
                Err(error
                    .advise("Choose an output in a folder of your own.")
                    .in_file(&self.partial.display().to_string()))
            }
        }
    }

    pub(crate) fn place(&self, error: io::Error) -> Error {
        Error::from(error).in_file(&self.path.display().to_string())
    }

    fn is_in_place(&self) -> bool {
        let there = fs::symlink_metadata(&self.partial);
        there.is_ok_and(|there| there.is_file() && Identity::of(&there) == self.identity)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.published && self.is_in_place() {
            fs::remove_file(&self.partial).ok(); // nothing is lost if it stays: its name says what it is
        }
    }
}

impl Identity {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Option<Identity> {
        use std::os::unix::fs::MetadataExt;
        Some(Identity { device: metadata.dev(), number: metadata.ino() })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata) -> Option<Identity> {
        None
    }
}

/// What an output is usually called until it is whole.
pub(crate) fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}

/// Makes a file that was not there: what lies at the name, also a symbolic link that leads nowhere, is an error. What
/// is to be private is so from the start.
fn create_new(partial: &Path, replaced: Option<&fs::Permissions>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(permissions) = replaced {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(permissions.mode() & 0o777);
    }
    #[cfg(not(unix))]
    let _ = replaced;
    options.open(partial)
}

/// What lay at the usual temporary name.
enum Leftover {
    /// The file of a conversion that was killed, which is gone now.
    Removed,
    /// The file of a conversion that runs.
    Busy,
    /// Something that no conversion made, or that cannot be removed: it stays.
    Foreign,
}

fn remove_leftover(partial: &Path) -> Leftover {
    let Ok(there) = fs::symlink_metadata(partial) else { return Leftover::Removed };
    if !there.is_file() || has_other_names(&there) {
        return Leftover::Foreign;
    }
    let Ok(file) = no_follow(File::options().read(true)).open(partial) else { return Leftover::Foreign };
    let is_same = file.metadata().is_ok_and(|opened| opened.is_file() && Identity::of(&opened) == Identity::of(&there));
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Leftover::Busy,
        _ if is_same && fs::remove_file(partial).is_ok() => Leftover::Removed,
        _ => Leftover::Foreign,
    }
}

#[cfg(unix)]
fn has_other_names(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
fn has_other_names(_: &Metadata) -> bool {
    false
}

#[cfg(unix)]
fn no_follow(options: &mut OpenOptions) -> &mut OpenOptions {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
}

#[cfg(not(unix))]
fn no_follow(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

fn busy(path: &Path) -> Error {
    let error = Error::new(ErrorKind::Io, "another process is writing this file");
    error.advise("Wait for it, or choose another output.").in_file(&path.display().to_string())
}
