//! What the answers of a server so far say about how far its answers can be believed.

use super::Answer;
use crate::error::Result;
use crate::identity::Identity;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

/// The answer to a request for `range`, as `ask` brings it. Where its ETag is doubtful, `ask` is called a few times
/// more to find out whether the server's ETags mean anything.
pub(super) async fn ask_until_settled<B>(
    history: &History,
    range: Range<u64>,
    ask: impl AsyncFn(&Range<u64>) -> Result<Answer<B>>,
) -> Result<Answer<B>> {
    let mut answer = ask(&range).await?;
    if history.is_doubtful(&answer.identity) {
        let mut later = Vec::new();
        for _ in 0..SETTLING_ANSWERS {
            later.push(ask(&(0..1)).await?.identity);
        }
        history.settle(&answer.identity, &later);
    }
    answer.identity = history.cleaned(answer.identity);
    Ok(answer)
}

/// How many more answers settle whether ETags are random. Two: a file that changes while it is asked for shows two
/// ETags, and a third one may come from another server of the host.
const SETTLING_ANSWERS: usize = 2;

/// The answers for one file.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The strong ETag that was seen first, and whether a second answer had it.
    etag: RefCell<Option<(String, bool)>>,
    etags_are_random: Cell<bool>,
    /// Whether a 206 did not say which bytes it brought.
    ranges_prove_nothing: Cell<bool>,
}

impl History {
    /// Takes the ETag of an answer. Returns whether it differs from the only one before it. Some servers send a random
    /// one with every answer for constant content, so that it must be asked once more what it is: [`History::settle`].
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

    /// Takes the ETags of [`SETTLING_ANSWERS`] more answers after a doubtful one. They are random if no two answers
    /// have the same.
    fn settle(&self, doubtful: &Identity, later: &[Identity]) {
        let first = self.etag.borrow().as_ref().map(|(etag, _)| etag.clone());
        let etags = [first.as_ref(), doubtful.etag.as_ref()].into_iter().chain(later.iter().map(|it| it.etag.as_ref()));
        let known: Option<BTreeSet<_>> = etags.collect();
        self.etags_are_random.set(known.is_some_and(|known| known.len() == 2 + later.len()));
    }

    /// The identity without an ETag that means nothing.
    fn cleaned(&self, mut identity: Identity) -> Identity {
        identity.etag.take_if(|_| self.etags_are_random.get());
        identity
    }

    /// Notes that a 206 did not say which bytes it brought.
    pub(crate) fn note_unproven_range(&self) {
        self.ranges_prove_nothing.set(true);
    }

    /// Whether the file should be asked for as a whole, since its ranges cannot be believed.
    pub(crate) fn wants_whole_file(&self) -> bool {
        self.ranges_prove_nothing.get()
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    fn identity(etag: &str) -> Identity {
        Identity { etag: Some(etag.to_owned()), ..Identity::default() }
    }

    #[test]
    fn an_etag_that_was_confirmed_is_never_doubted() {
        let history = History::default();
        assert!(!history.is_doubtful(&identity("a")) && !history.is_doubtful(&identity("a")));
        assert!(!history.is_doubtful(&identity("b")));
        assert_eq!(history.cleaned(identity("b")), identity("b"), "the file has changed");
    }

    #[test]
    fn etags_that_always_differ_mean_nothing() {
        let history = History::default();
        assert!(!history.is_doubtful(&identity("a")) && history.is_doubtful(&identity("b")));
        history.settle(&identity("b"), &[identity("c"), identity("d")]);
        assert_eq!(history.cleaned(identity("b")), Identity::default());
        assert!(!history.is_doubtful(&identity("e")));
    }

    #[test]
    fn an_etag_that_changed_once_means_another_version() {
        let history = History::default();
        assert!(!history.is_doubtful(&identity("a")) && history.is_doubtful(&identity("b")));
        for later in [["b", "b"], ["c", "b"], ["a", "c"], ["c", "c"]] {
            history.settle(&identity("b"), &later.map(identity));
            assert_eq!(history.cleaned(identity("b")), identity("b"), "{later:?}");
        }
        history.settle(&identity("b"), &[identity("c"), Identity::default()]);
        assert_eq!(history.cleaned(identity("b")), identity("b"), "a missing ETag shows nothing");
    }
}
