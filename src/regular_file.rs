//! Opens regular files for reading, and nothing else. To open a pipe waits until another process writes to it, which
//! may never happen; to open a device can change its state.

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

#[cfg(all(unix, feature = "write"))]
fn without_waiting(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    // They change nothing for regular files.
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
}

#[cfg(not(all(unix, feature = "write")))]
fn without_waiting(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options
}
