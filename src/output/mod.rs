//! What the writers of all formats share: files on their way, how a model is divided into several, and what is lost.

pub(crate) mod destination;
pub(crate) mod file;
pub(crate) mod losses;
pub(crate) mod metadata;
mod partial;
pub(crate) mod shards;
pub(crate) mod target;
pub(crate) mod writer;
