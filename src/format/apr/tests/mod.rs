//! APR files made by hand, for what no fixture shows: each layout's quirks, and what is refused.

mod apr1;
mod aprn;
mod draft;
mod files;
mod manifest;
mod shipped;
