//! Opens the regular files that the server sends. Does not follow a link that replaces a folder or file after its path
//! was checked. Opening never blocks: a pipe would wait for a writer, and opening a device could change its state.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// Opens the regular file at `path`, which must not contain symbolic links. Returns the file and its metadata, or
/// `None` if it is not a regular file.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => File::from(file),
        // An old kernel, or a sandbox that does not support the call.
        Err(Errno::NOSYS | Errno::PERM) => return open_following_links(path),
        Err(error) => return Err(error.into()),
    };
    regular(file)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    open_following_links(path)
}

fn open_following_links(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    regular(options.open(path)?)
}

/// Checks the opened file, because another file may have replaced it after the path was checked.
fn regular(file: File) -> io::Result<Option<(File, Metadata)>> {
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some((file, metadata)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn does_not_follow_links_in_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("a")).unwrap();
        fs::write(real.join("a/file"), b"x").unwrap();
        symlink("a", real.join("b")).unwrap();
        symlink("a/file", real.join("link")).unwrap();
        assert!(matches!(open(&real.join("a/file")), Ok(Some(_))));
        assert!(matches!(open(&real.join("a")), Ok(None)));
        assert!(open(&real.join("b/file")).is_err() && open(&real.join("link")).is_err());
        assert!(matches!(open_following_links(&real.join("link")), Ok(Some(_))));
    }
}
