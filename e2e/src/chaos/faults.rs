//! The faults of responses, and the errors that they may cause.

/// A fault of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection closes before the end of the body.
    Cut,
    /// The body stops, and the connection stays open.
    Stall,
    /// All bytes of the body arrive, but the chunk that ends it does not, and the connection stays open.
    Endless,
    /// Not even the headers arrive, and the connection stays open.
    Silence,
    /// The response is delayed, so that later requests may be answered first.
    Late,
    /// The body is sent slowly.
    Slow,
    /// 503, or 429 with `Retry-After`.
    Busy,
    /// 404.
    Gone,
    /// A 206 with a different range than requested.
    OtherRange,
    /// A 206 with fewer bytes than requested.
    Short,
    /// A 206 with fewer bytes than requested, of a server that limits every response.
    Capped,
    /// A 416 for a range that ends beyond the file. It states the length of the file.
    Refused,
    /// Like [`Fault::Refused`], but the length is not stated.
    RefusedWithoutLength,
    /// A 200 with the whole file.
    IgnoredRange,
    /// A 200 with a page.
    Page,
    /// A 200 with a page that is as long as the file.
    PageAsFile,
    /// A 206 with a page that is as long as the requested range, which `Content-Range` states.
    PageAsRange,
    /// Like [`Fault::PageAsRange`], but the page is shorter.
    PageForRange,
    /// The same bytes with another ETag.
    OtherTag,
    /// From this response on, the other version of the files is served.
    Changed,
    /// The response of another server of the host: the same bytes with validators of its own.
    OtherServer,
    /// The response of another server of the host, which has the other version of the files. The validators show it.
    OtherBytes,
    /// Like [`Fault::OtherBytes`], but the validators do not show it.
    HiddenBytes,
    /// A 401 without CORS headers.
    Unauthorized,
    /// A 206 without `Content-Range`.
    Unproven,
    /// A body that is one byte longer than the range.
    Longer,
}

/// The faults to choose from. Transient faults are listed several times, so that they are more frequent than others.
/// Those that are missing are the habits of a server.
pub const CHOICE: [Fault; 29] = [
    Fault::Cut,
    Fault::Cut,
    Fault::Cut,
    Fault::Cut,
    Fault::Stall,
    Fault::Stall,
    Fault::Endless,
    Fault::Silence,
    Fault::Late,
    Fault::Late,
    Fault::Late,
    Fault::Slow,
    Fault::Slow,
    Fault::Busy,
    Fault::Busy,
    Fault::Short,
    Fault::Short,
    Fault::IgnoredRange,
    Fault::Gone,
    Fault::OtherRange,
    Fault::Page,
    Fault::PageAsFile,
    Fault::PageAsRange,
    Fault::PageForRange,
    Fault::OtherTag,
    Fault::Changed,
    Fault::Unauthorized,
    Fault::Unproven,
    Fault::Longer,
];

/// The error codes of bytes that are not those of the version whose header was read.
const OTHER_BYTES: &[&str] = &["CHANGED", "CHECKSUM", "FORMAT", "TRUNCATED", "LIMIT", "UNSUPPORTED"];

impl Fault {
    /// Whether a load should recover from the fault.
    pub fn is_transient(self) -> bool {
        use Fault::{Busy, Cut, Late, Silence, Slow, Stall};
        use Fault::{Capped, Endless, IgnoredRange, Refused, RefusedWithoutLength, Short, Unproven};
        let is_broken = matches!(self, Cut | Stall | Endless | Silence | Late | Slow | Busy);
        let is_legitimate = matches!(self, Short | Capped | Refused | RefusedWithoutLength | IgnoredRange | Unproven);
        is_broken || is_legitimate
    }

    /// Whether the body is a page.
    pub fn is_page(self) -> bool {
        matches!(self, Fault::Page | Fault::PageAsFile | Fault::PageAsRange | Fault::PageForRange)
    }

    /// The codes of the errors that the fault may cause. A transient fault causes one only if it happens too often.
    pub fn codes(self) -> &'static [&'static str] {
        match self {
            Fault::Cut | Fault::Stall | Fault::Endless | Fault::Silence => &["NETWORK", "TRUNCATED"],
            Fault::Late | Fault::Slow => &["NETWORK"], // on a busy machine, a delay may count as a stall
            Fault::Busy | Fault::Gone => &["HTTP"],
            // Without CORS headers, a browser hides the status.
            Fault::Unauthorized => &["HTTP", "NETWORK"],
            Fault::OtherRange | Fault::Longer | Fault::Unproven => &["RANGE_UNSUPPORTED"],
            Fault::Short | Fault::Capped | Fault::Refused | Fault::IgnoredRange => &[],
            // Only a request from the start of the file can be sent again without a range.
            Fault::RefusedWithoutLength => &["TRUNCATED"],
            Fault::OtherTag | Fault::OtherServer => &["CHANGED"],
            // A request without a range gets the whole page.
            Fault::PageForRange => &["RANGE_UNSUPPORTED", "CHANGED", "UNSUPPORTED"],
            Fault::Page | Fault::PageAsFile | Fault::PageAsRange => OTHER_BYTES,
            Fault::Changed | Fault::OtherBytes | Fault::HiddenBytes => OTHER_BYTES,
        }
    }
}
