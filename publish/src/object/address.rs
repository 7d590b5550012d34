//! The URL of an object: the store that it belongs to, and the key in this store.

use object_store::ObjectStoreScheme;
use object_store::path::{Path as ObjectPath, PathPart};
use reqwest::Url;
use weightstream::internals::names;
use weightstream::{Error, ErrorKind, Result};

/// A URL, divided into its parts.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) scheme: ObjectStoreScheme,
    pub(super) url: Url,
    /// The URL of the store, which precedes the key, without a slash at its end.
    pub(super) base: Url,
    pub(super) key: ObjectPath,
}

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a URL of no store, one with a query, a fragment or a password, and for a path that no
    /// object can have.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let url = checked(text)?;
        let refuse = |what: &str| Error::new(ErrorKind::InvalidArgument, what).in_file(url.as_str());
        let (scheme, _) = ObjectStoreScheme::parse(&without_path(&url)).map_err(|_| {
            let known = "It must begin with s3://, gs://, az://, https:// or http://.";
            refuse("this URL is not of a store").advise(known)
        })?;
        let invalid = |error: String| refuse(&format!("no object can have this path ({error})"));
        let (base, key) = match scheme {
            ObjectStoreScheme::Http => split(&url).map_err(invalid)?,
            _ => {
                let path = |error: object_store::path::Error| invalid(error.to_string());
                let whole = ObjectPath::from_url_path(url.path()).map_err(path)?;
                let (_, key) = ObjectStoreScheme::parse(&url).map_err(|error| invalid(error.to_string()))?;
                // The path of some URLs begins with the bucket.
                let bucket = whole.parts_count().saturating_sub(key.parts_count());
                (with_segments(&without_path(&url), segments(&url).into_iter().take(bucket)), key)
            }
        };
        Ok(Address { scheme, url, base, key })
    }
}

/// Divides a URL into that of a folder, with a slash at its end, and the name of a file. The name is `None` if the
/// whole URL is that of a folder, because the last segment is no name that `is_file` accepts.
///
/// # Errors
/// Those of [`Address::parse`]; `INVALID_ARGUMENT` for a file name with an encoded slash.
pub(crate) fn split_name(text: &str, is_file: impl Fn(&str) -> bool) -> Result<(String, Option<String>)> {
    let mut folder = checked(text)?;
    let last = folder.path_segments().and_then(|mut all| all.next_back()).unwrap_or_default();
    let name = names::decoded(last).filter(|name| is_file(name));
    if name.as_deref().is_some_and(|name| !is_name(name)) {
        let what = "the last segment of the URL is not the name of a file";
        return Err(Error::new(ErrorKind::InvalidArgument, what).in_file(folder.as_str()));
    }
    if let Ok(mut segments) = folder.path_segments_mut() {
        match name {
            Some(_) => segments.pop().push(""),
            None => segments.pop_if_empty().push(""),
        };
    }
    Ok((folder.into(), name))
}

/// Appends a path below `folder`, as a manifest states it.
///
/// # Errors
/// `INVALID_ARGUMENT` for characters that no key can have.
pub(crate) fn key_of(folder: &ObjectPath, path: &str) -> Result<ObjectPath> {
    let below = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).map(str::to_owned);
    let segments = folder.parts().map(|part| part.as_ref().to_owned()).chain(below).collect::<Vec<_>>();
    ObjectPath::parse(segments.join("/")).map_err(|error| {
        let what = format!("a store cannot have a file with this name ({error})");
        Error::new(ErrorKind::InvalidArgument, what).in_file(path)
    })
}

/// Whether two URLs have the same scheme, host and port.
pub(crate) fn is_same_origin(one: &str, other: &str) -> bool {
    matches!((Url::parse(one), Url::parse(other)), (Ok(one), Ok(other)) if one.origin() == other.origin())
}

/// Parses a URL without secrets: error messages contain it.
fn checked(text: &str) -> Result<Url> {
    let refuse = |what: &str| Error::new(ErrorKind::InvalidArgument, what);
    let mut url = Url::parse(text).map_err(|_| refuse("this is not a URL").in_file(text))?;
    if url.password().is_some() {
        let error = refuse("the URL contains a password");
        return Err(error.advise("Remove it from the URL and send it as a header."));
    }
    if url.query().is_some() || url.fragment().is_some() {
        url.set_query(None);
        url.set_fragment(None);
        let error = refuse("the URL has a query or a fragment, and each file of a model needs a URL of its own");
        return Err(error.advise("Remove it; credentials can be sent as a header.").in_file(url.as_str()));
    }
    Ok(url)
}

/// Divides an http URL. The key has the segments at the end of the path that [`names`] encodes in the same way. What
/// precedes them is requested as it was given: an encoded slash, for example, is not a slash.
fn split(url: &Url) -> std::result::Result<(Url, ObjectPath), String> {
    let mut segments = segments(url);
    let name = segments.pop().filter(|name| !name.is_empty());
    let is_kept = |segment: &str| {
        names::decoded(segment).is_some_and(|name| is_name(&name) && names::encoded_segment(&name) == segment)
    };
    let start = segments.iter().rposition(|segment| !is_kept(segment)).map_or(0, |last| last + 1);
    let (before, folder) = segments.split_at_checked(start).unwrap_or_default();
    let mut base = without_path(url);
    if !before.is_empty() {
        base.set_path(&format!("/{}", before.join("/")));
    }
    let key = folder.iter().copied().chain(name).map(|segment| names::decoded(segment).filter(|name| is_name(name)));
    let key = key.collect::<Option<Vec<_>>>().ok_or("a segment is not a file name in UTF-8")?;
    Ok((base, ObjectPath::parse(key.join("/")).map_err(|error| error.to_string())?))
}

