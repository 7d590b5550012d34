//! Responses that do not match the request.

use super::model::FILE;
use super::server::{Reply, answer, limited, whole};
use super::{HEADER_BYTES, Load, Trap};
use std::ops::Range;

traps! {
    one_request_opens_a_model:
        Trap::new(|request| answer(&FILE, request)).in_requests(1).sends_at_most(HEADER_BYTES),

    rejects_a_206_for_later_bytes: wrong_range(|range| *range = range.start + 1..range.end + 1),

    rejects_a_206_with_an_additional_byte: wrong_range(|range| range.end += 1),

    // RFC 9110 (section 15.3.7) allows it.
    a_206_with_the_start_of_the_range_is_continued:
        Trap::new(|request| answer(&FILE, &limited(request, 400_000)))
        .loads(&[Load::One("second"), Load::Many(&["first", "fourth"]), Load::One("third")]),

    range_units_are_case_insensitive:
        Trap::new(|request| {
            let reply = answer(&FILE, request);
            let range = request.range.clone().unwrap();
            let content_range = format!("Bytes {}-{}/{}", range.start, range.end.min(FILE.len()) - 1, FILE.len());
            reply.with("Content-Range", &content_range)
        })
        .loads(&[Load::One("second")]),

    names_that_are_no_content_encodings_are_ignored:
        Trap::new(|request| {
            let encodings = ["aws-chunked", "none", "identity", "binary", "utf-8"];
            answer(&FILE, request).with("Content-Encoding", encodings[request.number % encodings.len()])
        })
        .loads(&[Load::One("second"), Load::One("third"), Load::One("first"), Load::One("fourth")])
        .in_requests(5),

    rejects_a_206_for_the_first_bytes_of_the_file: wrong_range(|range| *range = 0..range.end - range.start),

    rejects_a_206_whose_length_does_not_match_its_range:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => answer(&FILE, request).with("Content-Range", &format!("bytes 0-9/{}", FILE.len())),
        })
        .loads(&[Load::One("second")])
        .fails(&["RANGE_UNSUPPORTED"]),

    a_206_without_content_range_is_accepted_if_its_length_matches:
        Trap::new(|request| answer(&FILE, request).without("Content-Range"))
            .loads(&[Load::One("fourth"), Load::One("second"), Load::One("third")]),

    // The range of a 206 without Content-Range and without Content-Length is unknown. The same applies to a multipart
    // response.
    a_206_of_unknown_range_is_replaced_by_the_whole_file:
        Trap::new(|request| match (&request.range, request.number) {
            (None, _) => whole(&FILE),
            (Some(range), 0) => Reply::new(206, &FILE[1..range.len()]).chunked(),
            (Some(range), _) => Reply::new(206, &FILE[..range.len()]).chunked(),
        })
        .loads(&[Load::One("second"), Load::One("fourth")]),

    a_multipart_206_is_replaced_by_the_whole_file:
        Trap::new(|request| match &request.range {
            None => whole(&FILE),
            Some(range) => Reply::new(206, &FILE[..range.len()])
                .with("Content-Type", "multipart/byteranges; boundary=part"),
        })
        .loads(&[Load::One("second")]),

    rejects_a_206_of_unknown_range:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => Reply::new(206, &FILE[..300_000]).chunked(),
        })
        .loads(&[Load::One("second")])
        .fails(&["RANGE_UNSUPPORTED"])
        .in_requests(3),

    rejects_a_body_that_is_longer_than_its_range:
        Trap::new(|request| match &request.range {
            Some(range) if request.number > 0 => {
                let longer = FILE[range.start..(range.end + 1).min(FILE.len())].to_vec();
                answer(&FILE, request).with_body(&longer).chunked()
            }
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("second")])
        .fails(&["RANGE_UNSUPPORTED"]),

    accepts_a_range_without_content_length:
        Trap::new(|request| answer(&FILE, request).chunked()).loads(&[Load::One("second"), Load::One("fourth")]),

    a_range_with_a_content_encoding_is_replaced_by_the_whole_file:
        Trap::new(|request| match request.range {
            Some(_) => answer(&FILE, request).with("Content-Encoding", "gzip"),
            None => answer(&FILE, request),
        })
        .loads(&[Load::One("second")]),

    an_error_page_with_status_200_is_rejected:
        Trap::new(|_| Reply::new(200, PORTAL).with("Content-Type", "text/html")).fails(&["UNSUPPORTED"]).in_requests(1),

    // The page has neither a validator nor a length, and is longer than the requested bytes.
    an_error_page_during_the_load_is_never_used_as_file_contents:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => Reply::new(200, &PORTAL.repeat(50_000)).chunked(),
        })
        .loads(&[Load::One("second")])
        .fails(&["CHANGED"]),

    // The page is as long as the requested range, and `Content-Range` states the range.
    a_page_in_place_of_a_range_is_never_used_as_file_contents:
        Trap::new(|request| match &request.range {
            Some(range) if request.number > 0 => {
                let page = PORTAL.repeat(range.len() / PORTAL.len() + 1);
                answer(&FILE, request).without("ETag").with_body(&page[..range.len()]).with("Content-Type", "text/html")
            }
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("second")])
        .fails(&["CHANGED"])
        .in_requests(2),

    files_are_read_from_a_server_that_sends_them_as_text_html:
        Trap::new(|request| answer(&FILE, request).with("Content-Type", "text/html"))
            .loads(&[Load::One("second"), Load::One("fourth")]),

    an_empty_file_is_reported:
        Trap::new(|request| answer(b"", request)).fails(&["TRUNCATED"]).with_status(416).in_requests(1),
}

const PORTAL: &[u8] = b"<!DOCTYPE html><html><title>Welcome to the hotel's Wi-Fi</title>";

/// A server that sends another range than the requested one, once the model is open. A retry would not help.
fn wrong_range(change: fn(&mut Range<usize>)) -> Trap {
    Trap::new(move |request| {
        let mut changed = request.clone();
        if request.number > 0 {
            changed.range.as_mut().map(change);
        }
        answer(&FILE, &changed)
    })
    .loads(&[Load::One("second")])
    .fails(&["RANGE_UNSUPPORTED"])
    .in_requests(2)
}
