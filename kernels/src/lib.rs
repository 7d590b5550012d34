//! The inner loops of [weightstream](https://crates.io/crates/weightstream) that need optimization level 3. The npm
//! package compiles most other code for size; a profile sets the level of a whole crate.

#![deny(missing_docs)]

#[cfg(feature = "byte_streams")]
pub mod byte_streams;
pub mod codes;
pub mod crc;
mod crc_table;
pub mod floats;
#[cfg(feature = "huffman")]
pub mod huffman;
#[cfg(feature = "lz4")]
pub mod lz4;
