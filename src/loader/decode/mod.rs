//! Decodes and digests the bytes of components, on the loader's thread or on others.

pub(crate) mod job;
pub(crate) mod output_buffer;
pub(crate) mod pool;
