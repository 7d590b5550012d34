//! The signed URLs that a hub redirects to. They are used again until they expire, because a hub limits the number of
//! requests for redirects much more than the storage limits that of ranges.

use futures::lock::Mutex;
use std::cell::RefCell;

/// A signed URL is not used in the last part of its validity, in which its clock and ours may differ.
const MAX_MARGIN_MS: u64 = 30_000;

/// The redirect of one file.
#[derive(Debug, Default)]
pub(crate) struct Redirect {
    target: RefCell<Option<Target>>,
    /// Held while the hub is asked, so that several connections do not ask at the same time.
    pub(crate) asking: Mutex<()>,
}

#[derive(Debug)]
struct Target {
    url: String,
    /// In milliseconds since 1970; `None` if the URL does not say when it expires.
    usable_until_ms: Option<u64>,
}

impl Redirect {
    /// The URL that the hub redirected to, if it is still valid. `now_ms` is in milliseconds since 1970.
    pub(crate) fn target(&self, now_ms: u64) -> Option<String> {
        let target = self.target.borrow();
        let is_usable = |target: &&Target| target.usable_until_ms.is_none_or(|until| now_ms < until);
        target.as_ref().filter(is_usable).map(|target| target.url.clone())
    }

    /// Records where a request for `url` ended. A response of the caller's own `fetch` may have an empty URL.
    pub(crate) fn record(&self, url: &str, target: String, now_ms: u64) {
        let usable_until_ms = expiry_ms(&target, now_ms).map(|expiry| {
            let margin = (expiry.saturating_sub(now_ms) / 10).min(MAX_MARGIN_MS);
            expiry - margin
        });
        *self.target.borrow_mut() =
            (target != url && !target.is_empty()).then_some(Target { url: target, usable_until_ms });
    }

    /// Forgets the URL, which did not work.
    pub(crate) fn forget(&self) {
        self.target.take();
    }
}

/// When a signed URL expires, as far as it says so. The lifetimes of S3 and Google Cloud Storage start when the URL is
/// signed; here they start now, because a request with an expired URL only costs another one.
fn expiry_ms(url: &str, now_ms: u64) -> Option<u64> {
    let (_, query) = url.split_once('?')?;
    query.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let ms = value.parse::<u64>().ok()?.checked_mul(1000)?;
        match name {
            "Expires" => Some(ms),
            "X-Amz-Expires" | "X-Goog-Expires" => now_ms.checked_add(ms),
            _ => None,
        }
    })
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn recorded(target: &str) -> Redirect {
        let redirect = Redirect::default();
        redirect.record("https://hub/file", target.to_owned(), NOW);
        redirect
    }

    #[test]
    fn a_signed_url_is_used_until_shortly_before_it_expires() {
        let url = "https://cdn/x?Expires=1800003600&Signature=s";
        let redirect = recorded(url);
        assert_eq!(redirect.target(NOW + 3_569_000).as_deref(), Some(url));
        assert_eq!(redirect.target(NOW + 3_570_000), None);
        let redirect = recorded("https://s3/x?X-Amz-Date=20270115T080000Z&X-Amz-Expires=10");
        assert!(redirect.target(NOW + 8_999).is_some() && redirect.target(NOW + 9_000).is_none());
    }

    #[test]
    fn an_expired_url_is_never_used() {
        assert_eq!(recorded("https://cdn/x?Expires=1799999999").target(NOW), None);
    }

    #[test]
    fn without_a_time_it_is_used_until_it_fails() {
        let redirect = recorded("https://cdn/x?sig=s");
        assert!(redirect.target(u64::MAX).is_some());
        redirect.forget();
        assert_eq!(redirect.target(NOW), None);
    }

    #[test]
    fn a_response_without_a_url_has_no_target() {
        assert_eq!(recorded("").target(NOW), None, "a `fetch` of the caller may return such a response");
    }

    #[test]
    fn a_file_that_is_not_redirected_has_no_target() {
        assert_eq!(recorded("https://hub/file").target(NOW), None);
    }
}
