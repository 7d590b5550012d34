//! Which version of a file a response is of, on servers whose validators are not reliable.
//!
//! Several servers of one host may each have ETags or dates of their own for the same bytes, and some servers send a
//! random ETag with every response. So a validator that differs from the first one is doubted: the same bytes are
//! requested a few times, until they have arrived with both validators. If they are equal, both stand for one version.
//! If the first validator is not sent any more, the file has changed.
//!
//! A web page in place of a part of the file, such as the login page of a network, is recognised by its media type.

use super::answer::Head;
use super::{Body, Buffer, RangeResponse};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Requests `range` with `request`. If the validators of the response are doubtful, finds out whether they stand for
/// the version of the first response, and then returns the response with the validators of that one.
pub(super) async fn request_with_known_version<B: Body>(
    history: &History,
    range: Range<u64>,
    request: impl AsyncFn(&Range<u64>) -> Result<RangeResponse<B>>,
) -> Result<RangeResponse<B>> {
    let mut answer = request(&range).await?;
    if history.is_doubtful(&answer.identity) {
        // A response to a request for one byte is compared by more bytes, and a whole file by its start.
        let start = if answer.is_whole_file { 0 } else { answer.start };
        let end = answer.identity.length.unwrap_or(u64::MAX).min(start.saturating_add(COMPARED_BYTES));
        history.settle(&answer.identity, start..end, request).await?;
    }
    history.unify(&mut answer.identity);
    Ok(answer)
}

/// Number of bytes that are compared: as many as a resumed request overlaps.
const COMPARED_BYTES: u64 = 64 << 10;

/// Number of requests for these bytes. Three servers that take turns answer with both validators in half of them, and
/// three that are chosen at random in 19 of 20 cases.
const MAX_REQUESTS: usize = 8;

/// The file has changed if its first validator is missing in this many consecutive responses, all with the same one.
const REQUESTS_WITHOUT_FIRST: usize = 4;

/// Number of responses whose ETags must all differ, and differ from the first two, for ETags to be random. Three
/// servers that each have an ETag of their own send at most four others if the file changes during the comparison: that
/// of the third server, and three new ones.
const RANDOM_RESPONSES: usize = 5;

/// Properties of the responses for one file.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The first validators.
    first: RefCell<Option<Identity>>,
    /// Other validators, and whether they stand for the same bytes.
    others: RefCell<Vec<(Validator, bool)>>,
    etags_are_random: Cell<bool>,
    /// Whether the first response was a web page.
    is_page: Cell<Option<bool>>,
    /// Whether a 206 had an unspecified range.
    has_unspecified_range: Cell<bool>,
    /// Whether a range of the first byte was refused, too.
    refuses_ranges: Cell<bool>,
}

/// A strong ETag, or else a Last-Modified date.
#[derive(Debug, Clone, PartialEq)]
enum Validator {
    ETag(String),
    LastModified(String),
}

impl Validator {
    fn of(identity: &Identity) -> Option<Self> {
        let date = || identity.last_modified.clone().map(Validator::LastModified);
        identity.etag.clone().map(Validator::ETag).or_else(date)
    }

    /// Whether the validators are of one kind and differ.
    fn contradicts(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self != other
    }
}

impl History {
    /// Records the validators of the first response. Returns whether those of a later one differ, and it is unknown
    /// whether they stand for another version.
    fn is_doubtful(&self, identity: &Identity) -> bool {
        let mut first = self.first.borrow_mut();
        let known = first.get_or_insert_with(Identity::default);
        let differs = match (Validator::of(known), Validator::of(identity)) {
            (Some(known), Some(now)) => {
                known.contradicts(&now) && !self.others.borrow().iter().any(|(other, _)| *other == now)
            }
            _ => false,
        };
        // Another length needs no proof.
        let has_same_length = known.length.is_none() || identity.length.is_none() || known.length == identity.length;
        known.learn(identity);
        differs && has_same_length && !self.etags_are_random.get()
    }

