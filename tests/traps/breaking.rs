//! Connections that break and stall.

use super::model::{FILE, place_of};
use super::server::answer;
use super::{ATTEMPTS, HEAD_BYTES, Load, Trap};

traps! {
    resumes_a_broken_body_at_the_next_byte:
        Trap::new(|request| match request.number {
            1 => answer(&FILE, request).cut_after(123_456),
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("third")])
        .in_requests(3)
        .sends_at_most(HEAD_BYTES + place_of("third").len()),

    resumes_the_head_as_well:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request).cut_after(100),
            _ => answer(&FILE, request),
        })
        .in_requests(2)
        .sends_at_most(HEAD_BYTES),

    a_body_that_ends_early_is_never_handed_out:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => answer(&FILE, request).cut_after(0),
        })
        .loads(&[Load::One("third")])
        .fails(&["NETWORK", "TRUNCATED"])
        .in_requests(1 + 1 + ATTEMPTS),

    // A body without `Content-Length` whose connection closes: only its range tells that it is not whole.
    a_body_that_ends_early_without_a_length_is_resumed:
        Trap::new(|request| match request.number {
            1 => answer(&FILE, request).without("Content-Length").with("Connection", "close").cut_after(70_000),
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("second")])
        .in_requests(3)
        .sends_at_most(HEAD_BYTES + place_of("second").len()),

    a_long_download_over_a_line_that_breaks_often_still_ends:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            // Three of four requests bring nothing at all.
            number if number % 4 > 0 => answer(&FILE, request).cut_after(0),
            _ => answer(&FILE, request).cut_after(120_000),
        })
        .loads(&[Load::One("third")])
        .sends_at_most(HEAD_BYTES + place_of("third").len()),

    a_stalled_connection_is_replaced:
        Trap::new(|request| match request.number {
            1 => answer(&FILE, request).stall_after(50_000),
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("second")])
        .with_patience(400)
        .in_requests(3)
        .sends_at_most(HEAD_BYTES + place_of("second").len()),

    a_server_that_never_sends_what_it_promised_is_an_error_in_the_end:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => answer(&FILE, request).stall_after(0),
        })
        .loads(&[Load::One("second")])
        .with_patience(400)
        .fails(&["NETWORK"])
        .in_requests(1 + 1 + ATTEMPTS),
}
