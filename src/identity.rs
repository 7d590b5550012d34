//! Which version of a file the bytes are of. Sources learn it from answers, and the cache keeps it with the bytes.

/// What tells one version of a file from another. A field that the server does not give, or hides from
/// other origins, is `None` and proves nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The file's length in bytes.
    pub length: Option<u64>,
    /// The strong ETag. Weak ones say nothing about bytes and are not kept.
    pub etag: Option<String>,
    /// The Last-Modified date, as the server writes it.
    pub last_modified: Option<String>,
}

impl Identity {
    /// Whether `now` is the same file for sure: unlike for `change_since`, something must say so.
    pub fn is_confirmed_by(&self, now: &Identity) -> bool {
        let is_same = match (&now.etag, &self.etag) {
            (Some(now), Some(then)) => now == then,
            _ => now.last_modified.is_some() && now.last_modified == self.last_modified,
        };
        is_same && now.change_since(self).is_none()
    }

    /// What differs from `earlier`, in words; `None` where this can be the same file.
    pub(crate) fn change_since(&self, earlier: &Identity) -> Option<String> {
        fn differ<T: PartialEq>(now: &Option<T>, then: &Option<T>) -> bool {
            now.is_some() && then.is_some() && now != then
        }
        if differ(&self.length, &earlier.length) {
            let (now, then) = (self.length.unwrap_or(0), earlier.length.unwrap_or(0));
            return Some(format!("it had {then} bytes before and has {now} now"));
        }
        if differ(&self.etag, &earlier.etag) {
            return Some("its ETag is another than before".to_owned());
        }
        if differ(&self.last_modified, &earlier.last_modified) && self.etag.is_none() {
            return Some("its Last-Modified date is another than before".to_owned());
        }
        None
    }

    /// Takes over what only `now` tells: an answer may come from another server of the same host, and tell more.
    pub(crate) fn learn(&mut self, now: &Identity) {
        self.length = self.length.or(now.length);
        self.etag = self.etag.take().or_else(|| now.etag.clone());
        self.last_modified = self.last_modified.take().or_else(|| now.last_modified.clone());
    }
}
