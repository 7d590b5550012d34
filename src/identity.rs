//! The version of a file. Sources read it from responses, and the cache stores it with the bytes.

/// What separates the URL of a mirror from its ETag. Neither can contain it, and records of the cache keep it.
const MIRROR_END: &str = "\u{1f}";

/// Identifies the version of a file. A field that the server does not send, or that is not readable cross-origin, is
/// `None` and is not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Length of the file in bytes.
    pub length: Option<u64>,
    /// The strong ETag. Weak ETags are ignored, because they do not identify the bytes.
    pub etag: Option<String>,
    /// The value of the Last-Modified header.
    pub last_modified: Option<String>,
}

impl Identity {
    /// Whether `now` is certainly the same version: the ETags, or else the Last-Modified dates, are equal, and no other
    /// field differs.
    #[doc(hidden)]
    pub fn is_confirmed_by(&self, now: &Identity) -> bool {
        let is_same = match (&now.etag, &self.etag) {
            (Some(now), Some(then)) => now == then,
            _ => now.last_modified.is_some() && now.last_modified == self.last_modified,
        };
        is_same && now.change_since(self).is_none()
    }

    /// That of a file at a mirror. Its validators say nothing about other addresses, so they are not equal to theirs.
    #[cfg(remote)]
    pub(crate) fn of_mirror(&self, url: &str) -> Identity {
        let etag = self.etag.as_ref().map(|etag| [url, MIRROR_END, etag].concat());
        Identity { length: self.length, etag, last_modified: None }
    }

    /// Whether this is what [`Identity::of_mirror`] returned for a file at this URL.
    #[cfg(feature = "web-workers")]
    pub(crate) fn is_of_mirror(&self, url: &str) -> bool {
        self.mirror() == Some(url)
    }

    /// The URL of the mirror that has the file; `None` for the opened URL.
    fn mirror(&self) -> Option<&str> {
        Some(self.etag.as_deref()?.split_once(MIRROR_END)?.0)
    }

    /// Describes the difference from `earlier`. `None` if this may be the same version.
    pub(crate) fn change_since(&self, earlier: &Identity) -> Option<String> {
        fn differ<T: PartialEq>(now: &Option<T>, then: &Option<T>) -> bool {
            now.is_some() && then.is_some() && now != then
        }
        if differ(&self.length, &earlier.length) {
            let (now, then) = (self.length.unwrap_or(0), earlier.length.unwrap_or(0));
            return Some(format!("its length was {then} bytes and is {now} bytes now"));
        }
        // A cache may have bytes of another address, which are then compared.
        if differ(&self.etag, &earlier.etag) && self.mirror() == earlier.mirror() {
            return Some("its ETag has changed".to_owned());
        }
        if differ(&self.last_modified, &earlier.last_modified) && self.etag.is_none() {
            return Some("its Last-Modified date has changed".to_owned());
        }
        None
    }

    /// Fills in missing fields from `now`. A response of another server of the same host may have more headers.
    pub(crate) fn learn(&mut self, now: &Identity) {
        self.length = self.length.or(now.length);
        self.etag = self.etag.take().or_else(|| now.etag.clone());
        self.last_modified = self.last_modified.take().or_else(|| now.last_modified.clone());
    }
}
