//! The code of the fuzz targets: runs the library on arbitrary inputs and checks its invariants.

pub mod byte_streams;
pub mod decoder;
pub mod floats;
pub mod frames;
pub mod load;
pub mod parser;
pub mod zstd_c;
pub mod zstd_literals;
