//! Detects archives of arrays by the name of their first member.

use crate::format::foreign::first_name_in_zip;

/// An archive without members begins with its end record.
const EMPTY: &[u8] = b"PK\x05\x06";

pub(super) fn recognises(head: &[u8]) -> bool {
    first_name_in_zip(head).is_some_and(|name| name.ends_with(b".npy")) || head.starts_with(EMPTY)
}
