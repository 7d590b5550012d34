//! What is known of the addresses of one file.

use super::{Address, COMPARED_BYTES, Mirrors};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use crate::source::{Body, Buffer, RangeResponse};
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// A file with several addresses.
pub(crate) struct MirroredFile<A> {
    pub(super) shared: Rc<Mirrors>,
    places: Vec<Place<A>>,
    /// The address that has sent the first bytes. The file is the one that it has.
    reference: RefCell<Option<Reference>>,
    /// The last bytes that arrived, to compare those of other addresses with, and their offset.
    sample: RefCell<(u64, Vec<u8>)>,
}

/// One address of a file.
struct Place<A> {
    url: String,
    source: OnceCell<A>,
    is_refused: Cell<bool>,
    /// The ETag with which its bytes were compared.
    compared: RefCell<Option<String>>,
}

struct Reference {
    number: usize,
    /// The version that all responses have, whichever address sends them.
    identity: Identity,
}

impl<A> MirroredFile<A> {
    /// The opened file. The first of the addresses is the URL that was opened.
    pub(crate) fn new(shared: Rc<Mirrors>) -> Rc<Self> {
        let urls = shared.urls.clone().into_iter().map(Some).collect();
        MirroredFile::with_urls(shared, urls)
    }

    /// Another file of the model: that at `first`, and at the URLs that follow from those of this file. A mirror
    /// without such a URL is not asked for it.
    #[inline(never)] // so that the code is deferred
    pub(crate) fn part(&self, first: String, url_of: &dyn Fn(&str) -> Result<String>) -> Rc<Self> {
        let mut urls = vec![Some(first)];
        for (number, place) in self.places.iter().enumerate().skip(1) {
            let url = url_of(&place.url).map_err(|error| {
                self.shared.policy.borrow_mut().lacks_file(number, error.to_string());
            });
            // `partUrl` may name one URL for all addresses.
            urls.push(url.ok().filter(|url| !urls.iter().flatten().any(|known| known == url)));
        }
        MirroredFile::with_urls(Rc::clone(&self.shared), urls)
    }

    fn with_urls(shared: Rc<Mirrors>, urls: Vec<Option<String>>) -> Rc<Self> {
        let place = |url: Option<String>| Place {
            is_refused: Cell::new(url.is_none()),
            url: url.unwrap_or_default(),
            source: OnceCell::new(),
            compared: RefCell::default(),
        };
        let places = urls.into_iter().map(place).collect();
        Rc::new(MirroredFile { shared, places, reference: RefCell::default(), sample: RefCell::default() })
    }

    /// What is known of each address.
    #[cfg(http_client)]
    pub(crate) fn shared(&self) -> &Rc<Mirrors> {
        &self.shared
    }

    pub(super) fn may_ask(&self, number: usize) -> bool {
        self.places.get(number).is_some_and(|place| !place.is_refused.get())
    }

    /// Whether the file is the one at this address, or at none yet.
    pub(super) fn is_reference(&self, number: usize) -> bool {
        self.reference.borrow().as_ref().is_none_or(|reference| reference.number == number)
    }

    /// Records why an address has not sent the bytes.
    pub(super) fn record_failure(&self, number: usize, error: &Error, now_ms: u64) {
        let Some(place) = self.places.get(number) else { return };
        // The query may have a signature.
        let failure = error.clone().in_file(place.url.split('?').next().unwrap_or_default()).to_string();
        let mut policy = self.shared.policy.borrow_mut();
        if error.kind == ErrorKind::Changed && !self.is_reference(number) {
            policy.drop_address(number, failure);
        } else if error.is_transient || error.kind == ErrorKind::Changed {
            policy.suspend(number, now_ms, failure);
        } else {
            place.is_refused.set(true);
            policy.lacks_file(number, failure);
        }
    }

    /// Whether an error is one that no other address can change: the file has no such range, or an option is invalid.
    pub(super) fn is_final(&self, number: usize, error: &Error) -> bool {
        if number == 0 && error.kind == ErrorKind::InvalidArgument {
            return true;
        }
        error.kind == ErrorKind::Truncated && error.context.status == Some(416) && self.is_reference(number)
    }

