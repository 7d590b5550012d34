//! Cache keys: the URL of the file without an expiring signature, and a hash of the credentials if the requests carry
//! any.
//!
//! | requests | key |
//! | --- | --- |
//! | without credentials | the name |
//! | with credentials | 32 hexadecimal digits, a tab, the name |
//!
//! The name is the result of the caller's `cacheKey`, or else of [`name_of_url`]. It contains no control character, so
//! that no name can be mistaken for a key with credentials.

use sha2::{Digest, Sha256};

/// Separates the hash of the credentials from the name.
const SEPARATOR: char = '\t';

/// Half of a SHA-256 digest: long enough to make a collision of two sets of headers infeasible.
const PARTITION_BYTES: usize = 16;

/// Maximum length of a name. A longer one would not fit into the description of a cached file.
const MAX_NAME_BYTES: usize = 32 << 10;

/// The parameters that one service adds to a URL to sign it.
struct Signature {
    /// All of these parameters must be present.
    markers: &'static [&'static str],
    is_part: fn(&str) -> bool,
}

const SIGNATURES: [Signature; 6] = [
    // Amazon S3 and compatible stores, version 4 and version 2
    Signature { markers: &["X-Amz-Signature"], is_part: |name| has_prefix(name, "X-Amz-") },
    Signature {
        markers: &["AWSAccessKeyId", "Signature", "Expires"],
        is_part: |name| {
            ["AWSAccessKeyId", "Signature", "Expires"].contains(&name) || has_prefix(name, "x-amz-security-token")
        },
    },
    // Google Cloud Storage, version 4 and version 2
    Signature { markers: &["X-Goog-Signature"], is_part: |name| has_prefix(name, "X-Goog-") },
    Signature {
        markers: &["GoogleAccessId", "Signature", "Expires"],
        is_part: |name| ["GoogleAccessId", "Signature", "Expires"].contains(&name),
    },
    // Azure Storage. `rscd` and similar parameters are not part of the signature: they change the response.
    Signature { markers: &["sig", "sv"], is_part: |name| AZURE.contains(&name) },
    // CloudFront, with a canned or a custom policy
    Signature {
        markers: &["Key-Pair-Id", "Signature"],
        is_part: |name| ["Expires", "Policy", "Signature", "Key-Pair-Id", "Hash-Algorithm"].contains(&name),
    },
];

const AZURE: [&str; 24] = [
    "sv", "sig", "se", "sp", "st", "sr", "spr", "si", "sip", "ss", "srt", "sdd", "ses", "skoid", "sktid", "skt", "ske",
    "sks", "skv", "saoid", "suoid", "scid", "skdutid", "sduoid",
];

