//! Opens regular files for reading and refuses other file types. Opening a pipe blocks until another process writes to
//! it, which may never happen. Opening a device can change its state.

use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::path::Path;

/// The result of [`open`].
#[derive(Debug)]
pub enum Opened {
    /// A regular file, with the metadata of the opened file.
    File(File, Metadata),
    /// Another file type, with its name for error messages: "a folder", "a pipe".
    Other(&'static str),
}

/// Opens the file at `path` without blocking. Follows symbolic links.
///
/// # Errors
/// Those of opening a file.
pub fn open(path: &Path) -> io::Result<Opened> {
    // Sockets cannot be opened, and devices should not be.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(Opened::Other(kind(metadata.file_type())));
    }
    // The path may refer to another file by now, so the type of the opened file is checked again.
    let file = nonblocking(File::options().read(true)).open(path)?;
    check_type(file)
}

fn check_type(file: File) -> io::Result<Opened> {
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(Opened::File(file, metadata)),
        false => Ok(Opened::Other(kind(metadata.file_type()))),
    }
}

/// The name of a file type other than a regular file, for error messages.
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

#[cfg(all(unix, feature = "write"))]
fn nonblocking(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    // These flags have no effect on regular files.
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
}

#[cfg(not(all(unix, feature = "write")))]
fn nonblocking(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options
}
