//! Requests a range of a file from an HTTP server, and asks once more where the answer shows how.
//!
//! The length of a file is unknown until its first answer, so the first request may end beyond the file. RFC 9110
//! (section 14.1.2) allows that, but some servers refuse it.

use super::RangeResponse;
use super::answer::{self, Head};
use super::history::History;
use crate::error::Result;
use std::ops::Range;

/// Sends a request for `requested` with `send`, which gets no range for a request for the whole file. Checks the
/// answer, and returns it with its head and the response.
///
/// # Errors
/// Those of [`answer::check`], [`History::check_media_type`] and `send`.
pub(super) async fn exchange<R>(
    history: &History,
    requested: &Range<u64>,
    send: impl AsyncFn(Option<&Range<u64>>) -> Result<(Head, R)>,
) -> Result<(RangeResponse<()>, Head, R)> {
    let wanted = Some(requested).filter(|_| !history.wants_whole_file());
    let (mut head, mut response) = send(wanted).await?;
    if head.has_unspecified_range() {
        history.note_unspecified_range();
    }
    let mut requested = requested.clone();
    let mut was_refused = false;
    match next_request(&requested, &head) {
        Some(Next::WholeFile) if wanted.is_some() => {
            was_refused = head.status != 206;
            drop(response);
            (head, response) = send(None).await?;
        }
        Some(Next::Range(range)) => {
            drop(response);
            (head, response) = send(Some(&range)).await?;
            requested = range;
        }
        _ => {}
    }
    let mut answer = answer::check(&requested, &head, ())?;
    history.check_media_type(&head)?;
    if was_refused && answer.file_length.is_none() && !head.is_encoded() && !history.refuses_ranges() {
        // The body must end there, so that the length of another version is noticed.
        answer.end = length_from_first_byte(send).await;
        (answer.file_length, answer.identity.length) = (answer.end, answer.end);
        history.note_first_byte(answer.end.is_some());
    }
    Ok((answer, head, response))
}

/// The length that the answer to a request for the first byte states. Browsers hide that of a whole file from another
/// origin if the file may be encoded; that of a range is readable. `None` if the range is refused, too.
async fn length_from_first_byte<R>(send: impl AsyncFn(Option<&Range<u64>>) -> Result<(Head, R)>) -> Option<u64> {
    let (head, _) = send(Some(&(0..1))).await.ok().filter(|(head, _)| head.status == 206)?;
    answer::check(&(0..1), &head, ()).ok()?.file_length
}

/// The request that follows an answer that cannot be used.
#[derive(Debug, PartialEq)]
enum Next {
    WholeFile,
    Range(Range<u64>),
}

fn next_request(requested: &Range<u64>, head: &Head) -> Option<Next> {
    // A range of an encoded file cannot be decoded, and some hosts encode only ranges.
    if head.has_unspecified_range() || (head.status == 206 && head.is_encoded()) {
        return Some(Next::WholeFile);
    }
    // One byte lies in every file that is not empty.
    let may_end_beyond_file = requested.end - requested.start > 1;
    match (head.status, head.stated_length()) {
        (416, Some(length)) if requested.start < length && length < requested.end => {
            Some(Next::Range(requested.start..length))
        }
        (416, Some(_)) => None,
        (400 | 404 | 416, _) if requested.start == 0 && may_end_beyond_file => Some(Next::WholeFile),
        _ => None,
    }
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use std::cell::RefCell;

    /// The ranges of the requests, and the start and end of the checked answer.
    type Outcome = (Vec<Option<Range<u64>>>, Result<(u64, Option<u64>)>);

    fn head(status: u16, content_range: &str, content_length: u64) -> Head {
        let content_range = Some(content_range.to_owned()).filter(|value| !value.is_empty());
        Head { status, content_range, content_length: Some(content_length), ..Head::default() }
    }

    /// The requests that are sent for `requested`, and the checked answer to the last one.
    fn outcome(requested: Range<u64>, heads: &[Head]) -> Outcome {
        let sent = RefCell::new(Vec::new());
        let answer = block_on(exchange(&History::default(), &requested, async |range| {
            sent.borrow_mut().push(range.cloned());
            Ok((heads[sent.borrow().len() - 1].clone(), ()))
        }));
        (sent.into_inner(), answer.map(|(answer, ..)| (answer.start, answer.end)))
    }

    #[test]
    fn a_416_that_states_the_length_is_asked_for_the_file() {
        let heads = [head(416, "bytes */1272", 0), head(206, "bytes 0-1271/1272", 1272)];
        let (sent, answer) = outcome(0..65_536, &heads);
        assert_eq!((sent, answer.unwrap()), (vec![Some(0..65_536), Some(0..1272)], (0, Some(1272))));
        let (sent, answer) = outcome(2000..65_536, &[head(416, "bytes */1272", 0)]);
        assert!(sent.len() == 1 && answer.is_err(), "no byte of the range exists");
    }

    #[test]
    fn a_refused_first_range_is_asked_for_the_whole_file() {
        for status in [400, 404, 416] {
            let (sent, answer) = outcome(0..65_536, &[head(status, "", 9), head(200, "", 1272)]);
            assert_eq!((sent, answer.unwrap()), (vec![Some(0..65_536), None], (0, Some(1272))));
            let (sent, answer) = outcome(0..65_536, &[head(status, "", 9), head(status, "", 9)]);
            assert!(sent.len() == 2 && answer.is_err(), "asked only once more");
            for range in [0..1, 1000..2000] {
                let (sent, answer) = outcome(range, &[head(status, "", 9)]);
                assert!(sent.len() == 1 && answer.is_err());
            }
        }
    }

    /// The length of a whole file is not readable if the file may be encoded.
    #[test]
    fn a_refused_first_range_does_not_cost_the_length() {
        let hidden = Head { status: 200, ..Head::default() };
        let length = |last: Head| {
            let heads = [head(404, "", 9), hidden.clone(), last];
            let sent = RefCell::new(Vec::new());
            let answer = block_on(exchange(&History::default(), &(0..65_536), async |range| {
                sent.borrow_mut().push(range.cloned());
                Ok((heads[sent.borrow().len() - 1].clone(), ()))
            }));
            assert_eq!(sent.into_inner(), [Some(0..65_536), None, Some(0..1)]);
            let answer = answer.unwrap().0;
            assert!(
                answer.is_whole_file
                    && answer.identity.length == answer.file_length
                    && answer.end == answer.file_length
            );
            answer.file_length
        };
        assert_eq!(length(head(206, "bytes 0-0/1272", 1)), Some(1272));
        for last in [head(206, "bytes 0-0/*", 1), head(404, "", 9), hidden.clone()] {
            assert_eq!(length(last), None);
        }
    }

    #[test]
    fn an_empty_file_is_not_asked_again() {
        let (sent, answer) = outcome(0..65_536, &[head(416, "bytes */0", 0)]);
        assert!(sent.len() == 1 && answer.unwrap_err().context.range == Some(0..0));
    }
}
