//! The URLs of the other files of a model, from the URL of the file that was opened.

use crate::error::{Error, ErrorKind, Result};
use crate::names;
use std::fmt;
use std::rc::Rc;

/// A separator of folders in an object's name that a URL has as one segment, such as `o/folder%2Ffile`.
const SEPARATOR: &str = "%2F";

/// Which URLs the other files of a model have: those that a manifest names by a path, the other parts of a split model,
/// and the external data of an ONNX model.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum PartUrls {
    /// The URL in the folder of the opened file, with the query of the opened URL: a signature or a token of a folder
    /// is valid for all of its files.
    #[default]
    KeepQuery,
    /// The URL in the folder of the opened file, without a query.
    DropQuery,
    /// What a function returns for the path in the model, and for the URL with the query; `None` for that URL. A
    /// returned URL may be relative to the opened one.
    Map(Rc<MapPartUrl>),
}

/// A function for [`PartUrls::Map`].
pub type MapPartUrl = dyn Fn(&str, &str) -> Result<Option<String>>;

impl PartUrls {
    /// The URL of the file at `path`, in the folder of the file at `url`. `join` parses a URL relative to `url`.
    ///
    /// # Errors
    /// `UNSUPPORTED` if the URL has no folder, as `data:` URLs; `INVALID_ARGUMENT` if the function returns something
    /// else than a URL; those of the function.
    pub(crate) fn url_of<T>(&self, url: &str, path: &str, join: impl Fn(&str) -> Option<T>) -> Result<T> {
        let (mut part, query) = part_url(url, path).ok_or_else(|| unresolved(path))?;
        if !matches!(self, PartUrls::DropQuery) {
            part.push_str(query);
        }
        if let PartUrls::Map(map) = self
            && let Some(mapped) = map(path, &part)?
        {
            return join(&mapped).ok_or_else(|| no_url(&mapped, path));
        }
        join(&part).ok_or_else(|| unresolved(path))
    }
}

impl fmt::Debug for PartUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PartUrls::KeepQuery => "KeepQuery",
            PartUrls::DropQuery => "DropQuery",
            PartUrls::Map(_) => "Map",
        })
    }
}

/// The name of the file at a URL, without folders and not percent-encoded.
pub(crate) fn file_name(url: &str) -> Option<String> {
    let (_, name, _) = divide(url)?;
    Some(names::decoded(name).unwrap_or_else(|| name.to_owned()))
}

/// The error for a file that has no URL.
fn unresolved(path: &str) -> Error {
    let what = format!("the model's file \"{path}\" cannot be resolved relative to this URL");
    Error::new(ErrorKind::Unsupported, what)
}

fn no_url(mapped: &str, path: &str) -> Error {
    let what = format!("`PartUrls::Map` returned \"{mapped}\" for the model's file \"{path}\", which is not a URL");
    let error = Error::new(ErrorKind::InvalidArgument, what);
    error.advise("Return an absolute URL, or one that is relative to the opened URL.")
}

/// The URL of a file without its query, and the query of the opened URL.
fn part_url<'a>(url: &'a str, path: &str) -> Option<(String, &'a str)> {
    let (folder, _, query) = divide(url)?;
    let separator = if folder.ends_with('/') { "/" } else { SEPARATOR };
    let segments: Vec<_> = path.split('/').map(names::encoded_segment).collect();
    Some((format!("{folder}{}", segments.join(separator)), query))
}

/// Divides a URL into that of the folder, with its separator, the encoded name of the file, and the query with its
/// question mark. `None` for a URL without folders.
fn divide(url: &str) -> Option<(&str, &str, &str)> {
    let url = url.split('#').next().unwrap_or(url);
    let (place, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let scheme = place.find("://").filter(|end| place.get(..*end).is_some_and(|scheme| !scheme.contains(':')))?;
    let path = scheme + "://".len();
    let path = path + place.get(path..)?.find('/')?;
    let slash = place.rfind('/').map_or(path, |slash| slash + 1);
    let encoded = |separator: &str| place.get(slash..)?.rfind(separator).map(|at| slash + at + separator.len());
    let start = encoded(SEPARATOR).max(encoded("%2f")).unwrap_or(slash);
    Some((place.get(..start)?, place.get(start..)?, query))
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const URLS: [(&str, &str, &str, &str); 9] = [
        ("https://h/m/x.index.json?sig=a%2Fb", "p.apr", "https://h/m/p.apr?sig=a%2Fb", "x.index.json"),
        ("https://h/m/x.json?a=1?b/c#d?e/f", "s/ü 1.apr", "https://h/m/s/%C3%BC%201.apr?a=1?b/c", "x.json"),
        ("https://h/o/m%2Fx.json?alt=media", "s/p.apr", "https://h/o/m%2Fs%2Fp.apr?alt=media", "x.json"),
        ("https://h/o/a%2fb%2Fx%20y.json", "p#?.apr", "https://h/o/a%2fb%2Fp%23%3F.apr", "x y.json"),
        ("https://h/?key=m", "p.apr", "https://h/p.apr?key=m", ""),
        ("file:///C:/m/x.json", "p.apr", "file:///C:/m/p.apr", "x.json"),
        ("https://h/m/x.json", "%2e%2e%2fa%2Fp.apr", "https://h/m/%252e%252e%252fa%252Fp.apr", "x.json"),
        ("https://h/o/m%2Fx.json", "%2E%2e%5cp.apr", "https://h/o/m%2F%252E%252e%255cp.apr", "x.json"),
        ("https://u:1/x.json#a/b", "a/../b", "https://u:1/a/../b", "x.json"),
    ];

    fn url_of(urls: &PartUrls, url: &str, path: &str) -> Result<String> {
        urls.url_of(url, path, |part| Some(part.to_owned()))
    }

    #[test]
    fn parts_are_in_the_folder_of_the_opened_file() {
        for (url, path, part, name) in URLS {
            assert_eq!(url_of(&PartUrls::KeepQuery, url, path).as_deref(), Ok(part));
            assert_eq!(file_name(url).as_deref(), Some(name), "{url}");
            let without = url_of(&PartUrls::DropQuery, url, path).unwrap();
            assert_eq!(Some(without.as_str()), part.split('?').next());
        }
    }

    #[test]
    fn urls_without_folders_have_no_parts() {
        for url in ["data:,x/y", "blob:https://h/1-2", "data:text/plain,http://h/x", "https://h", "x/y"] {
            assert_eq!(url_of(&PartUrls::default(), url, "p.apr").unwrap_err().code(), "UNSUPPORTED", "{url}");
        }
    }

    #[test]
    fn a_function_sees_the_path_and_the_url() {
        let map = |path: &str, url: &str| Ok((path == "a.apr").then(|| format!("{url}&signed={path}")));
        let urls = PartUrls::Map(Rc::new(map));
        assert_eq!(url_of(&urls, "https://h/m/x.json?k=1", "a.apr").unwrap(), "https://h/m/a.apr?k=1&signed=a.apr");
        assert_eq!(url_of(&urls, "https://h/m/x.json?k=1", "b.apr").unwrap(), "https://h/m/b.apr?k=1");
    }

    #[test]
    fn a_returned_text_that_is_no_url_is_an_invalid_argument() {
        let urls = PartUrls::Map(Rc::new(|_: &str, _: &str| Ok(Some("http://".to_owned()))));
        let error = urls.url_of("https://h/m/x.json", "a.apr", |_| None::<String>).unwrap_err();
        assert_eq!(error.code(), "INVALID_ARGUMENT");
        for part in ["`PartUrls::Map`", "\"http://\"", "\"a.apr\""] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
