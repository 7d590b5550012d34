//! Mirrors: other addresses of the same files. A range is requested from the first address that works. If the address
//! fails, or the range is late, the rest of the range is requested from another one, and the first that has the next
//! byte goes on.
//!
//! An ETag says nothing about another address (RFC 9110, section 8.8.3). So before bytes of an address are used, its
//! file must have the same length, and bytes that another address has sent must be the same: those before the range, or
//! else the last ones that arrived. This is a check, no proof: only digests are, which the loader compares as always.
//!
//! `peers` and `policy` decide without I/O; `file` has what is known of the addresses of one file, `attempt` requests a
//! range from one of them, and `body` reads it.

mod attempt;
mod body;
mod file;
mod peers;
mod policy;

pub(crate) use file::MirroredFile;

use super::mirror::Mirror;
use super::{Body, Host, RangeResponse, ReadBody};
use crate::error::Result;
use policy::Policy;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// The number of bytes that are compared: few enough to cost nothing, and far more than two versions of a model's
/// weights have in common by chance.
pub(crate) const COMPARED_BYTES: u64 = 16 << 10;

/// The length of the buffer of a response.
const CHUNK_BYTES: u64 = if cfg!(miri) { 1 << 10 } else { 256 << 10 };

/// A file at one address.
pub(crate) trait Address: Clone + 'static {
    type Body: Body;

    /// The file at another URL, with the same settings. The request policy decides what is sent there.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for what is no URL.
    fn at(&self, url: &str) -> Result<Self>;

    /// Requests `range` from this address only.
    ///
    /// # Errors
    /// Those of [`Source::read`](super::Source::read).
    async fn request(&self, range: Range<u64>) -> Result<RangeResponse<Self::Body>>;

    /// The body of a file that is read from several addresses. Its length is given if it is known.
    fn body(body: MirroredBody<<Self::Body as Body>::Buffer>, length: Option<u64>) -> Self::Body;

    fn host(&self) -> &dyn Host;
}

/// A body that is read from several addresses, into buffers of this type.
pub(crate) type MirroredBody<B> = Box<dyn ReadBody<B>>;

/// The addresses of a model, which all of its files share.
#[derive(Debug)]
pub(crate) struct Mirrors {
    /// The URLs of the opened file: the first address, and the mirrors.
    urls: Vec<String>,
    policy: RefCell<Policy>,
}

impl Mirrors {
    pub(crate) fn new(first: String, mirrors: impl IntoIterator<Item = String>) -> Rc<Self> {
        let urls: Vec<_> = std::iter::once(first).chain(mirrors).collect();
        Rc::new(Mirrors { policy: RefCell::new(Policy::new(urls.len())), urls })
    }

    /// What is known of each address.
    pub(crate) fn report(&self) -> Vec<Mirror> {
        let policy = self.policy.borrow();
        let mirror = |(number, url): (usize, &String)| {
            let (byte_length, failure) = policy.report(number);
            Mirror { url: url.clone(), byte_length, failure }
        };
        self.urls.iter().enumerate().map(mirror).collect()
    }
}
