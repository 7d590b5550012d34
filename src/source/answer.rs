//! Checks that an HTTP response matches the request, before any byte of its body is used.

use super::RangeResponse;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::status::status_error;
use std::ops::Range;

/// The head of an HTTP response, with the headers that are readable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    /// Status code.
    pub(crate) status: u16,
    /// `Content-Range`; not readable cross-origin unless the server exposes it.
    pub(crate) content_range: Option<String>,
    /// `Content-Length`.
    pub(crate) content_length: Option<u64>,
    /// `Content-Encoding`; not readable cross-origin unless the server exposes it.
    pub(crate) content_encoding: Option<String>,
    /// `Content-Type`.
    pub(crate) content_type: Option<String>,
    /// `ETag`; not readable cross-origin unless the server exposes it.
    pub(crate) etag: Option<String>,
    /// `Last-Modified`.
    pub(crate) last_modified: Option<String>,
    /// `Retry-After` (a number of seconds or a date) in milliseconds from now; not readable cross-origin unless the
    /// server exposes it.
    pub(crate) retry_after_ms: Option<u64>,
}

impl Head {
    /// Whether this is a 206 whose range cannot be determined: it has neither a readable `Content-Range` nor a
    /// `Content-Length` to check instead, or it is a multipart response. The whole file must then be requested.
    pub(crate) fn has_unspecified_range(&self) -> bool {
        self.status == 206
            && (self.has_type(MULTIPART) || (self.content_range.is_none() && self.content_length.is_none()))
    }

    /// Whether the media type is that of a web page.
    pub(crate) fn is_page(&self) -> bool {
        PAGE_TYPES.iter().any(|name| self.has_type(name))
    }

    /// Whether the media type is `name`, with any parameters.
    fn has_type(&self, name: &str) -> bool {
        let content_type = self.content_type.as_deref().unwrap_or_default();
        content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(name))
    }

    /// Whether the body has a content encoding, so that its bytes differ from those of the file.
    pub(crate) fn is_encoded(&self) -> bool {
        let mut encodings = self.content_encoding.as_deref().unwrap_or_default().split(',').map(str::trim);
        let is_known = |encoding: &str| NO_ENCODINGS.iter().any(|name| encoding.eq_ignore_ascii_case(name));
        encodings.any(|encoding| !encoding.is_empty() && !is_known(encoding))
    }

    /// The length of the file that a 416 states.
    pub(crate) fn stated_length(&self) -> Option<u64> {
        let unit = self.content_range.as_deref().filter(|_| self.status == 416).and_then(after_unit)?;
        unit.strip_prefix("*/")?.trim().parse().ok()
    }
}

/// Values of `Content-Encoding` that do not change the bytes: S3 stores `aws-chunked` with uploads, and the others are
/// set by mistake, as names of charsets or transfer encodings.
const NO_ENCODINGS: [&str; 5] = ["identity", "aws-chunked", "none", "utf-8", "binary"];

/// The value of a `Range` header. A range whose end is unknown ends at `u64::MAX`: servers refuse numbers of this size.
pub(crate) fn range_header(range: &Range<u64>) -> String {
    match range.end {
        u64::MAX => format!("bytes={}-", range.start),
        end => format!("bytes={}-{}", range.start, end.saturating_sub(1)),
    }
}

/// Media type of a response with several ranges.
const MULTIPART: &str = "multipart/byteranges";

/// Media types of web pages.
const PAGE_TYPES: [&str; 2] = ["text/html", "application/xhtml+xml"];

/// Checks the head of the response to a request for the range `requested`, and returns the properties of its body.
///
/// # Errors
/// `HTTP` for an unsuccessful status; `TRUNCATED` for 416; `RANGE_UNSUPPORTED` for a 206 with another range, another
/// length or a content encoding (a range of an encoded file cannot be decoded).
pub(crate) fn check<B>(requested: &Range<u64>, head: &Head, body: B) -> Result<RangeResponse<B>> {
    match head.status {
        206 => check_partial(requested, head, body),
        200 => Ok(check_whole(head, body)),
        416 => {
            let length = head.stated_length();
            let what = match length {
                Some(length) => format!("the file has {length} bytes, none of them in the requested range"),
                None => "the file has no bytes in the requested range".to_owned(),
            };
            // An empty range says that the server states an empty file.
            let range = if length == Some(0) { 0..0 } else { requested.clone() };
            Err(Error::new(ErrorKind::Truncated, what).at(range).with_status(416))
        }
        status => Err(status_error(status, head.retry_after_ms)),
    }
}

