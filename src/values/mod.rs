//! Values of JSON, CBOR and MessagePack, read within a memory budget.

pub(crate) mod budget;
#[cfg(feature = "cbor")]
pub(crate) mod cbor;
#[cfg(all(feature = "cbor", writes))]
pub(crate) mod cbor_writer;
pub(crate) mod described;
#[cfg(feature = "msgpack")]
pub(crate) mod input;
pub(crate) mod json;
mod json_value;
#[cfg(feature = "msgpack")]
pub(crate) mod msgpack;
mod numbers;
