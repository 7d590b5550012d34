//! The files of a model in several: how many there may be, and where.

use crate::digest::Digest;
use crate::digest_state::DigestState;
use crate::error::{Error, ErrorKind, Result, malformed};

/// Maximum number of files of a model. The largest models are uploaded in some hundred files. The limit stops a
/// manifest that would make the loader open thousands of files, each of which costs memory, requests and natively a
/// file descriptor.
pub const MAX_PARTS: u64 = 1024;

/// One file of a model in several.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// The path relative to the manifest, checked to be inside its folder. May be empty if there is a URL.
    pub path: String,
    /// The http(s) URL of the file, used instead of the path if the model was opened from a URL. Only AEROSET has such
    /// URLs.
    pub url: Option<String>,
    /// The length in bytes, if the manifest states it.
    pub byte_length: Option<u64>,
    /// The digest of the file, if the manifest states one.
    pub digest: Option<Digest>,
    /// States from which the SHA-256 of the file can be continued, in the order of their offsets.
    pub states: Vec<DigestState>,
}

/// Checks the number of files of a model. Must be called before anything is allocated for each file.
///
/// # Errors
/// `LIMIT` for more than [`MAX_PARTS`].
pub(crate) fn check_part_count(count: u64) -> Result<()> {
    match count {
        0..=MAX_PARTS => Ok(()),
        _ => {
            let what = format!("the model has {count} files; weightstream takes at most {MAX_PARTS}");
            Err(Error::new(ErrorKind::Limit, what).advise("Write the model again in fewer, larger files."))
        }
    }
}

/// Checks the path of a part in a manifest, which must be inside the manifest's folder, and returns it without
/// segments that mean nothing: `./a//b` is `a/b`.
///
/// Paths are file names, not URLs. They must be escaped before they are used in a URL.
///
/// # Errors
/// `FORMAT` for any other path.
pub fn part_path(path: &str) -> Result<String> {
    let leads_out = path.split(['/', '\\']).any(|segment| segment == "..");
    let absolute = path.starts_with(['/', '\\']);
    let segments: Vec<_> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    let has_scheme = segments.first().is_none_or(|segment| segment.contains(':'));
    if leads_out || absolute || has_scheme || path.contains(['\\', '\0']) {
        let error = malformed(format!("the manifest names the file \"{path}\", which is not inside its folder"));
        return Err(error.advise("Do not load this model unless you trust it; its manifest must name files beside it."));
    }
    Ok(segments.join("/"))
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn refuses_paths_outside_the_folder() {
        for good in ["a.apr", "shards/a.apr", "a..b", "%2e%2e/a", "ü 1.apr"] {
            assert_eq!(part_path(good).as_deref(), Ok(good));
        }
        for (path, same) in
            [("./a.apr", "a.apr"), ("././s/a.apr", "s/a.apr"), ("s/./a.apr", "s/a.apr"), ("s//a", "s/a")]
        {
            assert_eq!(part_path(path).as_deref(), Ok(same));
        }
        for bad in [
            "",
            "../a",
            "a/../../b",
            "/a",
            "\\a",
            "a\\b",
            "..",
            "file:///x",
            "https://h/x",
            "//h/x",
            "data:,x",
            "C:/x",
            ".",
            "./",
            "./C:/x",
            "./..",
        ] {
            assert!(part_path(bad).is_err(), "{bad}");
        }
    }
}
