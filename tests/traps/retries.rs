//! Which error responses are retried, and when.

use super::model::FILE;
use super::server::{Reply, answer};
use super::{ATTEMPTS, Load, Trap};

traps! {
    fails_after_a_request_without_a_range_on_a_400: rejected(400).in_requests(2),
    fails_immediately_on_a_401: rejected(401),
    fails_immediately_on_a_403: rejected(403),
    fails_after_a_request_without_a_range_on_a_404: rejected(404).in_requests(2),
    fails_immediately_on_a_410: rejected(410),
    fails_immediately_on_a_403_during_the_load: rejected_during_the_load(403),
    fails_immediately_on_a_404_during_the_load: rejected_during_the_load(404),

    waits_for_the_retry_after_of_a_429: busy_for_a_second(429),
    waits_for_the_retry_after_of_a_503: busy_for_a_second(503),

    a_retry_after_beyond_the_limit_fails_immediately:
        Trap::new(|_| Reply::new(429, b"busy").with("Retry-After", "3600"))
            .fails(&["HTTP"])
            .with_status(429)
            .in_requests(1),

    temporary_errors_of_the_first_request_are_retried:
        Trap::new(|request| match TEMPORARY.get(request.number) {
            Some(status) => Reply::new(*status, b"busy"),
            None => answer(&FILE, request),
        })
        .in_requests(ATTEMPTS + 1),

    a_server_that_keeps_failing_fails_the_load:
        Trap::new(|_| Reply::new(503, b"busy")).fails(&["HTTP"]).with_status(503).in_requests(1 + ATTEMPTS),
}

/// The statuses of temporary errors.
const TEMPORARY: [u16; ATTEMPTS] = [425, 429, 500, 502, 503, 504];

fn rejected(status: u16) -> Trap {
    Trap::new(move |_| Reply::new(status, b"no")).fails(&["HTTP"]).with_status(status).in_requests(1)
}

fn rejected_during_the_load(status: u16) -> Trap {
    let trap = Trap::new(move |request| match request.number {
        0 => answer(&FILE, request),
        _ => Reply::new(status, b"no"),
    });
    trap.loads(&[Load::One("second")]).fails(&["HTTP"]).with_status(status).in_requests(2)
}

fn busy_for_a_second(status: u16) -> Trap {
    let trap = Trap::new(move |request| match request.number {
        1 => Reply::new(status, b"busy").with("Retry-After", "1"),
        _ => answer(&FILE, request),
    });
    trap.loads(&[Load::One("second")]).in_requests(3).with_min_delay(2, 1_000)
}
