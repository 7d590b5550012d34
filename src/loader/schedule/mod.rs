//! Which bytes one call reads, over how many connections, and in which order tensors come out of them.

pub(crate) mod batch;
pub(crate) mod checks;
mod component;
pub(crate) mod concurrency;
pub(crate) mod connections;
pub(crate) mod file_checks;
pub(crate) mod large;
mod large_parts;
pub(crate) mod memory_budget;
mod offload;
pub(crate) mod rows;
mod run;
mod share;
pub(crate) mod target;
