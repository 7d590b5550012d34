//! What the fuzz targets do with the bytes that they get, and what must hold whatever these are.

pub mod decoder;
pub mod frames;
pub mod load;
pub mod parser;
pub mod zstd_c;
