//! Files that change under the load, and servers that tell little of which version they send.

use super::model::{FILE, place_of};
use super::server::{Reply, Request, answer, whole};
use super::{HEAD_BYTES, Load, Trap};

traps! {
    a_file_of_another_etag_has_changed_and_is_never_mixed:
        changes_in_the_middle(|reply, is_new| reply.with("ETag", if is_new { "\"v2\"" } else { "\"v1\"" })),

    a_file_of_another_date_has_changed_and_is_never_mixed:
        changes_in_the_middle(|reply, is_new| {
            let day = if is_new { 13 } else { 20 };
            reply.without("ETag").with("Last-Modified", &format!("Fri, {day} Nov 2026 00:00:00 GMT"))
        }),

    a_file_of_another_length_has_changed:
        Trap::new(move |request| match request.number {
            0 => answer(&FILE, request).without("ETag"),
            _ => answer(&[&FILE[..], b"more"].concat(), request).without("ETag"),
        })
        .loads(&[Load::One("second")])
        .fails(&["CHANGED"])
        .in_requests(2),

    a_version_that_is_told_late_counts_from_then_on:
        Trap::new(move |request| match request.number {
            0 => answer(&FILE, request).without("ETag"),
            1 => answer(&FILE, request),
            _ => answer(&FILE, request).with("ETag", "\"v2\""),
        })
        .loads(&[Load::One("second"), Load::One("fourth")])
        .fails(&["CHANGED"]),

    // Some servers send another strong ETag with every answer for constant content.
    random_etags_do_not_hinder:
        Trap::new(|request| {
            answer(&FILE, request).cut_after(400_000).with("ETag", &format!("\"{}\"", request.number))
        })
        .loads(&[Load::One("second"), Load::One("third"), Load::Many(&["first", "fourth"])]),

    versions_are_not_mixed_where_etags_are_random:
        changes_without_proof(|reply, request| reply.with("ETag", &format!("\"{}\"", request.number))),

    versions_are_not_mixed_where_only_a_weak_etag_changes:
        changes_without_proof(|reply, request| reply.with("ETag", &format!("W/\"{}\"", request.number))),

    versions_are_not_mixed_where_there_is_no_validator:
        changes_without_proof(|reply, _| reply.without("ETag")),

    versions_are_not_mixed_where_the_date_is_the_same:
        changes_without_proof(|reply, _| {
            reply.without("ETag").with("Last-Modified", "Fri, 13 Nov 2026 00:00:00 GMT")
        }),

    versions_are_not_mixed_where_the_etag_goes_away:
        changes_without_proof(|reply, request| if request.number > 1 { reply.without("ETag") } else { reply }),

    an_etag_that_goes_away_does_not_hinder:
        Trap::new(|request| match request.number {
            0 | 1 => answer(&FILE, request).cut_after(400_000),
            _ => answer(&FILE, request).cut_after(400_000).without("ETag"),
        })
        .loads(&[Load::One("third")]),

    // The head is of one version and the whole body of another, which no header tells.
    a_whole_body_that_begins_otherwise_has_changed:
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

    // Weak ETags differ from server to server of one host and say nothing about bytes.
    weak_etags_do_not_hinder:
        Trap::new(|request| {
            answer(&FILE, request).cut_after(400_000).with("ETag", &format!("W/\"{}\"", request.number))
        })
        .loads(&[Load::One("second"), Load::One("third")]),

    // Its bodies are shorter than what a resumed request overlaps.
    a_line_that_breaks_within_the_overlap_gets_further_without_validators:
        Trap::new(|request| answer(&FILE, request).cut_after(50_000).without("ETag")).loads(&[Load::One("second")]),

    a_missing_etag_does_not_hinder:
        Trap::new(|request| answer(&FILE, request).cut_after(400_000).without("ETag"))
            .loads(&[Load::One("second"), Load::One("third")]),
}

/// The body of a tensor is cut, and whatever is requested of its rest is of another version, whose length and head are
/// the same.
fn changes_without_proof(validators: fn(Reply, &Request) -> Reply) -> Trap {
    Trap::new(move |request| {
        let third = place_of("third");
        let start = request.range.as_ref().map_or(0, |range| range.start);
        let reply = if start > third.start {
            let mut other = FILE.clone();
            other[HEAD_BYTES..].iter_mut().for_each(|byte| *byte ^= 0x55);
            answer(&other, request)
        } else {
            answer(&FILE, request).cut_after(third.start - start + 700_000)
        };
        validators(reply, request)
    })
    .loads(&[Load::One("third")])
    .fails(&["CHANGED"])
}

/// A body is cut, and what comes then is of another version: noticed at once.
fn changes_in_the_middle(version: fn(Reply, bool) -> Reply) -> Trap {
    Trap::new(move |request| match request.number {
        0 => version(answer(&FILE, request), false),
        1 => version(answer(&FILE, request).cut_after(50_000), false),
        _ => version(answer(&FILE, request), true),
    })
    .loads(&[Load::One("second")])
    .fails(&["CHANGED"])
    .in_requests(3)
}
