//! Code shared by the project's tasks, end-to-end tests and benchmarks: installing tools, building the npm package and
//! preparing the demo model.

#![warn(clippy::too_many_lines)]
#![allow(missing_debug_implementations, clippy::missing_errors_doc, reason = "used only by programs of this workspace")]

pub mod api;
pub mod apt;
pub mod bridges;
pub mod browser;
pub mod bundle;
pub mod call_graph;
pub mod cargo_tools;
pub mod command;
pub mod cpu_time;
pub mod demo;
pub mod demo_folder;
pub mod docs_site;
pub mod environment;
pub mod expected;
pub mod fuzz;
#[cfg(test)]
mod guides;
pub mod imports;
#[cfg(test)]
mod layers;
#[cfg(test)]
pub mod line_length;
pub mod links;
pub mod linted;
pub mod miri;
pub mod model;
pub mod msrv;
pub mod npm;
pub mod on_demand;
pub mod package;
pub mod package_contents;
pub mod packaged;
pub mod parallel;
pub mod parts;
pub mod process_tree;
pub mod project;
pub mod public_names;
#[cfg(test)]
pub mod readme_figures;
pub mod reference;
pub mod release;
#[cfg(test)]
pub mod repeated;
pub mod rustdoc;
pub mod scripts;
pub mod setup;
pub mod sizes;
pub mod small;
pub mod sources;
#[allow(clippy::too_many_lines, reason = "two functions are longer")]
pub mod split;
pub mod suite;
pub mod synthetic;
pub mod types;
pub mod uses;
pub mod wasm_sysroot;
pub mod wasm_target;
pub mod workspace;