fn check_partial<B>(requested: &Range<u64>, head: &Head, body: B) -> Result<RangeResponse<B>> {
    let reject = |what: String| {
        let error = Error::new(ErrorKind::RangeUnsupported, what);
        Err(error.at(requested.clone()).with_status(206))
    };
    if head.is_encoded() {
        let encoding = head.content_encoding.as_deref().unwrap_or_default();
        return reject(format!("the server responded to a Range request with Content-Encoding {encoding}"));
    }
    if head.has_unspecified_range() {
        let what = "the server sent an unspecified range of the file: neither Content-Range nor Content-Length is \
                    readable, or the response is multipart";
        return reject(what.to_owned());
    }
    let (sent, file_length) = match &head.content_range {
        Some(value) => match parse_content_range(value) {
            // Some servers repeat the requested end although the file ends before it.
            Some((sent, Some(length))) if sent.end == requested.end && sent.start < length && length < sent.end => {
                (sent.start..length, Some(length))
            }
            Some((sent, length)) if length.is_none_or(|length| sent.end <= length) => (sent, length),
            _ => return reject(format!("the server sent the invalid Content-Range `{value}`")),
        },
        // Not readable cross-origin, unlike Content-Length. A shorter length means that the file ends within the range.
        None => match head.content_length {
            Some(length) if length < requested.end - requested.start => {
                let end = requested.start + length;
                (requested.start..end, Some(end))
            }
            _ => (requested.clone(), None),
        },
    };
    let expected_end = file_length.map_or(requested.end, |length| requested.end.min(length));
    // Some servers, such as that of Vite, read `bytes=0-0` as the whole file. Such a request asks only for the version.
    let is_whole_for_first_byte = *requested == (0..1) && file_length.is_some_and(|length| sent == (0..length));
    // A server may send fewer bytes than requested (RFC 9110, section 15.3.7). The reader requests the rest.
    let is_start = sent.start == requested.start && sent.end <= expected_end;
    if !is_start && !is_whole_for_first_byte {
        return reject(format!("the server sent bytes {} to {} instead of the requested range", sent.start, sent.end));
    }
    if head.content_length.is_some_and(|length| length != sent.end - sent.start) {
        let length = head.content_length.unwrap_or(0);
        return reject(format!("the server sent {length} bytes for a range of {} bytes", sent.end - sent.start));
    }
    let identity = identity(head, file_length);
    let is_page = head.is_page();
    Ok(RangeResponse { end: Some(sent.end), file_length, is_page, identity, ..RangeResponse::new(sent.start, body) })
}

/// The error for a body that is longer than the requested range.
#[cfg(remote)]
pub(super) fn too_long() -> Error {
    let what = "the server sent more bytes than requested";
    Error::new(ErrorKind::RangeUnsupported, what)
        .advise("Serve the file from a host that answers Range requests correctly.")
}

fn check_whole<B>(head: &Head, body: B) -> RangeResponse<B> {
    // The Content-Length of an encoded body is not the length of the file.
    let file_length = if head.is_encoded() { None } else { head.content_length };
    let identity = identity(head, file_length);
    let (end, is_page) = (file_length, head.is_page());
    RangeResponse { end, file_length, is_whole_file: true, is_page, identity, ..RangeResponse::new(0, body) }
}

fn identity(head: &Head, length: Option<u64>) -> Identity {
    let etag = head.etag.clone().filter(|etag| !etag.starts_with("W/"));
    Identity { length, etag, last_modified: head.last_modified.clone() }
}

/// The delay in milliseconds that a hub requests with a `RateLimit` header, such as `"resolvers";r=0;t=120`: `r`
/// requests are left, and their number is reset after `t` seconds.
///
/// Source: <https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/>
#[cfg(any(remote, test))]
pub(crate) fn rate_limit_ms(value: &str) -> Option<u64> {
    let delays = value.split(',').filter_map(|limit| {
        let parameter = |name: &str| {
            let mut pairs = limit.split(';').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| key.trim() == name)?.1.trim().parse::<u64>().ok()
        };
        parameter("t").filter(|_| parameter("r") == Some(0))
    });
    delays.max()?.checked_mul(1000)
}

/// What follows the unit in a `Content-Range` in bytes. Units are case-insensitive.
fn after_unit(value: &str) -> Option<&str> {
    let (unit, rest) = value.trim().split_at_checked(UNIT.len())?;
    unit.eq_ignore_ascii_case(UNIT).then(|| rest.trim_start())
}

