//! Names of files in paths, URLs and keys of object stores. This is the only mapping between them.
//!
//! | place | example |
//! | --- | --- |
//! | a manifest, a folder, a key | `shards/ü [1].apr` |
//! | a URL | `shards/%C3%BC%20%5B1%5D.apr` |
//!
//! Paths have slashes and are not encoded. In URLs, all but the unreserved characters of RFC 3986, section 2.3, are
//! percent-encoded, so that no character of a name is taken for a query, a fragment or a port.

const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];

/// Percent-encodes a path, except for its slashes.
pub fn encoded(path: &str) -> String {
    path.split('/').map(encoded_segment).collect::<Vec<_>>().join("/")
}

/// Percent-encodes a name or another text, including its slashes.
pub fn encoded_segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => {
                text.push('%');
                text.extend([byte >> 4, byte & 15].into_iter().filter_map(|digit| DIGITS.get(usize::from(digit))));
            }
        }
    }
    text
}

/// Decodes a percent-encoded path or name. `%` without two digits stays as it is, as in browsers. `None` if the result
/// is not UTF-8.
pub fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4 | low, after))
            }
            _ => None,
        };
        let (byte, after) = escaped.unwrap_or((first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// The path of the file at a URL, relative to the folder of the file at the URL `beside`, or to the folder `beside` if
/// it ends with a slash. `None` if it is not below this folder. An encoded slash in the rest separates folders, too.
pub fn path_below(beside: &str, url: &str) -> Option<String> {
    let plain = |url| str::split(url, ['?', '#']).next();
    let beside = plain(beside)?;
    let path = plain(url)?.strip_prefix(beside.get(..=beside.rfind('/')?)?)?;
    let is_below = |path: &String| !path.split('/').any(|name| matches!(name, "" | "." | ".."));
    decoded(path).filter(is_below)
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(all(test, native))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encodes_all_but_unreserved_characters() {
        assert_eq!(encoded("a/ü [1].apr"), "a/%C3%BC%20%5B1%5D.apr");
        assert_eq!(encoded("~a-b_c.d"), "~a-b_c.d");
        assert_eq!(encoded("#%?*{}:+&\\"), "%23%25%3F%2A%7B%7D%3A%2B%26%5C");
        assert_eq!(encoded_segment("refs/pr/1"), "refs%2Fpr%2F1");
    }

    #[test]
    fn decodes_what_browsers_decode() {
        assert_eq!(decoded("%5b%5B%c3%bc+%2").as_deref(), Some("[[ü+%2"));
        assert_eq!(decoded("%zz%").as_deref(), Some("%zz%"));
        assert_eq!(decoded("%ff"), None);
    }

    #[test]
    fn a_path_below_a_folder_does_not_leave_it() {
        for (beside, url, path) in [
            ("https://h/m/model.sig", "https://h/m/x.apr", Some("x.apr")),
            ("https://h/m/model.sig?a=/b#/c", "https://h/m/s/%C3%BC%201.apr?sig=1/2#3", Some("s/ü 1.apr")),
            ("https://h/m/", "https://h/m/100%.apr", Some("100%.apr")),
            ("https://h/m/", "https://h/m/%252e%252e%252fx", Some("%2e%2e%2fx")),
            ("https://h/m/", "https://h/m/a%2Fb%2fc.apr", Some("a/b/c.apr")),
            ("https://h/m/", "https://h/m/a%2F..%2F..%2Fb", None),
            ("https://h/m/", "https://h/m/%2Fa", None),
            ("https://h/m/", "https://h/m/%2e%2e%2fx.apr", None),
            ("https://h/m/", "https://h/m/%2E%2E/x.apr", None),
            ("https://h/m/", "https://h/m/../x.apr", None),
            ("https://h/m/", "https://h/m/a/./b", None),
            ("https://h/m/", "https://h/m//x.apr", None),
            ("https://h/m/", "https://h/m/%ff", None),
            ("https://h/m/", "https://h/m/", None),
            ("https://h/m/", "https://h/n/x.apr", None),
            ("https://h/m/", "https://other/m/x.apr", None),
        ] {
            assert_eq!(path_below(beside, url).as_deref(), path, "{url}");
        }
    }

    proptest! {
        #[test]
        fn a_name_survives_its_url(path in ".*") {
            prop_assert_eq!(decoded(&encoded(&path)), Some(path.clone()));
            prop_assert_eq!(decoded(&encoded_segment(&path)), Some(path));
        }
    }
}
