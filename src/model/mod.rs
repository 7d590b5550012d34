//! What makes up a model, without I/O: which file to open, and how its files become one model.

pub(crate) mod assembly;
pub(crate) mod finder;
