//! Files that change under the load, and servers that tell little of which version they send.

use super::model::FILE;
use super::server::{Reply, answer, whole};
use super::{Load, Trap};

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
            number => answer(&FILE, request).with("ETag", &format!("\"v{number}\"")),
        })
        .loads(&[Load::One("second"), Load::One("fourth")])
        .fails(&["CHANGED"]),

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

    a_missing_etag_does_not_hinder:
        Trap::new(|request| answer(&FILE, request).cut_after(400_000).without("ETag"))
            .loads(&[Load::One("second"), Load::One("third")]),
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
