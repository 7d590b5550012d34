//! Maps URL paths to files below mounted folders, and never to files outside.

use std::io;
use std::path::{Component, Path, PathBuf};

use weightstream::internals::names::{decoded, encoded_segment};

/// The mounted folders.
pub(super) struct Site {
    /// Sorted by descending prefix length.
    mounts: Vec<Mount>,
}

struct Mount {
    prefix: Vec<String>,
    root: PathBuf,
}

/// The result of looking up a path.
pub(super) enum Found {
    File(PathBuf),
    /// A folder without an `index.html`.
    Folder(PathBuf),
    /// The root, if nothing is mounted there: the list of mounts.
    Mounts(Vec<String>),
    /// A folder without a slash at its end: relative links of its page would resolve incorrectly.
    Redirect(String),
    /// A symbolic link points outside the mounted folder.
    Outside,
    Nothing,
}

impl Site {
    pub(super) fn new(mounts: Vec<(String, PathBuf)>) -> io::Result<Self> {
        let mut mounts =
            mounts.into_iter().map(|(prefix, path)| Mount::new(&prefix, &path)).collect::<io::Result<Vec<_>>>()?;
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
        Ok(Self { mounts })
    }

    pub(super) fn find(&self, path: &str) -> Found {
        let Some(segments) = segments(path) else {
            return Found::Nothing;
        };
        let matching =
            self.mounts.iter().find_map(|mount| Some((mount, segments.strip_prefix(mount.prefix.as_slice())?)));
        let Some((mount, below)) = matching else {
            return if segments.is_empty() {
                Found::Mounts(self.mounts.iter().map(|mount| url_path(&mount.prefix)).collect())
            } else {
                Found::Nothing
            };
        };
        let wanted = below.iter().fold(mount.root.clone(), |path, segment| path.join(segment));
        let Ok(real) = wanted.canonicalize() else {
            return Found::Nothing;
        };
        match (mount.kind(&real), path.ends_with('/')) {
            (Kind::File, false) => Found::File(real),
            (Kind::Folder, true) => mount.index(real),
            (Kind::Folder, false) => Found::Redirect(url_path(&segments) + "/"),
            (Kind::Outside, _) => Found::Outside,
            (Kind::File | Kind::Other, _) => Found::Nothing,
        }
    }
}

impl Mount {
    fn new(prefix: &str, path: &Path) -> io::Result<Self> {
        let root = path
            .canonicalize()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot serve {}: {error}", path.display())))?;
        let refused = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("cannot serve under {prefix}: not a path of plain names"),
            )
        };
        Ok(Self { prefix: segments(prefix).ok_or_else(refused)?, root })
    }

    /// Returns the kind of `real`, a canonical path without symbolic links.
    fn kind(&self, real: &Path) -> Kind {
        if !real.starts_with(&self.root) {
            return Kind::Outside;
        }
        match real.metadata() {
            Ok(metadata) if metadata.is_file() => Kind::File,
            Ok(metadata) if metadata.is_dir() => Kind::Folder,
            _ => Kind::Other,
        }
    }

    fn index(&self, folder: PathBuf) -> Found {
        match folder.join("index.html").canonicalize() {
            Ok(index) if matches!(self.kind(&index), Kind::File) => Found::File(index),
            _ => Found::Folder(folder),
        }
    }
}

enum Kind {
    File,
    Folder,
    /// A device or a pipe, which could block forever when opened, or a file that no longer exists.
    Other,
    Outside,
}

/// Returns the decoded names of a path, or `None` if one of them is not the name of a visible file: `..`, a hidden
/// name, or a name with a separator or NUL. Browsers resolve `..` before they send a request, so a path with `..` is
/// probably malicious.
fn segments(path: &str) -> Option<Vec<String>> {
    let named = path.split('/').filter(|segment| !segment.is_empty());
    named.map(|segment| decoded(segment).filter(|name| is_visible_name(name))).collect()
}

pub(super) fn is_visible_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_normal = components.next() == Some(Component::Normal(name.as_ref()));
    let is_single = components.next().is_none();
    is_normal && is_single && !name.starts_with('.') && !name.contains('\0')
}

/// Returns the URL path of these names. It begins with exactly one slash, because two slashes would begin a host name.
fn url_path(segments: &[String]) -> String {
    format!("/{}", segments.iter().map(|segment| encoded_segment(segment)).collect::<Vec<_>>().join("/"))
}
