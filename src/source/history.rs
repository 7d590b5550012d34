//! Tracks whether the ETags and ranges in the responses of a server are reliable.

use super::Answer;
use crate::error::Result;
use crate::identity::Identity;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Requests `range` with `request`. If the ETag of the response is doubtful, sends a few more requests to find out
/// whether the server's ETags are random.
pub(super) async fn request_with_checked_etag<B>(
    history: &History,
    range: Range<u64>,
    request: impl AsyncFn(&Range<u64>) -> Result<Answer<B>>,
) -> Result<Answer<B>> {
    let mut answer = request(&range).await?;
    if history.is_doubtful(&answer.identity) {
        let mut later = Vec::new();
        for _ in 0..SETTLING_REQUESTS {
            later.push(request(&(0..1)).await?.identity);
        }
        history.settle(&answer.identity, &later);
    }
    answer.identity = history.without_random_etag(answer.identity);
    Ok(answer)
}

/// Number of additional requests that determine whether ETags are random. Two, because a file that changes during the
/// requests has two ETags, and another server of the host may send a third one.
const SETTLING_REQUESTS: usize = 2;

/// Properties of the responses for one file.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The first strong ETag, and whether a second response had the same.
    etag: RefCell<Option<(String, bool)>>,
    etags_are_random: Cell<bool>,
    /// Whether a 206 had an unspecified range.
    has_unspecified_range: Cell<bool>,
}

impl History {
    /// Records the ETag of a response. Returns whether it differs from the first one, which no other response had. Some
    /// servers send a random ETag with every response; [`History::settle`] detects them.
    fn is_doubtful(&self, identity: &Identity) -> bool {
        let Some(now) = identity.etag.as_ref().filter(|_| !self.etags_are_random.get()) else { return false };
        let mut etag = self.etag.borrow_mut();
        match &mut *etag {
            None => *etag = Some((now.clone(), false)),
            Some((first, is_confirmed)) if first == now => *is_confirmed = true,
            Some((_, is_confirmed)) => return !*is_confirmed,
        }
        false
    }

    /// Records the ETags of [`SETTLING_REQUESTS`] additional responses after a doubtful one. ETags are random if all
    /// responses have different ones.
    fn settle(&self, doubtful: &Identity, later: &[Identity]) {
        let first = self.etag.borrow().as_ref().map(|(etag, _)| etag.clone());
        let etags = [first.as_ref(), doubtful.etag.as_ref()].into_iter().chain(later.iter().map(|it| it.etag.as_ref()));
        let etags: Option<Vec<_>> = etags.collect();
        let are_distinct = |etags: Vec<_>| {
            etags.iter().enumerate().all(|(at, etag)| !etags.iter().take(at).any(|earlier| earlier == etag))
        };
        self.etags_are_random.set(etags.is_some_and(are_distinct));
    }

    /// Removes the ETag if ETags are random.
    fn without_random_etag(&self, mut identity: Identity) -> Identity {
        identity.etag.take_if(|_| self.etags_are_random.get());
        identity
    }

    /// Records that a 206 had an unspecified range.
    pub(crate) fn note_unspecified_range(&self) {
        self.has_unspecified_range.set(true);
    }

    /// Whether the whole file should be requested, because the ranges of responses are unreliable.
    pub(crate) fn wants_whole_file(&self) -> bool {
        self.has_unspecified_range.get()
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    fn identity(etag: &str) -> Identity {
        Identity { etag: Some(etag.to_owned()), ..Identity::default() }
    }

    #[test]
    fn a_confirmed_etag_is_never_doubtful() {
        let history = History::default();
        assert!(!history.is_doubtful(&identity("a")) && !history.is_doubtful(&identity("a")));
        assert!(!history.is_doubtful(&identity("b")));
        assert_eq!(history.without_random_etag(identity("b")), identity("b"), "the file has changed");
    }

    #[test]
    fn etags_that_always_differ_are_ignored() {
        let history = History::default();
        assert!(!history.is_doubtful(&identity("a")) && history.is_doubtful(&identity("b")));
        history.settle(&identity("b"), &[identity("c"), identity("d")]);
        assert_eq!(history.without_random_etag(identity("b")), Identity::default());
        assert!(!history.is_doubtful(&identity("e")));
    }

    #[test]
    fn an_etag_that_changed_once_means_another_version() {
        let history = History::default();
        assert!(!history.is_doubtful(&identity("a")) && history.is_doubtful(&identity("b")));
        for later in [["b", "b"], ["c", "b"], ["a", "c"], ["c", "c"]] {
            history.settle(&identity("b"), &later.map(identity));
            assert_eq!(history.without_random_etag(identity("b")), identity("b"), "{later:?}");
        }
        history.settle(&identity("b"), &[identity("c"), Identity::default()]);
        assert_eq!(history.without_random_etag(identity("b")), identity("b"), "a missing ETag proves nothing");
    }
}
