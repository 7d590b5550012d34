//! Answers that are not what was asked for.

use super::model::FILE;
use super::server::{Reply, answer, whole};
use super::{HEAD_BYTES, Load, Trap};
use std::ops::Range;

traps! {
    one_request_opens_a_model:
        Trap::new(|request| answer(&FILE, request)).in_requests(1).sends_at_most(HEAD_BYTES),

    refuses_a_206_for_bytes_further_on: lying(|range| *range = range.start + 1..range.end + 1),

    refuses_a_206_of_one_byte_more: lying(|range| range.end += 1),

    refuses_a_206_of_one_byte_less: lying(|range| range.end -= 1),

    refuses_a_206_for_the_first_bytes_of_the_file: lying(|range| *range = 0..range.end - range.start),

    refuses_a_206_whose_length_is_not_that_of_its_range:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => answer(&FILE, request).with("Content-Range", &format!("bytes 0-9/{}", FILE.len())),
        })
        .loads(&[Load::One("second")])
        .fails(&["RANGE_UNSUPPORTED"]),

    a_206_that_does_not_state_its_range_is_taken_by_its_length:
        Trap::new(|request| answer(&FILE, request).without("Content-Range"))
            .loads(&[Load::One("fourth"), Load::One("second"), Load::One("third")]),

    // Of a 206 without Content-Range and without Content-Length nothing is known, nor of one in several parts.
    a_206_that_proves_nothing_is_fetched_again_as_a_whole:
        Trap::new(|request| match (&request.range, request.number) {
            (None, _) => whole(&FILE),
            (Some(range), 0) => Reply::new(206, &FILE[1..range.len()]).chunked(),
            (Some(range), _) => Reply::new(206, &FILE[..range.len()]).chunked(),
        })
        .loads(&[Load::One("second"), Load::One("fourth")]),

    a_206_in_several_parts_is_fetched_again_as_a_whole:
        Trap::new(|request| match &request.range {
            None => whole(&FILE),
            Some(range) => Reply::new(206, &FILE[..range.len()])
                .with("Content-Type", "multipart/byteranges; boundary=part"),
        })
        .loads(&[Load::One("second")]),

    refuses_a_206_that_proves_nothing:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => Reply::new(206, &FILE[..300_000]).chunked(),
        })
        .loads(&[Load::One("second")])
        .fails(&["RANGE_UNSUPPORTED"])
        .in_requests(3),

    refuses_a_body_that_is_longer_than_its_range:
        Trap::new(|request| match &request.range {
            Some(range) if request.number > 0 => {
                let longer = FILE[range.start..(range.end + 1).min(FILE.len())].to_vec();
                answer(&FILE, request).with_body(&longer).chunked()
            }
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("second")])
        .fails(&["RANGE_UNSUPPORTED"]),

    takes_a_range_whose_length_shows_at_its_end_only:
        Trap::new(|request| answer(&FILE, request).chunked()).loads(&[Load::One("second"), Load::One("fourth")]),

    an_encoded_range_is_fetched_again_as_a_whole:
        Trap::new(|request| match request.range {
            Some(_) => answer(&FILE, request).with("Content-Encoding", "gzip"),
            None => answer(&FILE, request),
        })
        .loads(&[Load::One("second")]),

    an_error_page_with_status_200_is_no_model:
        Trap::new(|_| Reply::new(200, PORTAL).with("Content-Type", "text/html")).fails(&["UNSUPPORTED"]).in_requests(1),

    // It has neither a validator nor a length that would give it away, and is longer than what is wanted of the file.
    an_error_page_in_the_middle_is_never_taken_for_bytes_of_the_file:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => Reply::new(200, &PORTAL.repeat(50_000)).chunked(),
        })
        .loads(&[Load::One("second")])
        .fails(&["CHANGED"]),

    an_empty_file_is_told_as_one:
        Trap::new(|request| answer(b"", request)).fails(&["TRUNCATED"]).with_status(416).in_requests(1),
}

const PORTAL: &[u8] = b"<!DOCTYPE html><html><title>Welcome to the hotel's Wi-Fi</title>";

/// A server that answers with another range than it was asked for, once the model is open. To ask again would not help.
fn lying(lie: fn(&mut Range<usize>)) -> Trap {
    Trap::new(move |request| {
        let mut lying = request.clone();
        if request.number > 0 {
            lying.range.as_mut().map(lie);
        }
        answer(&FILE, &lying)
    })
    .loads(&[Load::One("second")])
    .fails(&["RANGE_UNSUPPORTED"])
    .in_requests(2)
}
