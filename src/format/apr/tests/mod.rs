//! Tests with hand-built APR files, for properties of the layouts that no fixture has, and for invalid files.

mod apr1;
mod aprn;
mod draft;
mod files;
mod manifest;
mod shipped;
