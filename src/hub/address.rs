//! Addresses of models and files on a hub.

use crate::error::{Error, ErrorKind, Result};
use crate::names::{decoded, encoded, encoded_segment};

const SCHEME: &str = "hf:";

/// The revision if an address has none.
const MAIN: &str = "main";

/// A model or a file of it, as `hf:owner/name@revision/path` or as the URL of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Address {
    /// The URL of the hub, without a slash at its end.
    pub(super) endpoint: String,
    /// `owner/name`, or only `name` for the oldest models.
    pub(super) repository: String,
    /// A branch, a tag or a commit.
    pub(super) revision: String,
    /// The path of the file; `None` for the model of the repository.
    pub(super) path: Option<String>,
    /// The URL, if the address was given as one.
    pub(super) url: Option<String>,
}

/// Whether this is an address with the scheme of hubs.
pub(crate) fn has_scheme(text: &str) -> bool {
    text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// Whether this is an address on a hub, or the URL of a file there. A malformed address is one, too.
pub(crate) fn is_on_hub(text: &str, endpoint: &str) -> bool {
    let endpoint = endpoint.trim_end_matches('/');
    let below = (!endpoint.is_empty()).then(|| text.strip_prefix(endpoint)).flatten();
    has_scheme(text) || below.is_some_and(|path| path.starts_with('/') && path.contains("/resolve/"))
}

impl Address {
    /// Parses an address. `None` for a URL outside this hub. Without an endpoint, there is no hub.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a malformed address with the scheme `hf:`.
    pub(crate) fn parse(text: &str, endpoint: &str) -> Result<Option<Self>> {
        let endpoint = endpoint.trim_end_matches('/');
        if endpoint.is_empty() {
            let what = format!("\"{text}\" is an address on a hub, but there is none: `hub` is null");
            let error = Error::new(ErrorKind::InvalidArgument, what).advise("Pass a URL, or the options of a hub.");
            return if has_scheme(text) { Err(error) } else { Ok(None) };
        }
        if !has_scheme(text) {
            return Ok(Address::of_url(text, endpoint));
        }
        let rest = text.get(SCHEME.len()..).unwrap_or_default();
        match Address::of_parts(rest.trim_start_matches('/'), endpoint) {
            Some(address) => Ok(Some(address)),
            None => {
                let error = Error::new(ErrorKind::InvalidArgument, format!("\"{text}\" is not an address on a hub"));
                Err(error.advise("Write `hf:owner/name/path`, `hf:owner/name@revision/path` or `hf:owner/name`."))
            }
        }
    }

    /// Parses what follows the scheme.
    fn of_parts(rest: &str, endpoint: &str) -> Option<Self> {
        let (owner, rest) = rest.split_once('/')?;
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (name, revision) = name.split_once('@').map_or((name, None), |(name, revision)| (name, Some(revision)));
        let (revision, path) = match revision {
            // Such as `refs/pr/1`: the only revisions with slashes that need no encoding.
            Some("refs") => {
                let end = rest.match_indices('/').nth(1).map_or(rest.len(), |(at, _)| at);
                let (kind, path) = rest.split_at_checked(end)?;
                (format!("refs/{kind}"), path.trim_start_matches('/'))
            }
            Some(revision) => (decoded(revision)?, rest),
            None => (MAIN.to_owned(), rest),
        };
        let is_valid = is_name(owner) && is_name(name) && !matches!(owner, "datasets" | "spaces" | "models");
        let path = Some(path).filter(|path| !path.is_empty()).map(str::to_owned);
        let repository = format!("{owner}/{name}");
        (is_valid && !revision.is_empty()).then(|| Address {
            endpoint: endpoint.to_owned(),
            repository,
            revision,
            path,
            url: None,
        })
    }

    /// Parses a URL of the form `ENDPOINT/owner/name/resolve/revision/path`.
    fn of_url(url: &str, endpoint: &str) -> Option<Self> {
        let path = url.strip_prefix(endpoint)?.strip_prefix('/')?;
        let path = path.split(['?', '#']).next()?;
        let (repository, rest) = path.split_once("/resolve/")?;
        let (revision, path) = rest.split_once('/')?;
        let is_valid = repository.split('/').all(is_name) && repository.split('/').count() <= 2 && !path.is_empty();
        is_valid.then_some(Address {
            endpoint: endpoint.to_owned(),
            repository: repository.to_owned(),
            revision: decoded(revision)?,
            path: Some(decoded(path)?),
            url: Some(url.to_owned()),
        })
    }

    /// Whether no file of the repository is named.
    #[cfg(http_client)]
    pub(crate) fn is_repository(&self) -> bool {
        self.path.is_none()
    }

    /// The URL of the folder of all files at a revision, with a slash at its end.
    pub(super) fn base(&self, revision: &str) -> String {
        let Address { endpoint, repository, .. } = self;
        format!("{endpoint}/{repository}/resolve/{}/", encoded_segment(revision))
    }

    /// The URL of a file at a revision.
    pub(super) fn file(&self, revision: &str, path: &str) -> String {
        self.base(revision) + &encoded(path)
    }

    /// The URL of the file as it is addressed, at a revision that may move.
    pub(crate) fn unpinned(&self) -> String {
        self.url.clone().unwrap_or_else(|| self.file(&self.revision, self.path.as_deref().unwrap_or_default()))
    }

    /// The URL of the list of files.
    pub(super) fn listing(&self) -> String {
        let Address { endpoint, repository, revision, .. } = self;
        format!("{endpoint}/api/models/{repository}/revision/{}?blobs=true", encoded_segment(revision))
    }

    /// The URL of a file as Git stores it: of a large file, only a pointer.
    pub(super) fn raw(&self, revision: &str, path: &str) -> String {
        let Address { endpoint, repository, .. } = self;
        format!("{endpoint}/{repository}/raw/{}/{}", encoded_segment(revision), encoded(path))
    }

    /// The web page of the repository.
    pub(super) fn page(&self) -> String {
        format!("{}/{}", self.endpoint, self.repository)
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.chars().all(is_allowed) && !name.starts_with('.')
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    const HUB: &str = "https://huggingface.co";

    fn parts(text: &str) -> Option<(String, String, Option<String>)> {
        let Address { repository, revision, path, .. } = Address::parse(text, HUB).ok()??;
        Some((repository, revision, path))
    }

    fn expected(repository: &str, revision: &str, path: &str) -> Option<(String, String, Option<String>)> {
        let path = Some(path.to_owned()).filter(|path| !path.is_empty());
        Some((repository.to_owned(), revision.to_owned(), path))
    }

    #[test]
    fn urls_of_files_on_the_hub_are_on_it_and_others_are_not() {
        for text in [
            "hf:a/b",
            "HF:a",
            "https://huggingface.co/a/b/resolve/main/m",
            "https://huggingface.co/datasets/a/b/resolve/x/m",
        ] {
            assert!(is_on_hub(text, HUB), "{text}");
            assert!(is_on_hub(text, &format!("{HUB}/")), "{text}");
        }
        let others =
            ["https://huggingface.co.evil.test/a/b/resolve/main/m", "https://huggingface.co/a/b", "/a/resolve/m"];
        for text in others {
            assert!(!is_on_hub(text, HUB), "{text}");
        }
        assert!(!is_on_hub("/a/b/resolve/main/m", ""));
    }

    #[test]
    fn parses_addresses_with_the_scheme() {
        assert_eq!(parts("hf:a/b"), expected("a/b", "main", ""));
        assert_eq!(parts("hf://a/b/"), expected("a/b", "main", ""));
        assert_eq!(parts("HF:a/b/m.gguf"), expected("a/b", "main", "m.gguf"));
        assert_eq!(parts("hf:a/b@v1.0/x/m.gguf"), expected("a/b", "v1.0", "x/m.gguf"));
        assert_eq!(parts("hf:a/b@feature%2Fx/m.gguf"), expected("a/b", "feature/x", "m.gguf"));
        assert_eq!(parts("hf:a/b@refs/pr/7/x/m.gguf"), expected("a/b", "refs/pr/7", "x/m.gguf"));
        assert_eq!(parts("hf:a/b@refs/pr/7"), expected("a/b", "refs/pr/7", ""));
    }

    #[test]
    fn refuses_malformed_addresses() {
        assert!(Address::parse("hf:a/b", "").is_err());
        assert_eq!(Address::parse("/a/b/resolve/main/m", ""), Ok(None));
        for text in ["hf:", "hf:a", "hf:a/", "hf:/b/c d/e", "hf:a/b@/m", "hf:datasets/a/b/m", "hf:../b/m"] {
            let error = Address::parse(text, HUB).unwrap_err();
            assert_eq!(error.code(), "INVALID_ARGUMENT", "{text}");
        }
    }

    #[test]
    fn parses_urls_of_this_hub_only() {
        let file = expected("a/b", "main", "x/m 1.gguf");
        assert_eq!(parts("https://huggingface.co/a/b/resolve/main/x/m%201.gguf?download=true"), file);
        assert_eq!(parts("https://huggingface.co/gpt2/resolve/main/m"), expected("gpt2", "main", "m"));
        for url in [
            "https://example.org/a/b/resolve/main/m.gguf",
            "https://huggingface.co.example.org/a/b/resolve/main/m.gguf",
            "https://huggingface.co/a/b/blob/main/m.gguf",
            "https://huggingface.co/datasets/a/b/resolve/main/m.gguf",
            "https://huggingface.co/a/b/resolve/main/",
        ] {
            assert_eq!(parts(url), None, "{url}");
        }
    }

    #[test]
    fn builds_urls_of_files() {
        let address = Address::parse("hf:a/b@refs/pr/7/x/m 1.gguf", "http://127.0.0.1:1/hub/").unwrap().unwrap();
        assert_eq!(address.unpinned(), "http://127.0.0.1:1/hub/a/b/resolve/refs%2Fpr%2F7/x/m%201.gguf");
        let pinned = address.file("0123", "x/m 1.gguf");
        assert_eq!(crate::names::path_below(&address.base("0123"), &pinned).as_deref(), Some("x/m 1.gguf"));
        assert_eq!(address.listing(), "http://127.0.0.1:1/hub/api/models/a/b/revision/refs%2Fpr%2F7?blobs=true");
    }
}
