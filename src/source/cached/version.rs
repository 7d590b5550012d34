//! The version of a file, and where its bytes are in the cache.

use crate::cache::client::version_of;
use crate::identity::Identity;
use std::rc::Rc;

#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) identity: Identity,
    pub(super) name: Rc<str>,
    /// The cache key of another file that has the same content, if the bytes come from there. The server's file is then
    /// not known to be this version.
    pub(super) other_key: Option<Rc<str>>,
}

impl Version {
    pub(super) fn new(identity: Identity) -> Self {
        Version { name: version_of(&identity).into(), identity, other_key: None }
    }

    /// The cache key of this version of a file whose own key is `key`.
    pub(super) fn key<'a>(&'a self, key: &'a str) -> &'a str {
        self.other_key.as_deref().unwrap_or(key)
    }
}
