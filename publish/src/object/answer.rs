//! The answer of a store in the message of an error. `object_store` has no other public form of it.

use std::fmt;

/// What precedes the status in messages about answers.
const PREFIXES: [&str; 2] = ["Server returned non-2xx status code: ", "Server returned error response: "];

/// The longest message of a store that is shown.
const MAX_MESSAGE_CHARS: usize = 160;

/// An answer that is an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The code of the store, such as `NoSuchBucket`.
    pub(super) code: Option<String>,
    /// What the store says, in one line.
    message: Option<String>,
}

impl Answer {
    /// Parses `Server returned non-2xx status code: 404 Not Found: <?xml …>`.
    pub(super) fn of(reason: &str) -> Option<Answer> {
        let text = PREFIXES.iter().find_map(|prefix| reason.strip_prefix(prefix))?;
        let status = text.get(..3)?.parse().ok()?;
        let body = text.split_once(": ").map_or("", |(_, body)| body);
        let code = element(body, "Code").or_else(|| field(body, "code"));
        Some(Answer { status, code, message: element(body, "Message").or_else(|| field(body, "message")) })
    }
}

/// What the store says, in parentheses after a space, if it says anything. Errors have the status themselves.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, &self.message) {
            (Some(code), Some(message)) => write!(f, " ({code}: {message})"),
            (Some(text), None) | (None, Some(text)) => write!(f, " ({text})"),
            (None, None) => Ok(()),
        }
    }
}

/// The first line of the text of an element of XML, as S3, Google Cloud Storage and Azure send it.
fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    short(rest.split_once(&format!("</{name}>"))?.0)
}

/// The field of an error in JSON, as the newer interface of Google Cloud Storage sends it.
fn field(body: &str, name: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    short(body.pointer(&format!("/error/{name}"))?.as_str()?)
}

/// One line without a period at its end; `None` if nothing is left.
fn short(text: &str) -> Option<String> {
    let line = text.trim().lines().next()?.trim_end_matches(['.', ' ', '\r']);
    (!line.is_empty()).then(|| line.chars().take(MAX_MESSAGE_CHARS).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn shown(reason: &str) -> String {
        Answer::of(reason).unwrap().to_string()
    }

    #[test]
    fn the_code_and_the_message_of_a_store_are_shown_in_one_line() {
        let prefix = "Server returned non-2xx status code: ";
        let s3 = "404 Not Found: <?xml version=\"1.0\"?>\n<Error><Code>NoSuchBucket</Code><Message>The specified \
                  bucket does not exist.</Message><Key>m: 1.apr</Key></Error>";
        assert_eq!(shown(&format!("{prefix}{s3}")), " (NoSuchBucket: The specified bucket does not exist)");
        let azure = "403 Forbidden: \u{feff}<Error><Code>AuthenticationFailed</Code><Message>Server failed to \
                     authenticate.\nRequestId:1\nTime:2</Message></Error>";
        assert_eq!(shown(&format!("{prefix}{azure}")), " (AuthenticationFailed: Server failed to authenticate)");
        let nginx = "413 Payload Too Large: <html>\r\n<head><title>413 Request Entity Too Large</title></head>";
        assert_eq!(shown(&format!("{prefix}{nginx}")), "");
        assert_eq!(shown(&format!("{prefix}507 Insufficient Storage: ")), "");
        let gcs = "401 Unauthorized: {\"error\":{\"code\":401,\"message\":\"Invalid Credentials\"}}";
        assert_eq!(shown(&format!("{prefix}{gcs}")), " (Invalid Credentials)");
    }

    #[test]
    fn failures_without_an_answer_have_none() {
        for reason in ["Connection refused (os error 111)", "", "Server returned non-2xx status code: x"] {
            assert_eq!(Answer::of(reason), None, "{reason}");
        }
    }
}
