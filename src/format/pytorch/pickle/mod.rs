//! An interpreter of pickles that executes nothing: it builds a graph of the objects, in which every class and function
//! is only a name.
//!
//! Source: the documentation of Python's `pickletools`, protocols 2 to 5. Calls become objects with their arguments;
//! the code that walks the graph decides what they mean. Opcodes of protocols 0 and 1, which write numbers as text, are
//! refused, as are those that need a registry of the program (`EXT1`, `PERSID`).

mod calls;
mod graph;
mod machine;
mod opcode;

pub(super) use graph::{Graph, Node, Object, Span, Value};
pub(super) use machine::{Failure, Loaded, load};

/// The maximum length of a pickle. That of 100,000 tensors has 25 MB. Prevents a file from exhausting memory.
pub(super) const MAX_PICKLE_BYTES: u64 = 64 << 20;

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
mod tests;
