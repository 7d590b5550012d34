//! Native tests of the log and of the cache in key-value stores.

mod chunked_kv;
mod log;
