//! A response of a hub.

/// The list of files of a repository with 100,000 files has 20 MB.
const MAX_BODY_BYTES: u64 = 64 << 20;

/// How much of a body is read at a time.
#[cfg(web)]
pub(crate) const PIECE_BYTES: u64 = 256 << 10;

/// A response with the headers of a hub.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(super) status: u16,
    content_type: String,
    pub(super) commit: Option<String>,
    pub(super) linked_etag: Option<String>,
    pub(super) error_code: Option<String>,
    pub(super) error_message: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn new(status: u16, retry_after_ms: Option<u64>, header: impl Fn(&str) -> Option<String>) -> Self {
        Reply {
            status,
            content_type: header("Content-Type").unwrap_or_default(),
            commit: header("X-Repo-Commit"),
            linked_etag: header("X-Linked-ETag"),
            error_code: header("X-Error-Code"),
            error_message: header("X-Error-Message"),
            retry_after_ms,
            body: Vec::new(),
        }
    }

    /// Whether the body is wanted.
    pub(crate) fn is_text(&self) -> bool {
        let kind = self.content_type.split(';').next().unwrap_or_default().trim();
        self.status == 200 && (kind.ends_with("json") || kind == "text/plain")
    }

    /// Whether the body stays within the limit if `count` bytes are added. Otherwise it is dropped.
    pub(crate) fn can_take(&mut self, count: u64) -> bool {
        let can = self.body.len() as u64 + count <= MAX_BODY_BYTES;
        if !can {
            self.body.clear();
        }
        can
    }
}
