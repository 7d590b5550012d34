//! Fixtures and models that the tests of formats share with those in `tests/`.

#[path = "../tests/corpus/mod.rs"]
pub(crate) mod corpus;
#[cfg(feature = "write")]
#[path = "../tests/write/model.rs"]
pub(crate) mod model;