    /// Requests the bytes of `range` until they have arrived with the validators of the first response and with the
    /// doubtful ones, and compares them.
    async fn settle<B: Body>(
        &self,
        doubtful: &Identity,
        range: Range<u64>,
        request: impl AsyncFn(&Range<u64>) -> Result<RangeResponse<B>>,
    ) -> Result<()> {
        let first = self.first.borrow().as_ref().and_then(Validator::of);
        let (Some(first), Some(doubtful)) = (first, Validator::of(doubtful)) else { return Ok(()) };
        let (mut validators, mut seen): (Vec<Validator>, Vec<(Validator, Vec<u8>)>) = Default::default();
        let mut without_first = 0;
        for number in 1..=MAX_REQUESTS {
            let answer = request(&range).await?;
            let Some(validator) = Validator::of(&answer.identity) else { break };
            if !validators.contains(&validator) {
                validators.push(validator.clone());
            }
            without_first = if validator == doubtful { without_first + 1 } else { 0 };
            // A server can ignore the range, or send a part of it.
            if has_range(&answer, &range) && seen.iter().all(|(known, _)| *known != validator) {
                seen.push((validator, bytes_of(answer.body, &range).await?));
            }
            let bytes = |of: &Validator| seen.iter().find(|(known, _)| known == of).map(|(_, bytes)| bytes);
            if let (Some(known), Some(_)) = (bytes(&first), bytes(&doubtful)) {
                let compared = seen.iter().filter(|(validator, _)| *validator != first);
                let compared: Vec<_> = compared.map(|(validator, now)| (validator.clone(), now == known)).collect();
                self.others.borrow_mut().extend(compared);
                return Ok(());
            }
            let are_old = validators.contains(&first) || validators.contains(&doubtful);
            let are_all_new = validators.len() == number && !are_old;
            let are_equal = seen.iter().zip(seen.iter().skip(1)).all(|((_, one), (_, next))| one == next);
            if number == RANDOM_RESPONSES && are_all_new && are_equal && matches!(first, Validator::ETag(_)) {
                self.etags_are_random.set(true);
                return Ok(());
            }
            if without_first == REQUESTS_WITHOUT_FIRST {
                break;
            }
        }
        self.others.borrow_mut().push((doubtful, false));
        Ok(())
    }

    /// Replaces validators that stand for the version of the first response by those of that one. Removes the ETag if
    /// ETags are random.
    fn unify(&self, identity: &mut Identity) {
        if self.etags_are_random.get() {
            identity.etag = None;
            return;
        }
        let Some(validator) = Validator::of(identity) else { return };
        if let Some(first) = &*self.first.borrow()
            && self.others.borrow().contains(&(validator, true))
        {
            (identity.etag, identity.last_modified) = (first.etag.clone(), first.last_modified.clone());
        }
    }

    /// Checks that a response is a web page only if the first one was: some servers send all files as `text/html`. A
    /// page that is as long as the requested range differs from a part of the file in nothing else.
    ///
    /// # Errors
    /// `CHANGED` if one of them is a page and the other one is not.
    pub(crate) fn check_media_type(&self, head: &Head) -> Result<()> {
        let was_page = self.is_page.get().unwrap_or(head.is_page());
        self.is_page.set(Some(was_page));
        if was_page == head.is_page() {
            return Ok(());
        }
        let (now, before) = if was_page { ("the file", "a web page") } else { ("a web page", "the file") };
        let what = format!("the server sent {now}, and {before} before");
        let advice = "Open the URL in a browser: the server or the network may require a login. Then load it again.";
        Err(Error::new(ErrorKind::Changed, what).with_status(head.status).advise(advice))
    }

    /// Records that a 206 had an unspecified range.
    pub(crate) fn note_unspecified_range(&self) {
        self.has_unspecified_range.set(true);
    }

    /// Records whether a request for the first byte stated the length of the file.
    pub(crate) fn note_first_byte(&self, has_length: bool) {
        self.refuses_ranges.set(!has_length);
    }