/// The encoded segments of the path. The last one is empty if the path ends with a slash.
fn segments(url: &Url) -> Vec<&str> {
    url.path().strip_prefix('/').map(|path| path.split('/').collect()).unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && PathPart::parse(name).is_ok()
}

fn without_path(url: &Url) -> Url {
    let mut origin = url.clone();
    origin.set_path("");
    origin
}

/// Appends segments, which are encoded.
fn with_segments<'a>(url: &Url, segments: impl IntoIterator<Item = &'a str>) -> Url {
    let mut url = url.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (String, String) {
        let Address { base, key, .. } = Address::parse(url).unwrap();
        (base.into(), key.into())
    }

    #[test]
    fn the_store_of_a_url_has_its_host_and_port() {
        for (url, base, key) in [
            ("http://127.0.0.1:18181", "http://127.0.0.1:18181/", ""),
            ("http://127.0.0.1:18181/", "http://127.0.0.1:18181/", ""),
            ("https://example.com", "https://example.com/", ""),
            ("https://example.com/m", "https://example.com/", "m"),
            ("HTTPS://EXAMPLE.com:443/a b/ü/~m[1]{2}%2A.apr", "https://example.com/", "a b/ü/~m[1]{2}*.apr"),
            ("http://h:8080/a%20b/%C3%BC/m.apr", "http://h:8080/", "a b/ü/m.apr"),
            ("http://[::1]:9/x", "http://[::1]:9/", "x"),
            ("https:\\\\h\\x/../y/", "https://h/", "y"),
            ("s3://bucket", "s3://bucket", ""),
            ("s3://bucket/a b/ü#".trim_end_matches('#'), "s3://bucket", "a b/ü"),
            ("gs://bucket/a%25b/c", "gs://bucket", "a%b/c"),
            ("az://container/x/", "az://container", "x"),
            ("https://s3.eu-west-1.amazonaws.com/bucket/x/y", "https://s3.eu-west-1.amazonaws.com/bucket", "x/y"),
            ("https://a.blob.core.windows.net/c/x", "https://a.blob.core.windows.net/c", "x"),
        ] {
            assert_eq!(parsed(url), (base.to_owned(), key.to_owned()), "{url}");
        }
    }

    #[test]
    fn escapes_that_a_client_would_write_differently_are_kept() {
        for (url, base, key) in [
            ("https://h/api/group%2Fname/generic/m.apr", "https://h/api/group%2Fname", "generic/m.apr"),
            ("https://h/a//b/", "https://h/a/", "b"),
            ("https://h/a%2bb/c/", "https://h/a%2bb", "c"),
            ("https://h/%FF/c", "https://h/%FF", "c"),
            ("https://h/a[1]/c/m[1].apr", "https://h/a[1]", "c/m[1].apr"),
        ] {
            assert_eq!(parsed(url), (base.to_owned(), key.to_owned()), "{url}");
        }
    }

    #[test]
    fn the_last_segment_is_a_name() {
        let is_file = |name: &str| name.ends_with(".apr");
        let split = |url: &str| split_name(url, is_file).unwrap();
        let named = |folder: &str, name: &str| (folder.to_owned(), Some(name.to_owned()));
        assert_eq!(split("https://h/a%2Fb/m%20%5B1%5D.apr"), named("https://h/a%2Fb/", "m [1].apr"));
        assert_eq!(split("s3://bucket/m.apr"), named("s3://bucket/", "m.apr"));
        let folder = |folder: &str| (folder.to_owned(), None);
        assert_eq!(split("https://m.apr"), folder("https://m.apr/"));
        assert_eq!(split("s3://m.apr"), folder("s3://m.apr/"));
        assert_eq!(split("https://h/a"), folder("https://h/a/"));
        assert_eq!(split("https://h/g%2Fp"), folder("https://h/g%2Fp/"));
        assert_eq!(split("https://h/a/"), folder("https://h/a/"));
        assert!(
            split_name("https://h/a%2Fm.apr", is_file).is_err() && split_name("https://h/%00.apr", is_file).is_err()
        );
    }

    #[test]
    fn keys_are_names_as_they_are() {
        let folder = ObjectPath::parse("a%b").unwrap();
        for name in ["~[]{}#%?*'\"<>|^`.apr", "%2e%2e.apr", "ü é.apr", "shards/ü+&=:@.apr"] {
            let key = key_of(&folder, name).unwrap();
            assert_eq!(key.as_ref(), format!("a%b/{name}"));
        }
        assert_eq!(key_of(&ObjectPath::ROOT, "./a//b").unwrap().as_ref(), "a/b");
        assert!(key_of(&folder, "../a").is_err() && key_of(&folder, "a\nb").is_err());
    }

    #[test]
    fn origins_have_a_scheme_a_host_and_a_port() {
        assert!(is_same_origin("https://h/a", "HTTPS://H:443/b/c"));
        for other in ["http://h/a", "https://h:444/a", "https://h.example/a", "https://h@example/a", "s3://h/a", "a"] {
            assert!(!is_same_origin("https://h/a", other), "{other}");
        }
        assert!(!is_same_origin("s3://h/a", "s3://h/a"), "buckets have no origin");
    }
}
