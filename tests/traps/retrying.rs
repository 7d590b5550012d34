//! When to ask again, and when not.

use super::model::FILE;
use super::server::{Reply, answer};
use super::{ATTEMPTS, Load, Trap};

traps! {
    fails_at_once_on_a_400: refused(400),
    fails_at_once_on_a_401: refused(401),
    fails_at_once_on_a_403: refused(403),
    fails_at_once_on_a_404: refused(404),
    fails_at_once_on_a_410: refused(410),
    fails_at_once_on_a_403_in_the_middle: refused_in_the_middle(403),
    fails_at_once_on_a_404_in_the_middle: refused_in_the_middle(404),

    waits_as_long_as_the_retry_after_of_a_429_says: busy_for_a_second(429),
    waits_as_long_as_the_retry_after_of_a_503_says: busy_for_a_second(503),

    a_server_that_asks_for_more_patience_than_we_have_is_told_at_once:
        Trap::new(|_| Reply::new(429, b"busy").with("Retry-After", "3600"))
            .fails(&["HTTP"])
            .with_status(429)
            .in_requests(1),

    a_server_that_fails_for_a_while_is_asked_again_also_at_first:
        Trap::new(|request| match BUSY.get(request.number) {
            Some(status) => Reply::new(*status, b"busy"),
            None => answer(&FILE, request),
        })
        .in_requests(ATTEMPTS + 1),

    a_server_that_goes_on_failing_is_given_up:
        Trap::new(|_| Reply::new(503, b"busy")).fails(&["HTTP"]).with_status(503).in_requests(1 + ATTEMPTS),
}

/// What can pass.
const BUSY: [u16; ATTEMPTS] = [425, 429, 500, 502, 503, 504];

fn refused(status: u16) -> Trap {
    Trap::new(move |_| Reply::new(status, b"no")).fails(&["HTTP"]).with_status(status).in_requests(1)
}

fn refused_in_the_middle(status: u16) -> Trap {
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
    trap.loads(&[Load::One("second")]).in_requests(3).waits(2, 1_000)
}
