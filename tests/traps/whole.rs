//! Servers that answer each Range with the whole file.

use super::model::FILE;
use super::server::whole;
use super::{Load, Trap};

traps! {
    streams_the_whole_body_once_where_ranges_are_ignored:
        Trap::new(|_| whole(&FILE)).loads(&[ALL]).in_requests(1).sends_at_most(FILE.len()),

    what_lies_further_on_is_read_from_the_same_body:
        Trap::new(|_| whole(&FILE))
            .loads(&[Load::One("second"), Load::One("third"), Load::One("fourth")])
            .in_requests(1),

    cuts_the_right_slice_out_of_a_whole_body:
        Trap::new(|_| whole(&FILE))
            .loads(&[Load::One("fourth"), Load::One("third"), Load::One("second"), Load::One("first")]),

    a_whole_body_of_unknown_length_is_read_as_well:
        Trap::new(|_| whole(&FILE).chunked()).loads(&[Load::Many(&["second", "fourth"]), Load::One("third")]),

    a_whole_body_that_breaks_is_asked_for_again:
        Trap::new(|request| match request.number {
            0 => whole(&FILE).cut_after(1_000_000),
            _ => whole(&FILE),
        })
        .loads(&[ALL])
        .in_requests(2)
        .sends_at_most(1_000_000 + FILE.len()),

    // To get to a tensor at the end of such a body takes as long as all before it.
    what_is_skipped_is_no_stall:
        Trap::new(|_| whole(&FILE).slowly(5)).loads(&[Load::One("fourth")]).with_patience(400).in_requests(1),
}

const ALL: Load = Load::Many(&["first", "second", "third", "fourth"]);
