//! Files that change during a load, and servers with weak or missing validators.

use super::model::{FILE, range_of};
use super::server::{Reply, Request, answer, whole};
use super::{HEADER_BYTES, Load, Trap};

traps! {
    a_changed_etag_fails_the_load:
        changes_in_the_middle(|reply, is_new| reply.with("ETag", if is_new { "\"v2\"" } else { "\"v1\"" })),

    a_changed_last_modified_date_fails_the_load:
        changes_in_the_middle(|reply, is_new| {
            let day = if is_new { 13 } else { 20 };
            reply.without("ETag").with("Last-Modified", &format!("Fri, {day} Nov 2026 00:00:00 GMT"))
        }),

    a_changed_length_fails_the_load:
        Trap::new(move |request| match request.number {
            0 => answer(&FILE, request).without("ETag"),
            _ => answer(&[&FILE[..], b"more"].concat(), request).without("ETag"),
        })
        .loads(&[Load::One("second")])
        .fails(&["CHANGED"])
        .in_requests(2),

    an_etag_that_appears_later_is_checked_from_then_on:
        Trap::new(move |request| match request.number {
            0 => answer(&FILE, request).without("ETag"),
            1 => answer(&FILE, request),
            _ => answer(&FILE, request).with("ETag", "\"v2\""),
        })
        .loads(&[Load::One("second"), Load::One("fourth")])
        .fails(&["CHANGED"]),

    // Some servers send another strong ETag with every response although the content is constant.
    random_etags_do_not_fail_the_load:
        Trap::new(|request| {
            answer(&FILE, request).cut_after(400_000).with("ETag", &format!("\"{}\"", request.number))
        })
        .loads(&[Load::One("second"), Load::One("third"), Load::Many(&["first", "fourth"])]),

    two_servers_with_etags_of_their_own_are_one: servers_take_turns(2, own_etag),

    three_servers_with_etags_of_their_own_are_one: servers_take_turns(3, own_etag),

    two_servers_with_dates_of_their_own_are_one: servers_take_turns(2, own_date),

    three_servers_with_dates_of_their_own_are_one: servers_take_turns(3, own_date),

    servers_with_different_bytes_fail_the_load:
        Trap::new(move |request| {
            let mut other = FILE.clone();
            other[HEADER_BYTES..].iter_mut().for_each(|byte| *byte ^= 0x55);
            let server = request.number % 2;
            own_etag(answer(if server == 0 { &FILE } else { &other }, request), server)
        })
        .loads(&[Load::One("second")])
        .fails(&["CHANGED"]),

    versions_are_not_mixed_with_random_etags:
        changes_unnoticed(|reply, request| reply.with("ETag", &format!("\"{}\"", request.number))),

    versions_are_not_mixed_with_changing_weak_etags:
        changes_unnoticed(|reply, request| reply.with("ETag", &format!("W/\"{}\"", request.number))),

    versions_are_not_mixed_without_validators:
        changes_unnoticed(|reply, _| reply.without("ETag")),

    versions_are_not_mixed_with_equal_dates:
        changes_unnoticed(|reply, _| {
            reply.without("ETag").with("Last-Modified", "Fri, 13 Nov 2026 00:00:00 GMT")
        }),

    versions_are_not_mixed_if_the_etag_disappears:
        changes_unnoticed(|reply, request| if request.number > 1 { reply.without("ETag") } else { reply }),

    a_disappearing_etag_does_not_fail_the_load:
        Trap::new(|request| match request.number {
            0 | 1 => answer(&FILE, request).cut_after(400_000),
            _ => answer(&FILE, request).cut_after(400_000).without("ETag"),
        })
        .loads(&[Load::One("third")]),

    // The header is of one version and the whole body of another, but the HTTP headers are the same.
    a_whole_body_with_a_different_start_fails_the_load:
        Trap::new(move |request| {
            let mut other = FILE.clone();
            other[60_000] ^= 1;
            match request.number {
                0 => answer(&FILE, request).without("ETag"),
                _ => whole(&other).without("ETag"),
            }
        })
        .loads(&[Load::One("second")])
        .fails(&["CHANGED"]),

    // Weak ETags differ between the servers of one host and do not identify the bytes.
    weak_etags_do_not_fail_the_load:
        Trap::new(|request| {
            answer(&FILE, request).cut_after(400_000).with("ETag", &format!("W/\"{}\"", request.number))
        })
        .loads(&[Load::One("second"), Load::One("third")]),

    // The bodies are shorter than the overlap of a resumed request.
    connections_that_break_within_the_overlap_make_progress_without_validators:
        Trap::new(|request| answer(&FILE, request).cut_after(50_000).without("ETag")).loads(&[Load::One("second")]),

    a_missing_etag_does_not_fail_the_load:
        Trap::new(|request| answer(&FILE, request).cut_after(400_000).without("ETag"))
            .loads(&[Load::One("second"), Load::One("third")]),
}

/// The body of a tensor is truncated, and responses for the rest are of another version with the same length and
/// header.
fn changes_unnoticed(validators: fn(Reply, &Request) -> Reply) -> Trap {
    Trap::new(move |request| {
        let third = range_of("third");
        let start = request.range.as_ref().map_or(0, |range| range.start);
        let reply = if start > third.start {
            let mut other = FILE.clone();
            other[HEADER_BYTES..].iter_mut().for_each(|byte| *byte ^= 0x55);
            answer(&other, request)
        } else {
            answer(&FILE, request).cut_after(third.start - start + 700_000)
        };
        validators(reply, request)
    })
    .loads(&[Load::One("third")])
    .fails(&["CHANGED"])
}

/// A body is truncated, and the next response is of another version, which its headers show.
fn changes_in_the_middle(version: fn(Reply, bool) -> Reply) -> Trap {
    Trap::new(move |request| match request.number {
        0 => version(answer(&FILE, request), false),
        1 => version(answer(&FILE, request).cut_after(50_000), false),
        _ => version(answer(&FILE, request), true),
    })
    .loads(&[Load::One("second")])
    .fails(&["CHANGED"])
    .in_requests(3 + REQUESTS_FOR_THE_OLD_VERSION)
}

/// Requests after which a file whose first validator was not sent again has changed.
const REQUESTS_FOR_THE_OLD_VERSION: usize = 4;

/// Several servers of one host take turns: each has validators of its own for the same bytes.
fn servers_take_turns(count: usize, validators: fn(Reply, usize) -> Reply) -> Trap {
    Trap::new(move |request| validators(answer(&FILE, request).cut_after(400_000), request.number % count)).loads(&[
        Load::One("second"),
        Load::One("third"),
        Load::Many(&["first", "fourth"]),
    ])
}

fn own_etag(reply: Reply, server: usize) -> Reply {
    reply.with("ETag", &format!("\"{server}\""))
}

fn own_date(reply: Reply, server: usize) -> Reply {
    reply.without("ETag").with("Last-Modified", &format!("Fri, 13 Nov 2026 00:00:0{server} GMT"))
}
