//! `cargo xtask build`: builds the npm package in `pkg/`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::call_graph::CallGraph;
use crate::parts::PARTS;
use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{bundle, command, imports, npm, on_demand, package_contents, split, types, uses, wasm_target, workspace};

/// The whole WebAssembly module, for apps that pass it to `init`, and for platforms with a file system.
pub const MODULE: &str = "weightstream_bg.wasm";

/// The part of the module that every page loads.
pub const MAIN: &str = "weightstream_main.wasm";

/// The name that wasm-bindgen gives to the module.
const GLUE_MODULE: &str = "glue_bg.wasm";

/// The WebAssembly features that rustc enables by default for the target, and SIMD.
const FEATURES: [&str; 8] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
    "--enable-simd",
];

/// What is optimised last in the whole module: in the one with names, these must tell functions apart.
const LAST_PASSES: [&str; 3] = ["--duplicate-function-elimination", "--remove-unused-module-elements", "--strip-debug"];

/// How a part is optimised. Addresses below 1024 are the end of the stack, which only a stack overflow would reach.
const PASSES_OF_PARTS: [&str; 3] = ["-O3", "--low-memory-unused", "--strip-debug"];

/// The file in the build folder with the calls from the main part to other ones: two names in a line.
pub const ENTRIES: &str = "entries.txt";

const WASM_OPT_LIMIT: Duration = Duration::from_secs(600);

/// The size of the module in bytes, uncompressed and compressed.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Sizes {
    pub raw: usize,
    pub gzip: usize,
    pub brotli: usize,
}

/// Builds the package and returns its folder.
pub fn build(project: &Project) -> Result<PathBuf> {
    let _lock = project.lock()?;
    let manifest = manifest(project)?;
    let built = project.target.join("pkg");
    let sizes = finish(project, &compile(project)?, &built)?;
    types::check_glue(project, &built)?;
    on_demand::write(project, &built)?;
    bundle::write(project, &built, MODULE, &manifest)?;
    let package = project.root.join("pkg");
    package_contents::write(&package, &package_contents::collect(project, &manifest, &built)?)?;

    let kib = |bytes| bytes as f64 / 1024.0;
    eprintln!(
        "build: {MODULE} {:.1} KiB, gzip {:.1} KiB, brotli {:.1} KiB",
        kib(sizes.raw),
        kib(sizes.gzip),
        kib(sizes.brotli)
    );
    eprintln!("build: the package is in {}", package.display());
    Ok(package)
}

/// Generates the glue and the module of the package, unless both were generated from the same inputs before.
/// Optimising and compressing them takes half a minute.
fn finish(project: &Project, compiled: &Path, built: &Path) -> Result<Sizes> {
    let stamp = built.join("made.json");
    let mut fingerprint = Sha256::new_with_prefix(fs::read(compiled)?);
    // The inputs include the tools and the code that runs them. The program itself is not an input, because tests and
    // benchmarks also build the package.
    for source in [
        include_str!("package.rs"),
        include_str!("call_graph.rs"),
        include_str!("imports.rs"),
        include_str!("uses.rs"),
        include_str!("parts.rs"),
        include_str!("split.rs"),
        include_str!("../bindgen/src/main.rs"),
    ] {
        fingerprint.update(source);
    }
    for lock in ["Cargo.lock", "tests/package/package-lock.json"] {
        fingerprint.update(fs::read(project.root.join(lock))?);
    }
    let fingerprint = data_encoding::HEXLOWER.encode(&fingerprint.finalize());
    let known = fs::read(&stamp).ok().and_then(|stamp| serde_json::from_slice::<Stamp>(&stamp).ok());
    if let Some(Stamp { sizes, .. }) = known.filter(|stamp| stamp.fingerprint == fingerprint) {
        return Ok(sizes);
    }
    bind(project, compiled, built)?;
    split_module(compiled, built)?;
    let whole = || {
        let is_optimised =
            optimise(project, &built.join(MODULE), &["-O3", "--skip-pass=duplicate-function-elimination"])?;
        fs::copy(built.join(MODULE), named_module(project))?;
        fs::write(built.join(MODULE), CallGraph::read(&fs::read(built.join(MODULE))?)?.without_names())?;
        Ok(is_optimised && optimise(project, &built.join(MODULE), &LAST_PASSES)?)
    };
    let parts = || {
        let files = [MAIN].into_iter().chain(PARTS.iter().map(|part| part.file));
        let optimised = files.map(|file| optimise(project, &built.join(file), &PASSES_OF_PARTS));
        Ok(optimised.collect::<Result<Vec<_>>>()?.into_iter().all(|is_optimised| is_optimised))
    };
    let is_optimised = thread::scope(|scope| {
        let parts = scope.spawn(parts);
        let is_whole_optimised: Result<bool> = whole();
        let are_parts_optimised: Result<bool> =
            parts.join().map_err(|_| anyhow::anyhow!("the parts cannot be optimised"))?;
        Ok::<_, anyhow::Error>(is_whole_optimised? && are_parts_optimised?)
    })?;
    let sizes = measure(built)?;
    if is_optimised {
        fs::write(stamp, serde_json::to_vec(&Stamp { fingerprint, sizes })?)?;
    }
    Ok(sizes)
}

/// Writes the parts of the module, and a list of the calls between them. `linked` is the file that the compiler wrote.
pub fn split_module(linked: &Path, built: &Path) -> Result<()> {
    let split = split::split(&fs::read(linked)?, &fs::read(built.join(MODULE))?)?;
    let files = [MAIN].into_iter().chain(PARTS.iter().map(|part| part.file));
    for (file, part) in files.zip(split.parts) {
        fs::write(built.join(file), part)?;
    }
    let entries: String = split.entries.into_iter().map(|(from, to)| format!("{from} -> {to}\n")).collect();
    Ok(fs::write(built.join(ENTRIES), entries)?)
}