/// The name of the file at an absolute URL: the URL without its fragment, which is not requested, and without the
/// parameters of a known expiring signature. All other parameters stay, in their order.
pub(crate) fn name_of_url(url: &str) -> String {
    let address = without_fragment(url);
    let Some((path, query)) = address.split_once('?') else { return address.to_owned() };
    let parameters: Vec<&str> = query.split('&').collect();
    let has = |marker: &&str| parameters.iter().any(|parameter| name_of(parameter).eq_ignore_ascii_case(marker));
    let found: Vec<_> = SIGNATURES.iter().filter(|signature| signature.markers.iter().all(has)).collect();
    if found.is_empty() {
        return address.to_owned();
    }
    let is_kept = |parameter: &&str| !found.iter().any(|signature| (signature.is_part)(name_of(parameter)));
    let kept: Vec<&str> = parameters.iter().copied().filter(is_kept).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

/// The URL that is requested.
pub(crate) fn without_fragment(url: &str) -> &str {
    url.split_once('#').map_or(url, |(address, _)| address)
}

/// A hash of the credentials of the requests: the headers, and whether the browser sends cookies to other origins.
/// `None` if there are neither. As in HTTP, the order of the headers and the case of their names do not matter.
pub(crate) fn partition(headers: &[(String, String)], includes_cookies: bool) -> Option<String> {
    if headers.is_empty() && !includes_cookies {
        return None;
    }
    let mut sent: Vec<(String, &str)> = Vec::new();
    for (name, value) in headers {
        let header = (name.to_ascii_lowercase(), value.trim());
        let place = sent.partition_point(|other| *other < header);
        sent.insert(place, header); // there are few headers, and a sort would add code size
    }
    let mut hasher = Sha256::new();
    hasher.update([u8::from(includes_cookies)]);
    for text in sent.iter().flat_map(|(name, value)| [name.as_str(), value]) {
        hasher.update((text.len() as u64).to_le_bytes()); // makes the encoding of the list unambiguous
        hasher.update(text);
    }
    let hash = hasher.finalize();
    let hash = hash.get(..PARTITION_BYTES).unwrap_or(&hash);
    Some(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The key of the file with this name.
pub(crate) fn join(partition: Option<&str>, name: &str) -> String {
    match partition {
        Some(partition) => format!("{partition}{SEPARATOR}{name}"),
        None => name.to_owned(),
    }
}

/// Returns the name in a key.
pub(crate) fn name_in(key: &str) -> &str {
    key.split_once(SEPARATOR).map_or(key, |(_, name)| name)
}

/// Whether a file can be cached under this name.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(char::is_control)
}

fn name_of(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    const FILE: &str = "https://bucket.test/a/model.safetensors";

    #[test]
    fn name_of_url_removes_only_the_signature() {
        let signed = [
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2Fs3&X-Amz-Date=1&X-Amz-Expires=9&X-Amz-Signature=ab",
            "AWSAccessKeyId=A&Expires=1700000000&Signature=a%3D",
            "X-Goog-Algorithm=GOOG4&X-Goog-Credential=c&X-Goog-Date=1&X-Goog-Expires=9&X-Goog-Signature=ab",
            "GoogleAccessId=me%40test&Expires=1&Signature=ab",
            "sv=2024-11-04&st=1&se=2&sr=b&sp=r&sig=ab%3D&skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=2024",
            "Expires=1&Signature=ab&Key-Pair-Id=K",
            "Policy=p&Signature=ab&Key-Pair-Id=K&Hash-Algorithm=SHA256",
        ];
        for signature in signed {
            assert_eq!(name_of_url(&format!("{FILE}?{signature}")), FILE, "{signature}");
            let among_others = format!("{FILE}?versionId=3&{signature}&x=#part");
            assert_eq!(name_of_url(&among_others), format!("{FILE}?versionId=3&x="), "{signature}");
        }
    }

    #[test]
    fn name_of_url_keeps_other_parameters() {
        for query in
            ["sv=1&se=2", "sig=1", "Expires=1&Signature=2", "Policy=p&Expires=1", "X-Amz-Date=1", "se", "", "rscd=1"]
        {
            let url = format!("{FILE}?{query}");
            assert_eq!(name_of_url(&url), url);
        }
        assert_eq!(name_of_url(FILE), FILE);
    }

    #[test]
    fn a_fragment_is_not_part_of_a_name() {
        for url in [FILE.to_owned(), format!("{FILE}?a=1")] {
            for fragment in ["#", "#part", "#a?b=1&sig=2#c"] {
                assert_eq!(name_of_url(&format!("{url}{fragment}")), url);
            }
        }
    }

    #[test]
    fn different_credentials_have_different_partitions() {
        let headers = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let one = partition(&headers(&[("Authorization", "Bearer a"), ("X-Key", "b")]), false);
        assert_eq!(one, partition(&headers(&[("x-key", "b"), ("authorization", "Bearer a ")]), false));
        let others = [
            partition(&headers(&[("Authorization", "Bearer b"), ("X-Key", "b")]), false),
            partition(&headers(&[("Authorization", "Bearer a"), ("X-Key", "b")]), true),
            partition(&headers(&[("Authorization", "Bearer a")]), false),
            partition(&headers(&[("Authorization", "Bearer aX-Key"), ("b", "")]), false),
            partition(&[], true),
            partition(&[], false),
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(&one, other);
            assert!(!others.iter().skip(at + 1).any(|next| next == other));
        }
        assert_eq!(partition(&[], false), None);
    }

    #[test]
    fn a_name_is_never_a_key_with_credentials() {
        let key = join(Some("0123"), FILE);
        assert_eq!((name_in(&key), name_in(FILE)), (FILE, FILE));
        assert!(is_name(FILE) && !is_name(&key) && !is_name("") && !is_name("a\nb"));
    }
}