    /// Records that the file has a wrong digest, although the bytes that were compared are equal. Later calls use none
    /// of the mirrors that have sent bytes.
    #[inline(never)] // so that the code is deferred
    pub(crate) fn reject(&self) {
        self.shared.policy.borrow_mut().drop_used_mirrors();
    }

    /// States which version is cached, and the first bytes of it, so that what is read now is compared with them.
    #[cfg(feature = "web-workers")]
    #[inline(never)] // so that the code is deferred
    pub(crate) fn expect_cached(&self, identity: &Identity, first_bytes: &[u8]) {
        let of_mirror = |place: &Place<A>| identity.is_of_mirror(&place.url);
        let number = self.places.iter().position(of_mirror).unwrap_or(0);
        self.reference.borrow_mut().get_or_insert_with(|| Reference { number, identity: identity.clone() });
        self.keep_sample(0, first_bytes);
    }

    /// Keeps the last bytes that arrived.
    pub(super) fn keep_sample(&self, start: u64, bytes: &[u8]) {
        let mut sample = self.sample.borrow_mut();
        if bytes.len() >= sample.1.len() {
            sample.0 = start;
            sample.1.clear();
            sample.1.extend_from_slice(bytes);
        }
    }
}

impl<A: Address> MirroredFile<A> {
    pub(super) fn address(&self, first: &A, number: usize) -> Result<A> {
        let no_address = || Error::new(ErrorKind::Internal, "an address is unknown");
        let place = self.places.get(number).ok_or_else(no_address)?;
        match (number, place.source.get()) {
            (0, _) => Ok(first.clone()),
            (_, Some(source)) => Ok(source.clone()),
            (_, None) => {
                let source = first.at(&place.url)?;
                Ok(place.source.get_or_init(|| source).clone())
            }
        }
    }

    /// Checks the head of a response to a request for bytes from `start`, up to `end` if that is known. Returns whether
    /// its bytes must be compared before they are used.
    ///
    /// # Errors
    /// `CHANGED` for another file; `UNSUPPORTED` if the response does not state enough.
    pub(super) fn check_head<B>(
        &self,
        number: usize,
        answer: &RangeResponse<B>,
        start: u64,
        end: Option<u64>,
    ) -> Result<Comparison> {
        let reference = self.reference.borrow();
        let Some(reference) = reference.as_ref() else { return Ok(Comparison::None) };
        if reference.number == number {
            return self.check_unchanged(reference, answer, start, end).map(|()| Comparison::None);
        }
        match (answer.file_length, reference.identity.length) {
            (Some(now), Some(known)) if now != known => {
                let what = format!("its file has {now} bytes instead of {known}");
                return Err(Error::new(ErrorKind::Changed, what));
            }
            (Some(_), Some(_)) => {}
            _ => {
                return Err(unsupported("the length of its file, or of the first one, is not readable", LENGTH_ADVICE));
            }
        }
        if answer.start != start || end.is_some_and(|end| answer.end.is_none_or(|sent| sent < end)) {
            return Err(unsupported("it does not send the ranges that are requested", RANGE_ADVICE));
        }
        let compared = self.places.get(number).map(|place| place.compared.borrow().clone());
        let is_compared = answer.identity.etag.is_some() && compared.flatten() == answer.identity.etag;
        Ok(if is_compared { Comparison::None } else { Comparison::Needed })
    }

    /// Checks the head of a later response of the address that decides which file it is. If bytes of the range were
    /// read already, up to which `end` was promised, the caller sees only the first head.
    fn check_unchanged<B>(
        &self,
        reference: &Reference,
        answer: &RangeResponse<B>,
        start: u64,
        end: Option<u64>,
    ) -> Result<()> {
        let Some(end) = end else { return Ok(()) };
        if answer.start != start || answer.end.is_none_or(|sent| sent < end) {
            return Err(unsupported("it does not send the ranges that are requested", RANGE_ADVICE).transient());
        }
        let identity = match self.places.get(reference.number).filter(|_| reference.number > 0) {
            Some(place) => answer.identity.of_mirror(&place.url),
            None => answer.identity.clone(),
        };
        match identity.change_since(&reference.identity) {
            Some(change) => Err(Error::new(ErrorKind::Changed, format!("the file has changed: {change}"))),
            None => Ok(()),
        }
    }