/// The unit of ranges of bytes.
const UNIT: &str = "bytes";

/// Parses `bytes first-last/length`, where the length may be `*`. Returns a half-open range, which may end beyond the
/// length.
pub fn parse_content_range(value: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, length) = after_unit(value)?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let length = match length.trim() {
        "*" => None,
        length => Some(length.parse::<u64>().ok()?),
    };
    let end = last.checked_add(1)?;
    (first < end).then_some((first..end, length))
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    fn head(status: u16, content_range: Option<&str>, content_length: Option<u64>) -> Head {
        Head { status, content_range: content_range.map(str::to_owned), content_length, ..Head::default() }
    }

    fn answer(requested: Range<u64>, head: &Head) -> Result<(u64, Option<u64>, Option<u64>)> {
        check(&requested, head, ()).map(|a| (a.start, a.end, a.file_length))
    }

    #[test]
    fn an_exhausted_rate_limit_states_the_delay() {
        assert_eq!(rate_limit_ms(r#""resolvers";r=0;t=120"#), Some(120_000));
        assert_eq!(rate_limit_ms(r#""api";r=7;t=3, "resolvers"; r=0; t=5"#), Some(5_000));
        for value in ["", r#""api";r=1;t=9"#, r#""api";r=0"#, r#""api";r=0;t=-1"#, "garbage"] {
            assert_eq!(rate_limit_ms(value), None, "{value}");
        }
    }

    #[test]
    fn accepts_the_requested_range() {
        assert_eq!(answer(10..20, &head(206, Some("bytes 10-19/100"), Some(10))), Ok((10, Some(20), Some(100))));
        assert_eq!(answer(10..20, &head(206, Some("bytes 10-19/*"), None)), Ok((10, Some(20), None)));
    }

    #[test]
    fn accepts_the_start_of_the_range() {
        assert_eq!(answer(90..120, &head(206, Some("bytes 90-99/100"), Some(10))), Ok((90, Some(100), Some(100))));
        assert_eq!(answer(10..20, &head(206, Some("bytes 10-18/100"), Some(9))), Ok((10, Some(19), Some(100))));
        assert!(answer(10..20, &head(206, Some("bytes 10-18/100"), Some(10))).is_err(), "another length");
    }

    #[test]
    fn the_requested_end_may_be_repeated_beyond_the_end_of_the_file() {
        let head = head(206, Some("bytes 0-65535/1272"), Some(1272));
        assert_eq!(answer(0..65_536, &head), Ok((0, Some(1272), Some(1272))));
        assert!(answer(0..65_537, &head).is_err(), "an end that was not requested");
    }

    #[test]
    fn units_are_case_insensitive() {
        assert_eq!(answer(10..20, &head(206, Some("Bytes 10-19/100"), Some(10))), Ok((10, Some(20), Some(100))));
        assert_eq!(head(416, Some("BYTES */7"), None).stated_length(), Some(7));
    }

    #[test]
    fn an_unknown_end_is_left_open() {
        assert_eq!((range_header(&(5..10)), range_header(&(5..u64::MAX))), ("bytes=5-9".into(), "bytes=5-".into()));
        assert_eq!(answer(5..u64::MAX, &head(206, Some("bytes 5-9/10"), Some(5))), Ok((5, Some(10), Some(10))));
    }

    #[test]
    fn names_that_are_no_content_encodings_are_ignored() {
        for encoding in ["identity", "Identity", "", " ", "aws-chunked", "none", "utf-8", "UTF-8", "binary"] {
            let plain =
                Head { content_encoding: Some(encoding.into()), ..head(206, Some("bytes 10-19/100"), Some(10)) };
            assert_eq!(answer(10..20, &plain), Ok((10, Some(20), Some(100))), "{encoding}");
        }
        for encoding in ["gzip", "br", "aws-chunked,gzip", "zstd, identity"] {
            let encoded = Head { content_encoding: Some(encoding.into()), ..head(206, Some("bytes 10-19/100"), None) };
            assert_eq!(answer(10..20, &encoded).unwrap_err().kind, ErrorKind::RangeUnsupported, "{encoding}");
        }
    }

    #[test]
    fn rejects_another_range() {
        for range in [
            "bytes 11-20/100",
            "bytes 10-20/100",
            "bytes 0-9/100",
            "items 10-19/100",
            "bytes 10-18/15",
            "bytes 19-10/100",
            "",
        ] {
            let error = answer(10..20, &head(206, Some(range), None)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::RangeUnsupported, "{range}");
        }
        assert!(answer(10..20, &head(206, Some("bytes 10-19/100"), Some(11))).is_err());
    }

    #[test]
    fn accepts_the_whole_file_for_its_first_byte() {
        assert_eq!(answer(0..1, &head(206, Some("bytes 0-99/100"), Some(100))), Ok((0, Some(100), Some(100))));
        assert!(answer(0..1, &head(206, Some("bytes 0-98/100"), Some(99))).is_err());
        assert!(answer(0..1, &head(206, Some("bytes 0-99/*"), Some(100))).is_err());
        assert!(answer(0..2, &head(206, Some("bytes 0-99/100"), Some(100))).is_err());
    }

    #[test]
    fn without_content_range_the_content_length_is_checked() {
        assert_eq!(answer(10..20, &head(206, None, Some(10))), Ok((10, Some(20), None)));
        assert_eq!(answer(10..20, &head(206, None, Some(3))), Ok((10, Some(13), Some(13))));
        assert!(answer(10..20, &head(206, None, Some(11))).is_err());
    }

    #[test]
    fn rejects_a_206_with_an_unspecified_range() {
        let refused = |head: &Head| answer(10..20, head).unwrap_err().kind == ErrorKind::RangeUnsupported;
        assert!(refused(&head(206, None, None)));
        for kind in ["multipart/byteranges; boundary=x", " Multipart/ByteRanges;boundary=x"] {
            let parts = Head { content_type: Some(kind.to_owned()), ..head(206, Some("bytes 10-19/100"), Some(10)) };
            assert!(refused(&parts) && refused(&Head { content_range: None, ..parts.clone() }));
        }
        let plain = Head { content_type: Some("application/octet-stream".to_owned()), ..head(206, None, Some(10)) };
        assert!(answer(10..20, &plain).is_ok());
    }

    #[test]
    fn a_200_is_always_the_whole_file() {
        assert_eq!(answer(10..20, &head(200, None, Some(10))), Ok((0, Some(10), Some(10))));
    }

    #[test]
    fn the_length_of_an_encoded_body_is_not_the_file_length() {
        let mut gzipped = head(200, None, Some(10));
        gzipped.content_encoding = Some("gzip".into());
        assert_eq!(answer(0..20, &gzipped), Ok((0, None, None)));
        gzipped.status = 206;
        assert_eq!(answer(0..20, &gzipped).unwrap_err().kind, ErrorKind::RangeUnsupported);
    }

    #[test]
    fn an_unsuccessful_status_is_an_error() {
        for status in [204, 301, 403, 404, 500] {
            let error = answer(0..20, &head(status, None, None)).unwrap_err();
            assert_eq!((error.kind, error.is_transient), (ErrorKind::Http, status == 500));
        }
        assert_eq!(answer(0..20, &head(416, Some("bytes */7"), None)).unwrap_err().kind, ErrorKind::Truncated);
    }

    #[test]
    fn a_version_is_confirmed_only_by_etag_or_last_modified() {
        let cached = Identity { length: Some(5), etag: Some("\"a\"".into()), last_modified: Some("Monday".into()) };
        assert!(cached.is_confirmed_by(&cached));
        let now = |length, etag: Option<&str>, last_modified: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            cached.is_confirmed_by(&Identity { length, etag: text(etag), last_modified: text(last_modified) })
        };
        assert!(now(None, Some("\"a\""), None) && now(None, None, Some("Monday")));
        assert!(!now(Some(5), None, None), "an equal length confirms nothing");
        assert!(!now(Some(6), Some("\"a\""), None) && !now(None, Some("\"b\""), Some("Monday")));
        assert!(!now(Some(5), None, Some("Tuesday")));
    }

    #[test]
    fn another_length_or_etag_means_a_change() {
        let identity =
            |length, etag: Option<&str>| Identity { length, etag: etag.map(str::to_owned), last_modified: None };
        let first = identity(Some(5), Some("\"a\""));
        assert_eq!(identity(Some(5), Some("\"a\"")).change_since(&first), None);
        assert_eq!(identity(None, None).change_since(&first), None);
        assert!(identity(Some(6), Some("\"a\"")).change_since(&first).is_some());
        assert!(identity(Some(5), Some("\"b\"")).change_since(&first).is_some());
    }
}
