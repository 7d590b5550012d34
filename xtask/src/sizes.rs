//! What each format costs in the module, told from one build: the code that nothing could reach if
//! the functions of the format were not there.
//!
//! That is less than a build without the format saves, since data and what became part of other functions are not counted:
//! of 0.1.0 it is 95 % for apr, 75 % for aero, 62 % for ztensor (in brotli 93 %, 73 %, 66 %).

use std::{fs, thread};

use anyhow::{Result, ensure};

use crate::call_graph::CallGraph;
use crate::package;
use crate::project::Project;

/// A feature of the library with the paths of the functions that it alone compiles.
type Part = (&'static str, &'static [&'static str]);

/// Formats, then what several of them ask for.
const PARTS: [Part; 10] = [
    ("aero", &["weightstream::format::aero::"]),
    ("apr", &["weightstream::format::apr::"]),
    ("burnpack", &["weightstream::format::burnpack::"]),
    ("embd", &["weightstream::format::embd::"]),
    ("gguf", &["weightstream::format::gguf::"]),
    ("safetensors", &["weightstream::format::safetensors::"]),
    ("ztensor", &["weightstream::format::ztensor::"]),
    ("cbor", &["weightstream::format::values::cbor::", "minicbor::"]),
    ("msgpack", &["weightstream::format::values::msgpack::", "rmp::"]),
    ("zstd", &["weightstream::codec::zstd::", "structured_zstd::"]),
];

/// The library's other features.
const NOT_IN_THE_MODULE: [&str; 5] = ["crash-test", "default", "http", "package", "small-jobs"];

/// Prints what each part costs in the module that was built last.
pub(crate) fn print(project: &Project) -> Result<()> {
    let features = project.features.iter().map(String::as_str);
    let mut features: Vec<_> = features.filter(|name| !NOT_IN_THE_MODULE.contains(name)).collect();
    let mut known = PARTS.map(|(name, _)| name);
    features.sort_unstable();
    known.sort_unstable();
    ensure!(features == known, "the library's features are {features:?}, those with a size {known:?}: see sizes.rs");

    let named = fs::read(package::named_module(project))?;
    let module = &CallGraph::read(&named)?;
    let whole = weigh(&module.without_names())?;
    let rests = thread::scope(|scope| {
        let measure = |(_, paths): Part| scope.spawn(move || weigh(&without(module, paths)));
        PARTS.map(measure).map(|thread| thread.join())
    });
    eprintln!("build: {:<14} {:>7} {:>11}", "costs at least", "KiB", "KiB brotli");
    for ((name, _), rest) in PARTS.iter().zip(rests) {
        let rest = rest.map_err(|_| anyhow::anyhow!("{name} cannot be measured"))??;
        let cost = |whole: usize, rest: usize| whole.saturating_sub(rest) as f64 / 1024.0;
        let (raw, brotli) = (cost(whole.0, rest.0), cost(whole.1, rest.1));
        eprintln!("build: {name:<14} {raw:>7.1} {brotli:>11.1}");
    }
    Ok(())
}

fn without(module: &CallGraph, paths: &[&str]) -> Vec<u8> {
    module.without_functions(|name| paths.iter().any(|path| name.contains(path)))
}

/// Bytes as they are, and in brotli.
fn weigh(module: &[u8]) -> Result<(usize, usize)> {
    Ok((module.len(), package::brotli(module)?))
}
