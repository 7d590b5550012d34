//! The bytes of one file: requests, resumption after failures, and proof that a resumed file is still the same.

pub(crate) mod file;
pub(crate) mod overlap;
pub(crate) mod priority;
pub(crate) mod range_reader;
pub(crate) mod stats;
pub(crate) mod unpack;