    /// Records that the bytes of an address were compared, in a response with this ETag.
    pub(super) fn note_compared(&self, number: usize, etag: Option<&String>) {
        if let Some(place) = self.places.get(number) {
            *place.compared.borrow_mut() = etag.cloned();
        }
    }

    /// Compares an address with the last bytes that arrived from another one.
    ///
    /// # Errors
    /// `CHANGED` if it has other bytes; those of the request.
    pub(super) async fn compare_sample(&self, address: &A, number: usize) -> Result<()> {
        let (start, known) = self.sample.borrow().clone();
        if known.is_empty() {
            let what = "nothing has arrived from another address to compare its bytes with";
            return Err(unsupported(what, LATER_ADVICE).transient());
        }
        let end = start + known.len() as u64;
        let mut answer = address.request(start..end).await?;
        self.check_head(number, &answer, start, Some(end))?;
        let mut buffer = <A::Body as Body>::Buffer::allocate(known.len() as u64)?;
        let mut filled = 0;
        while filled < known.len() as u64 {
            match answer.body.read(&mut buffer, filled..known.len() as u64).await? {
                0 => return Err(Error::new(ErrorKind::Truncated, "its response ended early").transient()),
                count => filled += count,
            }
        }
        let mut policy = self.shared.policy.borrow_mut();
        policy.received(number, filled);
        policy.double(filled);
        compare(&known, &buffer, 0..filled, start)
    }

    /// The head of a response that is used, with the version that all responses have. The first one decides which file
    /// it is.
    pub(super) fn adopt(&self, number: usize, mut head: RangeResponse<()>) -> RangeResponse<()> {
        let mut reference = self.reference.borrow_mut();
        let reference = reference.get_or_insert_with(|| {
            let identity = match self.places.get(number).filter(|_| number > 0) {
                Some(place) => head.identity.of_mirror(&place.url),
                None => head.identity.clone(),
            };
            Reference { number, identity }
        });
        match number {
            _ if reference.number != number => head.identity = reference.identity.clone(),
            0 => reference.identity.learn(&head.identity),
            _ => {
                if let Some(place) = self.places.get(number) {
                    head.identity = head.identity.of_mirror(&place.url);
                }
            }
        }
        head
    }
}

/// Whether the bytes of a response must be compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Comparison {
    None,
    Needed,
}

/// Compares bytes of an address with known ones, which are at `start` in the file.
///
/// # Errors
/// `CHANGED` if they differ.
pub(super) fn compare<B: Buffer>(known: &[u8], buffer: &B, at: Range<u64>, start: u64) -> Result<()> {
    let mut rest = known;
    buffer.inspect(at, &mut |bytes| {
        let (now, later) = rest.split_at_checked(bytes.len()).unwrap_or((rest, &[]));
        rest = later;
        if now == bytes {
            return Ok(());
        }
        let range = start..start + known.len() as u64;
        let what = format!("its bytes {} to {} differ from those of another address", range.start, range.end);
        Err(Error::new(ErrorKind::Changed, what).at(range))
    })
}

const LENGTH_ADVICE: &str = "Let both servers send Content-Range, and expose it with Access-Control-Expose-Headers.";
const RANGE_ADVICE: &str = "Use mirrors that answer Range requests.";
const LATER_ADVICE: &str = "Load the file again.";

fn unsupported(what: &str, advice: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, what).advise(advice)
}

/// The last bytes of those before, and of new ones: at most [`COMPARED_BYTES`].
pub(super) fn push_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    let kept = COMPARED_BYTES as usize;
    let new = bytes.get(bytes.len().saturating_sub(kept)..).unwrap_or_default();
    let excess = (tail.len() + new.len()).saturating_sub(kept);
    tail.drain(..excess.min(tail.len()));
    tail.extend_from_slice(new);
}

impl<A> fmt::Debug for MirroredFile<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirroredFile").field("shared", &self.shared).finish_non_exhaustive()
    }
}
