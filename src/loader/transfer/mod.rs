//! Transfers the bytes of one file: requests, resumption after failures, and detection of changed files.

pub(crate) mod file;
pub(crate) mod known_blocks;
mod next_request;
pub(crate) mod overlap;
pub(crate) mod priority;
pub(crate) mod range_reader;
mod seek_table;
pub(crate) mod seen_blocks;
pub(crate) mod signed;
pub(crate) mod stats;
pub(crate) mod unpack;
