//! Servers that respond to each Range request with the whole file.

use super::model::FILE;
use super::server::whole;
use super::{Load, Trap};

traps! {
    streams_the_whole_body_once_if_ranges_are_ignored:
        Trap::new(|_| whole(&FILE)).loads(&[ALL]).in_requests(1).sends_at_most(FILE.len()),

    later_tensors_are_read_from_the_same_body:
        Trap::new(|_| whole(&FILE))
            .loads(&[Load::One("second"), Load::One("third"), Load::One("fourth")])
            .in_requests(1),

    extracts_the_right_range_from_a_whole_body:
        Trap::new(|_| whole(&FILE))
            .loads(&[Load::One("fourth"), Load::One("third"), Load::One("second"), Load::One("first")]),

    a_whole_body_of_unknown_length_is_read:
        Trap::new(|_| whole(&FILE).chunked()).loads(&[Load::Many(&["second", "fourth"]), Load::One("third")]),

    a_broken_whole_body_is_requested_again:
        Trap::new(|request| match request.number {
            0 => whole(&FILE).cut_after(1_000_000),
            _ => whole(&FILE),
        })
        .loads(&[ALL])
        .in_requests(2)
        .sends_at_most(1_000_000 + FILE.len()),

    // Reading a tensor at the end of such a body takes as long as receiving everything before it.
    skipping_bytes_does_not_count_as_a_stall:
        Trap::new(|_| whole(&FILE).slowly(5)).loads(&[Load::One("fourth")]).with_stall_timeout(400).in_requests(1),
}

const ALL: Load = Load::Many(&["first", "second", "third", "fourth"]);
