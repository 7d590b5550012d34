//! Errors, with a message that states what is wrong, where, and what the user can do.

use std::fmt;
use std::ops::Range;
#[cfg(native)]
use std::sync::Arc;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! error_kinds {
    ($($(#[doc = $line:literal])+ $kind:ident = $code:literal, $advice:literal;)+) => {
        /// The kind of an error. [`Error::code`] is what JavaScript sees as `LoadError.code`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[doc = $line])+ $kind,)+
        }

        impl ErrorKind {
            /// The stable code of this kind, as used in JavaScript and in the JSON output of the CLI.
            #[doc(hidden)]
            pub fn code(self) -> &'static str {
                match self {
                    $(ErrorKind::$kind => $code,)+
                }
            }

            /// The general advice to the user, for errors without more specific advice. Empty if only the error itself
            /// says what to correct.
            fn advice(self) -> &'static str {
                match self {
                    $(ErrorKind::$kind => $advice,)+
                }
            }

            /// Every code with its documentation, for the TypeScript declarations.
            #[cfg(all(test, native))]
            const DOCUMENTED_CODES: &[(&str, &[&str])] = &[$(($code, &[$($line),+]),)+];
        }
    };
}

// The only list of error kinds: documentation, name, code, general advice. `LoadErrorCode` in `weightstream.d.ts` is
// generated from it by a test of this module.
error_kinds! {
    /// No response arrived, or the connection broke.
    Network = "NETWORK", "Check the connection and whether the server allows this origin (CORS), then try again.";
    /// The server responded with an HTTP status that is not a success.
    Http = "HTTP", "Check the URL and the permission to read it.";
    /// The response to a Range request is neither that range nor the whole file.
    RangeUnsupported = "RANGE_UNSUPPORTED",
        "Serve the file from a host that answers Range requests as HTTP defines them.";
    /// The file changed after the load began.
    Changed = "CHANGED", "Open the model again to load its new version.";
    /// The file, or a response, ends too early.
    Truncated = "TRUNCATED", "The file was probably not copied or uploaded completely: replace it.";
    /// The bytes do not match the checksum or digest that was expected.
    Checksum = "CHECKSUM", "The bytes were damaged in transit or in storage: download or upload the file again.";
    /// The signature of the model is invalid, or does not cover the bytes.
    Signature = "SIGNATURE", "Do not use the model: get it again, and the key, from where its publisher offers them.";
    /// The bytes violate the rules of their format.
    Format = "FORMAT", "The file is damaged or was written by a faulty tool: create it again.";
    /// A size or count exceeds what the loader allows or can allocate.
    Limit = "LIMIT", "The file is damaged or malicious. If it is neither, please report it.";
    /// The format, or a feature that it uses, is not supported by this version or by this browser.
    Unsupported = "UNSUPPORTED", "Convert the model to a format that weightstream reads.";
    /// There is no tensor or file of this name.
    NotFound = "NOT_FOUND", "Check the spelling; the index lists all names.";
    /// An argument or an option is invalid.
    InvalidArgument = "INVALID_ARGUMENT", "";
    /// The loader was closed.
    Closed = "CLOSED", "Open a new loader.";
    /// The operating system or the browser's storage failed to read or write.
    Io = "IO", "Check the path, the permissions and the space on the disk.";
    /// A bug in weightstream.
    Internal = "INTERNAL", "Please report it with the file that caused it.";
}

/// An error: its kind, what is wrong, and where. Its text says all of it, and what the user can do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// What is wrong, as a clause without a full stop.
    #[doc(hidden)]
    pub what: String,
    /// Whether the same request may succeed later.
    #[doc(hidden)]
    pub is_transient: bool,
    /// Where the error occurred.
    #[doc(hidden)]
    pub context: Box<ErrorContext>,
}

/// Where an error occurred, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ErrorContext {
    /// The URL or path of the file.
    pub url: Option<String>,
    /// The name of the tensor.
    pub tensor: Option<String>,
    /// The byte range of the file that the error is about.
    pub range: Option<Range<u64>>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The delay in milliseconds that the server requested before the next request.
    pub retry_after_ms: Option<u64>,
    /// What the user can do, if it is more specific than the general advice of the kind.
    pub advice: Option<String>,
    /// The JavaScript exception that caused the error.
    #[cfg(web)]
    pub cause: Option<wasm_bindgen::JsValue>,
    /// The error of the operating system or of another crate that caused the error: its [`std::error::Error::source`].
    #[cfg(native)]
    pub(crate) cause: Cause,
}

/// The cause of an error. It is ignored when errors are compared.
#[cfg(native)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause(Option<Arc<dyn std::error::Error + Send + Sync>>);

#[cfg(native)]
impl PartialEq for Cause {
    fn eq(&self, _: &Cause) -> bool {
        true
    }
}

