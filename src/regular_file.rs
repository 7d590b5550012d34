//! Opens regular files for reading, and nothing else. To open a pipe waits until another process writes to it, which may
//! never happen; to open a device can change its state.

use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::path::Path;

/// What a path led to.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A regular file, with what the system says of this very file.
    File(File, Metadata),
    /// Something else, which errors call so: "a folder", "a pipe".
    Other(&'static str),
}

/// Opens the file at `path`, through symbolic links, without waiting.
pub(crate) fn open(path: &Path) -> io::Result<Opened> {
    // Sockets cannot be opened, and devices should not be.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(Opened::Other(kind(metadata.file_type())));
    }
    // Another file may have taken the name meanwhile: what counts is what was opened.
    let file = without_waiting(File::options().read(true)).open(path)?;
    of_opened(file)
}

/// As [`open`], for a path without symbolic links: where one has taken the place of a folder or file on the way since the
/// path was found to have none, it is not followed.
#[cfg(target_os = "linux")]
pub(crate) fn open_real(path: &Path) -> io::Result<Opened> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => File::from(file),
        Err(Errno::NOSYS | Errno::PERM) => return open(path), // an old kernel, or a sandbox that does not know the call
        Err(error) => return Err(error.into()),
    };
    of_opened(file)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_real(path: &Path) -> io::Result<Opened> {
    open(path)
}

fn of_opened(file: File) -> io::Result<Opened> {
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(Opened::File(file, metadata)),
        false => Ok(Opened::Other(kind(metadata.file_type()))),
    }
}

/// What errors call a file that is not a regular one.
pub(crate) fn kind(file_type: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file_type.is_fifo() {
            return "a pipe";
        }
        if file_type.is_socket() {
            return "a socket";
        }
    }
    match file_type {
        _ if file_type.is_dir() => "a folder",
        _ if file_type.is_symlink() => "a symbolic link",
        _ => "a device",
    }
}

#[cfg(unix)]
fn without_waiting(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    // Regular files are read as ever.
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
}

#[cfg(not(unix))]
fn without_waiting(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("a")).unwrap();
        fs::write(real.join("a/file"), b"x").unwrap();
        symlink("a", real.join("b")).unwrap();
        symlink("a/file", real.join("link")).unwrap();
        assert!(matches!(open_real(&real.join("a/file")), Ok(Opened::File(..))));
        assert!(matches!(open_real(&real.join("a")), Ok(Opened::Other("a folder"))));
        assert!(open_real(&real.join("b/file")).is_err() && open_real(&real.join("link")).is_err());
        assert!(matches!(open(&real.join("link")), Ok(Opened::File(..))));
    }
}
