//! `cargo xtask build`: the npm package, in `pkg/`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::call_graph::CallGraph;
use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{command, npm, package_contents, wasm_target, workspace};

/// The one WebAssembly module of the package.
pub const MODULE: &str = "weightstream_bg.wasm";

/// What wasm-bindgen calls the module before we do.
const MODULE_OF_GLUE: &str = "weightstream_glue_bg.wasm";

/// The WebAssembly features that rustc uses for the target by default, and SIMD.
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

const WASM_OPT_LIMIT: Duration = Duration::from_secs(600);

/// How large the module is: as it is, and as servers send it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Sizes {
    pub raw: usize,
    pub gzip: usize,
    pub brotli: usize,
}

/// Builds the package and gives its folder.
pub fn build(project: &Project) -> Result<PathBuf> {
    let _alone = project.alone()?;
    let manifest = manifest(project)?;
    let built = project.target.join("pkg");
    let sizes = finish(project, &compile(project)?, &built)?;
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

/// Makes the glue and the module of the package, unless they were made of the same inputs already: optimising and
/// compressing them takes half a minute.
fn finish(project: &Project, compiled: &Path, built: &Path) -> Result<Sizes> {
    let stamp = built.join("made.json");
    let mut made_of = Sha256::new_with_prefix(fs::read(compiled)?);
    // With which tools, and how. The program itself differs: tests and benchmarks build the package, too.
    for source in [include_str!("package.rs"), include_str!("call_graph.rs"), include_str!("../bindgen/src/main.rs")] {
        made_of.update(source);
    }
    for lock in ["Cargo.lock", "tests/package/package-lock.json"] {
        made_of.update(fs::read(project.root.join(lock))?);
    }
    let made_of = data_encoding::HEXLOWER.encode(&made_of.finalize());
    let known = fs::read(&stamp).ok().and_then(|stamp| serde_json::from_slice::<Made>(&stamp).ok());
    if let Some(Made { sizes, .. }) = known.filter(|made| made.of == made_of) {
        return Ok(sizes);
    }
    bind(project, compiled, built)?;
    let is_optimised = optimise(project, &built.join(MODULE))?;
    let named = fs::read(built.join(MODULE))?;
    fs::write(named_module(project), &named)?;
    fs::write(built.join(MODULE), CallGraph::read(&named)?.without_names())?;
    let sizes = weigh(built)?;
    if is_optimised {
        fs::write(stamp, serde_json::to_vec(&Made { of: made_of, sizes })?)?;
    }
    Ok(sizes)
}

/// What lies in the folder of the build.
#[derive(Serialize, Deserialize)]
struct Made {
    /// The digest of what it was made of.
    of: String,
    sizes: Sizes,
}

/// The module of the last build with the names of its functions.
pub fn named_module(project: &Project) -> PathBuf {
    project.target.join("pkg").join("named.wasm")
}

/// The sizes of the package's module, compressed as hard as the formats allow: what a CDN does once.
pub fn weigh(package: &Path) -> Result<Sizes> {
    let module = fs::read(package.join(MODULE))?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&module)?;
    Ok(Sizes { raw: module.len(), gzip: gzip.finish()?.len(), brotli: brotli(&module)? })
}

/// Bytes in brotli.
pub fn brotli(mut module: &[u8]) -> Result<usize> {
    let mut compressed = Vec::new();
    let params = brotli::enc::BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
    brotli::BrotliCompress(&mut module, &mut compressed, &params)?;
    Ok(compressed.len())
}

/// `pkg.json`, the npm manifest.
pub fn manifest(project: &Project) -> Result<Value> {
    let manifest: Value = serde_json::from_reader(File::open(project.root.join("pkg.json"))?).context("pkg.json")?;
    let version = manifest.get("version").and_then(Value::as_str).unwrap_or("missing");
    ensure!(
        version == project.version,
        "pkg.json says version {version}, Cargo.toml {}: make them equal",
        project.version
    );
    Ok(manifest)
}

fn compile(project: &Project) -> Result<PathBuf> {
    let mut cargo = cargo_for_module(project)?;
    cargo.env("CARGO_INCREMENTAL", "0"); // with 1, as some set it, the module is 9 KiB larger
    command::run(cargo.args(["--profile", "web"]))?;
    Ok(project.target.join(TARGET).join("web/weightstream.wasm"))
}

/// The cargo that makes a module for browsers of a library, which is an rlib by itself.
pub fn cargo_for_module(project: &Project) -> Result<Command> {
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["rustc", "--lib", "--crate-type", "cdylib", "--target", TARGET, "--features", "js"]);
    cargo.current_dir(&project.root);
    Ok(cargo)
}

/// Makes the glue and the module of the package out of what the compiler made.
pub fn bind(project: &Project, module: &Path, built: &Path) -> Result<()> {
    if built.exists() {
        fs::remove_dir_all(built)?;
    }
    let mut bindgen = Command::new(workspace::build(project, "xtask-bindgen")?);
    command::run(bindgen.arg(module).arg("weightstream_glue").arg(built))?;

    fs::rename(built.join(MODULE_OF_GLUE), built.join(MODULE))?;
    let glue = built.join("weightstream_glue.js");
    let mut text = fs::read_to_string(&glue)?;
    for (written, wanted) in GLUE {
        ensure!(text.contains(written), "the glue that wasm-bindgen wrote has no `{written}`");
        text = text.replace(written, wanted);
    }
    Ok(fs::write(glue, format!("import {{ guard, trackRequest }} from \"./weightstream.guard.js\";\n{text}"))?)
}

/// What becomes of which pieces of the glue: the module gets its name, everything enters it through the net that
/// catches its end, its requests are known so that they end with it, and closures of an instance that has ended do
/// nothing.
const GLUE: [(&str, &str); 5] = [
    (MODULE_OF_GLUE, MODULE),
    ("wasm = instance.exports;", "wasm = guard(instance.exports, () => __wbg_instance_id++);"),
    ("wasm = wasmInstance.exports;", "wasm = guard(wasmInstance.exports, () => __wbg_instance_id++);"),
    ("new AbortController()", "trackRequest(new AbortController())"),
    ("throw new Error('Cannot invoke closure from previous WASM instance');", "return undefined;"),
];

/// Keeps the names of functions. The package works without it, only larger and slower; says whether it was done.
fn optimise(project: &Project, module: &Path) -> Result<bool> {
    let node_modules = match npm::ready(project) {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("build: {MODULE} stays as the compiler made it, for want of wasm-opt: {error:#}");
            return Ok(false);
        }
    };
    let optimised = module.with_extension("optimised");
    let mut wasm_opt = npm::tool(&node_modules, "binaryen/bin/wasm-opt");
    wasm_opt.args(["-O3", "--debuginfo"]).args(FEATURES).arg(module).arg("-o").arg(&optimised);
    command::quiet(&mut wasm_opt, WASM_OPT_LIMIT)?;
    fs::rename(optimised, module)?;
    Ok(true)
}
