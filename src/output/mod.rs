//! Shared code of the writers of all formats: output files, sharding, and losses.

pub(crate) mod created_folders;
pub(crate) mod destination;
pub(crate) mod file;
pub(crate) mod kept;
pub(crate) mod losses;
pub(crate) mod metadata;
pub(crate) mod npy;
pub(crate) mod origin;
mod partial;
pub(crate) mod shards;
pub(crate) mod target;
pub(crate) mod vocabulary;
pub(crate) mod weight_map;
pub(crate) mod writer;
