//! Names of files in paths, URLs and keys of object stores. This is the only mapping between them.
//!
//! | place | example |
//! | --- | --- |
//! | a manifest, a folder, a key | `shards/ü [1].apr` |
//! | a URL | `shards/%C3%BC%20%5B1%5D.apr` |
//! | a folder of the user, on any system | `shards/ü [1].apr`, with `%3A` for `:` |
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
            byte => push_encoded(&mut text, byte),
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

/// The path at which a folder of the user has the file at a URL: the host, then the path of the URL, without its query.
/// A name that is no URL is a path itself. [`decoded`] reverses the encoding of each name in it.
pub fn path_in_folder(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let names: Vec<_> = path.split('/').filter(|name| !name.is_empty()).collect();
    let portable = names.iter().map(|name| portable(&decoded(name).unwrap_or_else(|| (*name).to_owned())));
    let path = portable.collect::<Vec<_>>().join("/");
    if path.is_empty() { "index".to_owned() } else { path }
}

/// Percent-encodes what a name must not have on one of the usual systems, and a dot at its start, which would hide it.
fn portable(name: &str) -> String {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let is_device = DEVICES.iter().any(|device| match device.strip_suffix('#') {
        Some(device) => {
            stem.len() == device.len() + 1 && stem.is_char_boundary(device.len()) && {
                let (start, number) = stem.split_at(device.len());
                start.eq_ignore_ascii_case(device) && number.starts_with(|digit: char| digit.is_ascii_digit())
            }
        }
        None => stem.eq_ignore_ascii_case(device),
    });
    let last = name.chars().count().saturating_sub(1);
    let mut text = String::with_capacity(name.len());
    for (at, character) in name.chars().enumerate() {
        let is_reserved = character.is_control() || RESERVED.contains(character);
        let is_at_end = (at == 0 || at == last) && (character == '.' || character.is_whitespace());
        if is_reserved || is_at_end || (at == 0 && is_device) {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                push_encoded(&mut text, byte);
            }
        } else {
            text.push(character);
        }
    }
    text
}

/// Names of devices of Windows, also with any extension. `#` stands for a digit.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "COM#", "LPT#"];

/// Characters that names must not have on Windows, the separators of paths, and that of the encoding.
const RESERVED: &str = "\"*/:<>?\\|%~";

fn push_encoded(text: &mut String, byte: u8) {
    text.push('%');
    text.extend([byte >> 4, byte & 15].into_iter().filter_map(|digit| DIGITS.get(usize::from(digit))));
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

    #[test]
    fn a_path_in_a_folder_has_names_for_any_system() {
        for (url, path) in [
            ("https://h.co/o/r/resolve/main/m.gguf", "h.co/o/r/resolve/main/m.gguf"),
            ("http://localhost:80/a/%C3%BC%20%5B1%5D.apr?x=/y#z", "localhost%3A80/a/ü [1].apr"),
            ("https://h/a%2Fb/..%5Cc", "h/a%2Fb/%2E.%5Cc"),
            ("https://h/%2e%2e/.git/con/NUL.bin/com1.x/company", "h/%2E%2E/%2Egit/%63on/%4EUL.bin/%63om1.x/company"),
            ("https://h//a.%20/ b", "h/a.%20/%20b"),
            ("https://h/%ff", "h/%25ff"),
            ("whisper/v3", "whisper/v3"),
            (".weightstream/x", "%2Eweightstream/x"),
            ("/", "index"),
        ] {
            assert_eq!(path_in_folder(url), path, "{url}");
        }
    }

    proptest! {
        #[test]
        fn a_name_survives_a_folder(name in ".+") {
            let portable = portable(&name);
            prop_assert!(!portable.contains(['/', '\\', ':']) && !portable.starts_with('.'));
            prop_assert!(!portable.ends_with('.'));
            prop_assert_eq!(decoded(&portable), Some(name));
        }

        #[test]
        fn a_name_survives_its_url(path in ".*") {
            prop_assert_eq!(decoded(&encoded(&path)), Some(path.clone()));
            prop_assert_eq!(decoded(&encoded_segment(&path)), Some(path));
        }
    }
}
