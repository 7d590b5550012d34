//! Tests of error handling in a real browser. After a crash of the module every promise rejects with the cause, closed
//! loaders stop and free their memory, and invalid options and files are rejected.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use crate::cases;
use crate::chromium::Chromium;
use crate::failures;
use xtask::bundle::{self, Bundler};
use xtask::project::Project;
use xtask::wasm_target::TARGET;
use xtask::{command, package, uses};

/// Each module of `tests/crash` and the tests that it exports. Each test resolves to a list of failures.
const TESTS: [(&str, &[&str]); 5] = [
    ("crashes", &["endings"]),
    ("memory", &["into", "bodies", "caches", "cachedInto"]),
    ("closing", &["paused", "forgotten", "memory", "inWorker"]),
    ("options", &["headersAndSignals", "refused", "ofCalls", "undefinedIsTheDefault", "otherRealms"]),
    ("files", &["chosen"]),
];

/// Models in several files. The first file of each references the others.
const SEVERAL_FILES: [&[&str]; 4] = [
    &["apr/sharded/model.apr.json", "apr/sharded/model-0000?-of-00003.apr"],
    &["safetensors/sharded/model.safetensors.index.json", "safetensors/sharded/model-0000?-of-00003.safetensors"],
    &["gguf/split/model-0000?-of-00003.gguf"],
    &[
        "aero/set/model.aeroset.json",
        "aero/set/index.aero",
        "aero/set/part-000.aero",
        "aero/set/part-001.aero",
        "aero/set/part-002.aero",
    ],
];

/// Runs one test of a module. Returns its failures as JSON.
const RUN_TEST: &str = include_str!("run_test.js");

/// Limits WebAssembly memory to 30 MiB, so that an index of a few MiB crashes the module.
const LOW_MEMORY_FLAG: &str = "--js-flags=--wasm-max-mem-pages=480";

pub fn run(project: &Project) -> Result<()> {
    let package = with_hooks(project, "crash-test")?;
    fs::write(package.join(bundle::WORKER), Bundler::new(project, &package)?.worker()?)?;
    let server = Server::new()
        .mount("/", project.root.join("tests/fixtures"))
        .mount("/tests", project.root.join("tests/crash"))
        .mount("/pkg", &package)
        .bind("127.0.0.1:0")?
        .spawn();
    let url = &*server.url();
    let mut browser = Chromium::launch_with(&["--js-flags=--expose-gc"])?;
    let mut count = 0;
    for (module, tests) in TESTS {
        for test in tests.iter().filter(|test| cases::is_wanted(test)) {
            run_test(&mut browser, url, module, test, &Value::Null)?;
            count += 1;
        }
    }
    let models: Vec<Vec<_>> =
        SEVERAL_FILES.iter().map(|model| model.iter().flat_map(|path| numbered(path)).collect()).collect();
    run_test(&mut browser, url, "files", "fixtures", &json!(models))?;
    run_test(&mut Chromium::launch_with(&[LOW_MEMORY_FLAG])?, url, "crashes", "outOfMemory", &Value::Null)?;
    println!("{} tests passed", count + 2);
    Ok(())
}

/// Expands a `?` in a path to the numbers 1 to 3.
fn numbered(path: &str) -> Vec<String> {
    let paths = (1..=3).map(|number| format!("/{}", path.replace('?', &number.to_string())));
    if path.contains('?') { paths.collect() } else { vec![format!("/{path}")] }
}

fn run_test(browser: &mut Chromium, url: &str, module: &str, test: &str, argument: &Value) -> Result<()> {
    let mut page = browser.new_page()?;
    page.open(&format!("{url}/tests/index.html"))?;
    let call = format!("({RUN_TEST})('/tests/{module}.js', '{test}', {argument})");
    let result = page.evaluate(&call).and_then(|result| {
        let failures: Vec<String> = serde_json::from_str(result.as_str().context("the page returned no text")?)?;
        ensure!(failures.is_empty(), "\n  {}", failures.join("\n  "));
        Ok(())
    });
    failures::keep(result, &mut page, "Chromium", &format!("{module}: {test}"))
}

/// Builds the package without its worker, hardly optimised, and with test hooks. Each test has its own package.
pub fn with_hooks(project: &Project, test: &str) -> Result<std::path::PathBuf> {
    let mut cargo = package::cargo_for_module(project)?;
    // Unoptimised, functions that every release inlines would be in other parts of the module than their callers.
    cargo.args(["--config", "profile.dev.package.weightstream.opt-level=1"]);
    // Optimised in 16 units, it takes half as long again.
    cargo.args(["--config", "profile.dev.package.weightstream.codegen-units=1"]);
    let flags = ["--", "--cfg", "weightstream_test_hooks", "-C", uses::LINKER_FLAG];
    command::run(cargo.args(flags))?;
    let package = project.target.join(test);
    let linked = project.target.join(TARGET).join("debug/weightstream.wasm");
    package::bind(project, &linked, &package)?;
    package::split_module(&linked, &package)?;
    let manifest = package::manifest(project)?;
    Bundler::new(project, &package)?.write_entry_points(&manifest, &[bundle::GLUE_ENTRY], &package)?;
    Ok(package)
}
