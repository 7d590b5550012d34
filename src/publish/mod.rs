//! Publishes models for browsers: checks what a server or CDN does with the files.

pub mod check;
