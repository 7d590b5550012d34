//! Connections that break or stall.

use super::model::{FILE, range_of};
use super::server::answer;
use super::{ATTEMPTS, HEADER_BYTES, Load, Trap};

traps! {
    resumes_a_broken_body_at_the_next_byte:
        Trap::new(|request| match request.number {
            1 => answer(&FILE, request).cut_after(123_456),
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("third")])
        .in_requests(3)
        .sends_at_most(HEADER_BYTES + range_of("third").len()),

    resumes_the_header:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request).cut_after(100),
            _ => answer(&FILE, request),
        })
        .in_requests(2)
        .sends_at_most(HEADER_BYTES),

    a_truncated_body_is_never_returned:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => answer(&FILE, request).cut_after(0),
        })
        .loads(&[Load::One("third")])
        .fails(&["NETWORK", "TRUNCATED"])
        .in_requests(1 + 1 + ATTEMPTS),

    // The body has no `Content-Length` and the connection closes: only the range shows that the body is truncated.
    a_truncated_body_without_content_length_is_resumed:
        Trap::new(|request| match request.number {
            1 => answer(&FILE, request).without("Content-Length").with("Connection", "close").cut_after(70_000),
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("second")])
        .in_requests(3)
        .sends_at_most(HEADER_BYTES + range_of("second").len()),

    a_long_download_over_an_unreliable_connection_completes:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            // Three of four responses have no body bytes.
            number if number % 4 > 0 => answer(&FILE, request).cut_after(0),
            _ => answer(&FILE, request).cut_after(120_000),
        })
        .loads(&[Load::One("third")])
        .sends_at_most(HEADER_BYTES + range_of("third").len()),

    a_stalled_connection_is_replaced:
        Trap::new(|request| match request.number {
            1 => answer(&FILE, request).stall_after(50_000),
            _ => answer(&FILE, request),
        })
        .loads(&[Load::One("second")])
        .with_stall_timeout(400)
        .in_requests(3)
        .sends_at_most(HEADER_BYTES + range_of("second").len()),

    a_server_that_always_stalls_fails_the_load:
        Trap::new(|request| match request.number {
            0 => answer(&FILE, request),
            _ => answer(&FILE, request).stall_after(0),
        })
        .loads(&[Load::One("second")])
        .with_stall_timeout(400)
        .fails(&["NETWORK"])
        .in_requests(1 + 1 + ATTEMPTS),
}
