//! The file server of the `weightstream` command, for programs that serve model files themselves.
//!
//! The command itself is described by `weightstream --help`.

#![warn(clippy::too_many_lines)]
#![deny(missing_docs, unsafe_code)]
#![deny(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]

pub mod serve;
