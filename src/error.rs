//! What can go wrong, said so that a reader knows what it was, where, and what to do.

use std::fmt;
use std::ops::Range;

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which kind of fault it is. [`ErrorKind::code`] is what JavaScript sees as `LoadError.code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No answer came, or the connection broke.
    Network,
    /// The server answered with a status that is no success.
    Http,
    /// The server's answer to a Range request is neither that range nor the whole file.
    RangeUnsupported,
    /// The file is not the one that the load began with.
    Changed,
    /// The file, or an answer, ends before it should.
    Truncated,
    /// The bytes do not have the checksum that the model states.
    Checksum,
    /// The bytes break the rules of their format.
    Format,
    /// A size goes beyond what the loader is willing or able to hold.
    Limit,
    /// The format, or a feature of it, that this version does not read.
    Unsupported,
    /// No such tensor or file.
    NotFound,
    /// The caller asked for something impossible.
    InvalidArgument,
    /// The loader was closed.
    Closed,
    /// The operating system refused a read or a write.
    Io,
    /// A fault of weightstream itself.
    Internal,
}

impl ErrorKind {
    /// The stable code of this kind, as JavaScript and the CLI's JSON spell it.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::Network => "NETWORK",
            ErrorKind::Http => "HTTP",
            ErrorKind::RangeUnsupported => "RANGE_UNSUPPORTED",
            ErrorKind::Changed => "CHANGED",
            ErrorKind::Truncated => "TRUNCATED",
            ErrorKind::Checksum => "CHECKSUM",
            ErrorKind::Format => "FORMAT",
            ErrorKind::Limit => "LIMIT",
            ErrorKind::Unsupported => "UNSUPPORTED",
            ErrorKind::NotFound => "NOT_FOUND",
            ErrorKind::InvalidArgument => "INVALID_ARGUMENT",
            ErrorKind::Closed => "CLOSED",
            ErrorKind::Io => "IO",
            ErrorKind::Internal => "INTERNAL",
        }
    }

    /// What to do about it, where the place that raised the error had nothing more exact to say.
    fn advice(self) -> &'static str {
        match self {
            ErrorKind::Network => {
                "Check the connection and whether the server allows this origin (CORS), then try again."
            }
            ErrorKind::Http => "Check the URL and the permission to read it.",
            ErrorKind::RangeUnsupported => {
                "Serve the file from a host that answers Range requests as HTTP defines them."
            }
            ErrorKind::Changed => "Open the model again to load its new version.",
            ErrorKind::Truncated => "The file was probably not copied or uploaded whole: replace it.",
            ErrorKind::Checksum => "The bytes were damaged on the way or in storage: fetch or upload the file again.",
            ErrorKind::Format => "The file is damaged or was written by a faulty tool: make it again.",
            ErrorKind::Limit => {
                "The file is damaged, or made to do harm; if you know it to be neither, please report it."
            }
            ErrorKind::Unsupported => "Convert the model to a format that weightstream reads.",
            ErrorKind::NotFound => "Check the spelling; the index lists what there is.",
            ErrorKind::InvalidArgument => "Correct the call.",
            ErrorKind::Closed => "Open a new loader.",
            ErrorKind::Io => "Check the path, the permissions and the space on the disk.",
            ErrorKind::Internal => "Please report it with the file that caused it.",
        }
    }
}

/// One error: its kind, what was wrong, and where.
///
/// The places (`url`, `tensor`, `range`, `status`) are filled in by whoever knows them as the error
/// passes: the parser knows the bytes, the loader the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// The kind of fault.
    pub kind: ErrorKind,
    /// What was wrong, as half a sentence.
    pub what: String,
    /// Whether it may pass: the same request can succeed a little later.
    pub is_transient: bool,
    /// Where it was.
    pub place: Box<Place>,
}

/// Where an error happened, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Place {
    /// The URL or path of the file.
    pub url: Option<String>,
    /// The tensor concerned.
    pub tensor: Option<String>,
    /// The bytes of the file that it is about, half-open.
    pub range: Option<Range<u64>>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// How long the server asked to wait before the next request.
    pub retry_after_ms: Option<u64>,
    /// What to do, where it is more exact than the kind's general advice.
    pub advice: Option<String>,
    /// The JavaScript exception behind it.
    #[cfg(target_arch = "wasm32")]
    pub cause: Option<wasm_bindgen::JsValue>,
}

impl Error {
    /// An error of `kind`; `what` says what was wrong, in half a sentence without a full stop.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into(), is_transient: false, place: Box::default() }
    }

    /// Adds the file, unless it is known already.
    #[must_use]
    pub fn in_file(mut self, url: &str) -> Self {
        self.place.url.get_or_insert_with(|| url.to_owned());
        self
    }

    /// Adds the tensor, unless it is known already.
    #[must_use]
    pub fn in_tensor(mut self, name: &str) -> Self {
        self.place.tensor.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Adds the bytes of the file, unless they are known already.
    #[must_use]
    pub fn at(mut self, range: Range<u64>) -> Self {
        self.place.range.get_or_insert(range);
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.place.status = Some(status);
        self
    }

    /// Says that the same request can succeed a little later.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.is_transient = true;
        self
    }

    /// Says what to do about it, in a whole sentence.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.place.advice = Some(advice.into());
        self
    }

    /// The stable code of the error's kind.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { url, tensor, range, status, advice, .. } = &*self.place;
        if let Some(url) = url {
            write!(f, "{url}: ")?;
        }
        if let Some(tensor) = tensor {
            write!(f, "tensor \"{tensor}\": ")?;
        }
        f.write_str(&self.what)?;
        if let Some(status) = status {
            write!(f, " (HTTP status {status})")?;
        }
        if let Some(range) = range {
            write!(f, " (bytes {} to {})", range.start, range.end)?;
        }
        write!(f, ". {}", advice.as_deref().unwrap_or(self.kind.advice()))
    }
}

impl std::error::Error for Error {}

/// A fault in the bytes of a format: the commonest error there is.
pub(crate) fn malformed(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, what)
}

#[cfg(not(target_arch = "wasm32"))]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::new(ErrorKind::Io, error.to_string())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_where_and_what_to_do() {
        let error = malformed("the magic is `XXXX`").at(0..4).in_tensor("a.b").in_file("https://host/m.apr");
        assert_eq!(
            error.to_string(),
            "https://host/m.apr: tensor \"a.b\": the magic is `XXXX` (bytes 0 to 4). \
             The file is damaged or was written by a faulty tool: make it again."
        );
        assert_eq!(error.code(), "FORMAT");
    }

    #[test]
    fn the_place_nearest_to_the_fault_wins() {
        let error = malformed("x").at(5..6).at(0..100).in_tensor("inner").in_tensor("outer");
        assert_eq!(error.place.range, Some(5..6));
        assert_eq!(error.place.tensor.as_deref(), Some("inner"));
    }
}