/// Describes the files in the build folder.
#[derive(Serialize, Deserialize)]
struct Stamp {
    /// The digest of the inputs.
    fingerprint: String,
    sizes: Sizes,
}

/// The module of the last build, with its name section.
pub fn named_module(project: &Project) -> PathBuf {
    project.target.join("pkg").join("named.wasm")
}

/// The sizes of the package's module, with the highest compression levels, as a CDN may use.
pub fn measure(package: &Path) -> Result<Sizes> {
    let module = fs::read(package.join(MODULE))?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&module)?;
    Ok(Sizes { raw: module.len(), gzip: gzip.finish()?.len(), brotli: brotli(&module)?.len() })
}

/// Compresses a file with brotli.
pub fn brotli(mut file: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = Vec::new();
    let params = brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
    brotli::BrotliCompress(&mut file, &mut compressed, &params)?;
    Ok(compressed)
}

/// `pkg.json`, the npm manifest.
pub fn manifest(project: &Project) -> Result<Value> {
    let manifest: Value = serde_json::from_reader(File::open(project.root.join("pkg.json"))?).context("pkg.json")?;
    let version = manifest.get("version").and_then(Value::as_str).unwrap_or("missing");
    ensure!(version == project.version, "the version is {version} in pkg.json and {} in Cargo.toml", project.version);
    Ok(manifest)
}

fn compile(project: &Project) -> Result<PathBuf> {
    let mut cargo = cargo_for_module(project)?;
    cargo.env("CARGO_INCREMENTAL", "0"); // incremental compilation makes the module 9 KiB larger
    command::run(cargo.args(["--profile", "web", "--", "-C", uses::LINKER_FLAG]))?;
    Ok(project.target.join(TARGET).join("web/weightstream.wasm"))
}

/// The cargo command that builds the library, by default an rlib, as a module for browsers. A module that is split must
/// be linked with [`uses::LINKER_FLAG`].
pub fn cargo_for_module(project: &Project) -> Result<Command> {
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["rustc", "--lib", "--crate-type", "cdylib", "--target", TARGET, "--features", "js"]);
    cargo.current_dir(&project.root);
    Ok(cargo)
}

/// Generates the glue and the module of the package from the module that the compiler built.
pub fn bind(project: &Project, module: &Path, built: &Path) -> Result<()> {
    if built.exists() {
        fs::remove_dir_all(built)?;
    }
    fs::create_dir_all(built)?;
    let without_relocations = built.join("linked.wasm");
    fs::write(&without_relocations, uses::without_relocations(&fs::read(module)?)?)?;
    bindgen(project, &without_relocations, "glue", built)?;
    fs::remove_file(without_relocations)?;

    fs::rename(built.join(GLUE_MODULE), built.join(MODULE))?;
    let glue = built.join(bundle::GLUE);
    let mut text = fs::read_to_string(&glue)?;
    for (pattern, replacement) in GLUE_REPLACEMENTS {
        ensure!(text.contains(pattern), "the glue that wasm-bindgen wrote does not contain `{pattern}`");
        text = text.replace(pattern, replacement);
    }
    let module = built.join(MODULE);
    let (shortened, text) = imports::shortened(&fs::read(&module)?, text)?;
    fs::write(module, shortened)?;
    Ok(fs::write(glue, format!("import {{ guard, trackRequest }} from \"./guard.js\";\n{text}"))?)
}

/// Writes the glue and the module that it loads, `{name}.js` and `{name}_bg.wasm`, to a folder.
pub fn bindgen(project: &Project, module: &Path, name: &str, folder: &Path) -> Result<()> {
    let mut bindgen = Command::new(workspace::build(project, "xtask-bindgen")?);
    command::run(bindgen.arg(module).arg(name).arg(folder))
}

/// Replacements in the glue. They set the name of the module, wrap its exports in a guard that detects crashes, track
/// requests so that a crash aborts them, and let closures of a crashed instance do nothing.
const GLUE_REPLACEMENTS: [(&str, &str); 5] = [
    (GLUE_MODULE, MAIN),
    ("wasm = instance.exports;", "wasm = guard(instance.exports, () => __wbg_instance_id++);"),
    ("wasm = wasmInstance.exports;", "wasm = guard(wasmInstance.exports, () => __wbg_instance_id++);"),
    ("new AbortController()", "trackRequest(new AbortController())"),
    ("throw new Error('Cannot invoke closure from previous WASM instance');", "return undefined;"),
];

/// Optimises a module with arguments such as `-O3`, and keeps its name section. Returns `false` if wasm-opt is not
/// available; the package works without it, but is larger and slower.
pub fn optimise(project: &Project, module: &Path, arguments: &[&str]) -> Result<bool> {
    let node_modules = match npm::ready(project) {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("build: {} is not optimised, because wasm-opt is not available: {error:#}", module.display());
            return Ok(false);
        }
    };
    let optimised = module.with_extension("optimised");
    let mut wasm_opt = npm::tool(&node_modules, "binaryen/bin/wasm-opt");
    wasm_opt.args(arguments).arg("--debuginfo").args(FEATURES).arg(module).arg("-o").arg(&optimised);
    command::quiet(&mut wasm_opt, WASM_OPT_LIMIT)?;
    fs::rename(optimised, module)?;
    Ok(true)
}
