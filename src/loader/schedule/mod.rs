//! Schedules the reads of one call: which ranges, over how many connections, and in which order tensors complete.

pub(crate) mod batch;
pub(crate) mod checks;
mod component;
pub(crate) mod concurrency;
pub(crate) mod connections;
pub(crate) mod early_parts;
pub(crate) mod file_checks;
pub(crate) mod large;
mod large_parts;
pub(crate) mod memory_budget;
mod offload;
pub(crate) mod planned;
pub(crate) mod rows;
mod run;
mod share;
mod side_by_side;
pub(crate) mod target;
pub(crate) mod tied;