    /// Whether another request for the first byte is useless.
    pub(crate) fn refuses_ranges(&self) -> bool {
        self.refuses_ranges.get()
    }

    /// Whether the whole file should be requested, because the ranges of responses are unreliable.
    pub(crate) fn wants_whole_file(&self) -> bool {
        self.has_unspecified_range.get()
    }
}

/// Whether a response has all bytes of `range` that the file has.
fn has_range<B>(answer: &RangeResponse<B>, range: &Range<u64>) -> bool {
    let wanted_end = answer.file_length.unwrap_or(range.end).min(range.end);
    answer.start == range.start && answer.end.is_none_or(|end| end >= wanted_end)
}

/// The bytes of a body that starts at the start of `range`, at most as many as the range has.
async fn bytes_of<B: Body>(mut body: B, range: &Range<u64>) -> Result<Vec<u8>> {
    let length = range.end - range.start;
    let mut buffer = B::Buffer::allocate(length)?;
    let mut filled = 0;
    while filled < length {
        match body.read(&mut buffer, filled..length).await? {
            0 => break,
            count => filled += count,
        }
    }
    let mut bytes = Vec::new();
    buffer.inspect(0..filled, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::source::memory::MemorySource;
    use futures::executor::block_on;

    const OLD: [u8; 100] = [1; 100];
    const NEW: [u8; 100] = [2; 100];

    fn etag(etag: &str) -> Identity {
        Identity { etag: Some(etag.to_owned()), length: Some(100), ..Identity::default() }
    }

    fn date(date: &str) -> Identity {
        Identity { last_modified: Some(date.to_owned()), length: Some(100), ..Identity::default() }
    }

    /// Requests a range as often as there are expectations from a server that answers in turn as `servers` say. Returns
    /// the identities, and the number of requests.
    fn identities(servers: &[(Identity, [u8; 100])], expected: usize) -> (Vec<Identity>, usize) {
        let (history, sent) = (History::default(), Cell::new(0));
        let request = async |range: &Range<u64>| {
            let (identity, bytes) = &servers[sent.get() % servers.len()];
            sent.set(sent.get() + 1);
            let source = MemorySource::new(vec![("file".to_owned(), bytes.to_vec().into())])?;
            let mut answer = source.read(range.clone()).await?;
            answer.identity = identity.clone();
            Ok(answer)
        };
        let answers = (0..expected).map(|_| block_on(request_with_known_version(&history, 10..20, request)).unwrap());
        (answers.map(|answer| answer.identity).collect(), sent.get())
    }

    #[test]
    fn servers_with_validators_of_their_own_and_equal_bytes_have_one_version() {
        for names in [vec!["a", "b"], vec!["a", "b", "c"], vec!["a", "a", "b", "c"]] {
            for identity in [etag, date] {
                let servers: Vec<_> = names.iter().map(|name| (identity(name), OLD)).collect();
                let (identities, sent) = identities(&servers, 20);
                assert!(identities.iter().all(|it| *it == identity("a")), "{names:?}: {identities:?}");
                assert!(sent <= 30, "{sent} requests");
            }
        }
    }

    #[test]
    fn servers_with_different_bytes_have_different_versions() {
        for identity in [etag, date] {
            let (identities, _) = identities(&[(identity("a"), OLD), (identity("b"), NEW)], 10);
            assert!(identities.contains(&identity("a")) && identities.contains(&identity("b")));
        }
    }

    #[test]
    fn a_change_on_several_servers_does_not_make_etags_random() {
        for count in 2..=4 {
            let new = (0..30).map(|number| (etag(&format!("new {}", number % count)), NEW));
            let servers: Vec<_> = [(etag("old"), OLD)].into_iter().chain(new).collect();
            let (identities, _) = identities(&servers, 4);
            assert!(identities[1..].iter().all(|it| it.etag.is_some() && *it != etag("old")), "{identities:?}");
        }
    }

    /// The file changes on three servers while their ETags are compared.
    #[test]
    fn a_change_during_the_comparison_does_not_make_etags_random() {
        let old = ["a", "b", "c"].map(|name| (etag(name), OLD));
        for new_bytes in [NEW, OLD] {
            let new = (0..30).map(|number| (etag(&format!("new {}", number % 3)), new_bytes));
            let servers: Vec<_> = old.iter().cloned().chain(new).collect();
            let (identities, _) = identities(&servers, 4);
            assert!(identities.iter().all(|it| it.etag.is_some()) && identities[1] != etag("a"), "{identities:?}");
        }
    }

    #[test]
    fn a_validator_that_replaces_the_first_one_is_another_version() {
        for identity in [etag, date] {
            let mut servers = vec![(identity("b"), OLD); 30];
            servers[0] = (identity("a"), OLD);
            let (identities, sent) = identities(&servers, 4);
            assert_eq!(identities, [identity("a"), identity("b"), identity("b"), identity("b")]);
            assert_eq!(sent, 4 + REQUESTS_WITHOUT_FIRST, "they are compared only once");
        }
    }

    /// Without its range, or with a part of it, a response proves nothing.
    #[test]
    fn a_response_without_the_whole_range_is_no_other_version() {
        let (history, sent) = (History::default(), Cell::new(0));
        let request = async |range: &Range<u64>| {
            let number = sent.replace(sent.get() + 1);
            let source = MemorySource::new(vec![("file".to_owned(), OLD.to_vec().into())])?;
            // Of the responses that are compared, the first one ignores the range, and the second one is short.
            let sent_range = match number {
                2 => 0..100,
                3 => range.start..range.start + 1,
                _ => range.clone(),
            };
            let mut answer = source.read(sent_range).await?;
            answer.identity = etag(&number.to_string());
            Ok(answer)
        };
        let next = || block_on(request_with_known_version(&history, 10..20, request)).unwrap().identity;
        assert_eq!(next(), etag("0"));
        assert_eq!(next().etag, None, "the ETags are random");
        assert_eq!(sent.get(), 2 + RANDOM_RESPONSES);
    }

    #[test]
    fn etags_that_always_differ_are_ignored() {
        let servers: Vec<_> = (0..30).map(|number| (etag(&number.to_string()), OLD)).collect();
        let (identities, sent) = identities(&servers, 10);
        assert_eq!(identities[0], etag("0"));
        assert!(identities[1..].iter().all(|identity| identity.etag.is_none()));
        assert_eq!(sent, 10 + RANDOM_RESPONSES);
    }

    #[test]
    fn a_page_is_not_a_part_of_a_file() {
        let response = |content_type: Option<&str>| {
            let content_type = content_type.map(str::to_owned);
            Head { status: 206, content_type, ..Head::default() }
        };
        let outcome = |types: &[Option<&str>]| {
            let history = History::default();
            let outcomes = types.iter().map(|content_type| history.check_media_type(&response(*content_type)));
            outcomes.map(|outcome| outcome.map_err(|error| error.code())).collect::<Vec<_>>()
        };
        let (file, page) = (Some("application/octet-stream"), Some("text/html; charset=utf-8"));
        assert_eq!(outcome(&[file, None, Some("text/plain"), file]), [Ok(()); 4]);
        assert_eq!(outcome(&[page, Some("Text/HTML"), page]), [Ok(()); 3]);
        assert_eq!(outcome(&[file, page, file]), [Ok(()), Err("CHANGED"), Ok(())]);
        assert_eq!(outcome(&[None, Some("application/xhtml+xml")]), [Ok(()), Err("CHANGED")]);
        assert_eq!(outcome(&[page, None]), [Ok(()), Err("CHANGED")]);
    }

    #[test]
    fn another_length_is_another_version() {
        let longer = Identity { length: Some(200), ..etag("b") };
        let (identities, sent) = identities(&[(etag("a"), OLD), (longer.clone(), OLD)], 2);
        assert_eq!((identities, sent), (vec![etag("a"), longer], 2));
    }
}
