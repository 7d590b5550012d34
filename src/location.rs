//! Where a model is: on disk, at a URL, or on a model hub.

/// Whether a location is an http(s) URL or an address on a hub, such as `hf:owner/name`. Other locations are paths, or
/// URLs of object stores.
pub fn is_url(location: &str) -> bool {
    has_scheme(location, &["http://", "https://", "hf:"])
}

/// Whether a location is a URL of an object store.
pub fn is_object(location: &str) -> bool {
    has_scheme(location, &["s3://", "gs://", "az://"])
}

fn has_scheme(location: &str, schemes: &[&str]) -> bool {
    let starts_with = |scheme: &str| location.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
    schemes.iter().any(|scheme| starts_with(scheme))
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_urls_from_paths() {
        for url in ["https://host/model.apr", "HTTP://host", "hf:owner/name"] {
            assert!(is_url(url) && !is_object(url), "{url}");
        }
        for store in ["s3://bucket/model.apr", "GS://bucket", "az://container"] {
            assert!(is_object(store) && !is_url(store), "{store}");
        }
        for path in ["model.apr", "/models/https/model.apr", "C:\\models", "hf/model", "", "s3:/x", "ä"] {
            assert!(!is_url(path) && !is_object(path), "{path}");
        }
    }
}
