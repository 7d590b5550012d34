//! What the cache promises of its log and of key-value stores, natively.

mod keyed;
mod log;
