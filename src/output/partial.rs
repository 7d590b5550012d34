//! The temporary file of an output being written. The writer creates it, and never opens an existing one.

use super::destination::replaced;
use crate::error::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// What the name of a temporary file ends with. An existing file with this name is taken for a leftover, and removed.
/// Therefore it has the name of the tool: others write `NAME.partial`, too.
const SUFFIX: &str = ".weightstream.partial";

/// The number of attempts with the usual name. Another process may take the name before each attempt.
const ATTEMPTS: usize = 3;

/// A temporary file. Dropping it removes the file, unless it has been published.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The final path.
    pub(crate) path: PathBuf,
    /// The temporary path.
    pub(crate) partial: PathBuf,
    pub(crate) published: bool,
    /// Whether dropping this leaves the file, so that a later call can continue it.
    pub(crate) is_kept: bool,
    identity: Option<Identity>,
    /// The permissions of the file that will be replaced.
    permissions: Option<fs::Permissions>,
}

/// Identifies an existing file, if the system supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
}

impl Guard {
    /// Creates a new, empty file next to `path`, open for writing and locked.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `path` is not a regular file; `IO`, also if another process is writing the same output.
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
                // Before the lock, another process may have removed it as a leftover.
                _ if guard.0.is_in_place() => return Ok(guard),
                _ => {}
            }
        }
        let mut random_name = usual.into_os_string();
        random_name.push(format!(".{:016x}", RandomState::new().hash_one(path)));
        let partial = PathBuf::from(random_name);
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
        Ok((Guard { path: path.to_owned(), partial, published: false, is_kept: false, identity, permissions }, file))
    }

    /// Opens the temporary file that an interrupted call of this user has kept, for reading and writing, and locks it.
    /// `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Guard::create`].
    pub(crate) fn of_kept(path: &Path) -> Result<Option<(Guard, File)>> {
        let permissions = replaced(path)?.map(|metadata| metadata.permissions());
        let partial = partial_path(path);
        let Ok(current) = fs::symlink_metadata(&partial) else { return Ok(None) };
        if !current.is_file() || has_other_names(&current) || !is_own(&current) {
            return Ok(None);
        }
        let Ok(file) = no_follow(File::options().read(true).write(true)).open(&partial) else { return Ok(None) };
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(busy(path));
        }
        let (mut guard, file) = Guard::new(path, partial, Ok(file), permissions)?;
        guard.is_kept = true;
        Ok(guard.is_in_place().then_some((guard, file)))
    }

    /// Removes the permission to execute from the permissions that the file will have.
    pub(crate) fn remove_execution(&mut self) {
        #[cfg(unix)]
        if let Some(permissions) = &mut self.permissions {
            use std::os::unix::fs::PermissionsExt;
            permissions.set_mode(permissions.mode() & !0o111);
        }
    }

    /// Flushes the file to disk, with the permissions of the file that it replaces.
    pub(crate) fn finish(&self, file: &File) -> Result<()> {
        if let Some(permissions) = &self.permissions {
            file.set_permissions(permissions.clone()).map_err(|e| self.with_path(e))?;
        }
        // Otherwise the final name could refer to incomplete content after a crash of the system.
        file.sync_all().map_err(|e| self.with_path(e))
    }

    /// Checks that the temporary path still refers to the file that was written.
    ///
    /// # Errors
    /// `IO` if another process has removed or replaced it.
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

    pub(crate) fn with_path(&self, error: io::Error) -> Error {
        Error::from(error).in_file(&self.path.display().to_string())
    }

    fn is_in_place(&self) -> bool {
        let current = fs::symlink_metadata(&self.partial);
        current.is_ok_and(|current| current.is_file() && Identity::of(&current) == self.identity)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.published && !self.is_kept && self.is_in_place() {
            fs::remove_file(&self.partial).ok(); // harmless if it fails: the name marks the file as partial
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

/// Returns the usual temporary path of an output.
pub(crate) fn partial_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// Creates a new file. Any existing file is an error, including a dangling symbolic link. The file has the permission
/// bits of the replaced file from the start, so that private data is never readable by others.
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

/// The result of removing an existing file at the usual temporary path.
enum Leftover {
    /// The file was left by a killed conversion, and has been removed.
    Removed,
    /// The file belongs to a running conversion.
    Busy,
    /// The file is not from a conversion, or cannot be removed.
    Foreign,
}

fn remove_leftover(partial: &Path) -> Leftover {
    let Ok(current) = fs::symlink_metadata(partial) else { return Leftover::Removed };
    if !current.is_file() || has_other_names(&current) {
        return Leftover::Foreign;
    }
    let Ok(file) = no_follow(File::options().read(true)).open(partial) else { return Leftover::Foreign };
    let identity = Identity::of(&current);
    let is_same = file.metadata().is_ok_and(|opened| opened.is_file() && Identity::of(&opened) == identity);
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

/// Whether the file belongs to the user of this process: others cannot have prepared it, or keep it open.
#[cfg(unix)]
fn is_own(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &Metadata) -> bool {
    true
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
