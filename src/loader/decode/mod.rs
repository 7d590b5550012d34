//! The work on the bytes of one component, on the loader's own thread or on others.

pub(crate) mod job;
pub(crate) mod kept;
pub(crate) mod pool;