impl Error {
    /// Creates an error. `what` states what is wrong, as a clause without a full stop.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into(), is_transient: false, context: Box::default() }
    }

    /// Sets the URL or path of the file, unless it is already set.
    #[must_use]
    #[doc(hidden)]
    pub fn in_file(mut self, url: &str) -> Self {
        self.context.url.get_or_insert_with(|| url.to_owned());
        self
    }

    /// Sets the tensor, unless it is already set.
    #[must_use]
    #[doc(hidden)]
    pub fn in_tensor(mut self, name: &str) -> Self {
        self.context.tensor.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Sets the byte range of the file, unless it is already set.
    #[must_use]
    pub fn at(mut self, range: Range<u64>) -> Self {
        self.context.range.get_or_insert(range);
        self
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.context.status = Some(status);
        self
    }

    /// Marks the error as transient: the same request may succeed later.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.is_transient = true;
        self
    }

    /// Sets the advice to the user, as a full sentence.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.context.advice = Some(advice.into());
        self
    }

    /// Sets the cause, which [`std::error::Error::source`] returns. On wasm32 the cause is dropped: causes there are
    /// JavaScript exceptions.
    #[must_use]
    pub fn with_cause(self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        #[cfg(web)]
        {
            drop(cause);
            self
        }
        #[cfg(native)]
        {
            let mut context = self.context;
            context.cause = Cause(Some(Arc::new(cause)));
            Error { context, ..self }
        }
    }

    /// The path or the URL of the file, if it is known.
    pub fn file(&self) -> Option<&str> {
        self.context.url.as_deref()
    }

    /// The name of the tensor, if the error is about one.
    pub fn tensor(&self) -> Option<&str> {
        self.context.tensor.as_deref()
    }

    /// The HTTP status of the response.
    pub fn status(&self) -> Option<u16> {
        self.context.status
    }

    /// The stable code of the error's kind.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorContext { url, tensor, range, status, advice, .. } = &*self.context;
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
        match advice.as_deref().unwrap_or(self.kind.advice()) {
            "" => f.write_str("."),
            advice => write!(f, ". {advice}"),
        }
    }
}

impl std::error::Error for Error {
    #[cfg(native)]
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = self.context.cause.0.as_deref()?;
        Some(cause)
    }
}

/// An error of kind [`ErrorKind::Format`], the most frequent kind.
pub(crate) fn malformed(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, what)
}

#[cfg(native)]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::new(ErrorKind::Io, error.to_string()).with_cause(error)
    }
}

#[cfg(all(test, native))]
mod tests {
    use super::*;

    #[test]
    fn a_message_states_what_where_and_the_advice() {
        let error = malformed("the magic is `XXXX`").at(0..4).in_tensor("a.b").in_file("https://host/m.apr");
        assert_eq!(
            error.to_string(),
            "https://host/m.apr: tensor \"a.b\": the magic is `XXXX` (bytes 0 to 4). \
             The file is damaged or was written by a faulty tool: create it again."
        );
        assert_eq!(error.code(), "FORMAT");
    }

    #[test]
    fn the_first_place_is_kept() {
        let error = malformed("x").at(5..6).at(0..100).in_tensor("inner").in_tensor("outer");
        assert_eq!(error.context.range, Some(5..6));
        assert_eq!(error.context.tensor.as_deref(), Some("inner"));
    }

    #[test]
    fn a_cause_is_accessible_and_not_compared() {
        let caused = malformed("x").with_cause(std::fmt::Error);
        let source = std::error::Error::source(&caused).and_then(|cause| cause.downcast_ref::<std::fmt::Error>());
        assert_eq!(source, Some(&std::fmt::Error));
        assert_eq!(caused, malformed("x"));
        assert!(std::error::Error::source(&malformed("x")).is_none());
    }

    const DECLARATIONS: &str = include_str!("js/weightstream.d.ts");

    #[test]
    fn the_typescript_declarations_list_every_code() {
        let start = "export type LoadErrorCode =";
        let (before, rest) = DECLARATIONS.split_once(start).expect("weightstream.d.ts declares LoadErrorCode");
        let (_, after) = rest.split_once(';').expect("the declaration of LoadErrorCode ends");
        let mut generated = format!("{before}{start}");
        for (code, lines) in ErrorKind::DOCUMENTED_CODES {
            generated.push_str(&format!("\n  /**{} */\n  | \"{code}\"", lines.concat()));
        }
        let generated = format!("{generated};{after}");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/js/weightstream.d.ts");
            std::fs::write(path, generated).expect("weightstream.d.ts can be written");
            return;
        }
        assert!(
            generated == DECLARATIONS,
            "LoadErrorCode in src/js/weightstream.d.ts differs from ErrorKind in src/error.rs. \
             To rewrite it, run: UPDATE_SNAPSHOTS=1 cargo test --lib typescript_declarations"
        );
    }
}
