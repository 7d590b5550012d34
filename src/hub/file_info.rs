//! What a hub says about one file, where it does not describe the files of the repository.

use super::listing::{is_commit, sha256_of};
use super::request::reply_to;
use super::{Address, Transport};
use crate::digest::Digest;
use crate::error::Result;

/// With this type, `resolve` describes the file instead of redirecting to it.
const FILE_INFO: &str = "application/vnd.xet-fileinfo+json";

#[derive(Debug, Default)]
pub(super) struct FileInfo {
    pub(super) commit: Option<String>,
    pub(super) sha256: Option<Digest>,
}

/// Asks for the commit and the digest of a file.
///
/// # Errors
/// `HTTP` for a file that does not exist or may not be read.
pub(super) async fn file_info(address: &Address, path: &str, transport: &impl Transport) -> Result<FileInfo> {
    let reply = reply_to(address, &address.file(&address.revision, path), FILE_INFO, transport).await?;
    let etag = reply.linked_etag.as_deref().map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
    let mut info =
        FileInfo { commit: reply.commit.filter(|commit| is_commit(commit)), sha256: etag.and_then(sha256_of) };
    if info.sha256.is_none() {
        let revision = info.commit.as_deref().unwrap_or(&address.revision);
        // Not every hub has pointers.
        let pointer = reply_to(address, &address.raw(revision, path), "text/plain", transport).await;
        info.sha256 = pointer.ok().and_then(|pointer| sha256_of_pointer(&pointer.body));
    }
    Ok(info)
}

/// The digest in the pointer that Git stores in place of a large file.
///
/// Source: <https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>
fn sha256_of_pointer(text: &[u8]) -> Option<Digest> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.starts_with("version https://git-lfs"))?;
    text.lines().find_map(|line| sha256_of(line.strip_prefix("oid sha256:")?.trim()))
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn reads_the_digest_of_a_pointer() {
        let digest = "cd".repeat(32);
        let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 12\n");
        assert_eq!(sha256_of_pointer(pointer.as_bytes()), sha256_of(&digest));
        assert!(sha256_of_pointer(pointer.as_bytes()).is_some());
        assert_eq!(sha256_of_pointer(format!("oid sha256:{digest}").as_bytes()), None);
    }
}
