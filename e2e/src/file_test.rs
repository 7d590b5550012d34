//! Tests of files of any format (`openFile`, `createFetch`) and of models as files (`toBlob`) in three browsers, and of
//! tensors on a GPU in Chromium. The tests are in `tests/files`.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weightstream_cli::serve::Server;

use crate::engine::Engine;
use crate::webdriver::Browser;
use xtask::package;
use xtask::project::Project;

/// The modules of `tests/files`. Each exported function is a test, which resolves to a list of failures.
const MODULES: [&str; 7] = ["remote", "blob", "fetch", "model", "converted", "dense", "litert"];

pub fn run(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    let server = Server::new()
        .mount("/tests", project.root.join("tests/files"))
        .mount("/fixtures", project.root.join("tests/fixtures"))
        .mount("/pkg", &package);
    let server = server.bind("127.0.0.1:0")?.spawn();
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/tests/index.html", server.url()))?;
        let mut count = 0;
        for module in MODULES {
            count += run_module(&browser, engine, module)?;
        }
        println!("{engine}: {count} tests of files passed");
    }
    let browser = Browser::launch(project, Engine::ChromiumWithGpu)?;
    browser.open(&format!("{}/tests/index.html", server.url()))?;
    let count = run_module(&browser, Engine::ChromiumWithGpu, "gpu")?;
    println!("{}: {count} tests of tensors on a GPU passed", Engine::ChromiumWithGpu);
    Ok(())
}

/// Runs all tests of a module on the open page. Returns their number.
pub fn run_module(browser: &Browser, engine: Engine, module: &str) -> Result<usize> {
    let results = browser.evaluate(&format!("({RUN_TESTS})('/tests/{module}.js')"))?;
    let results = results.as_object().with_context(|| format!("{engine}, {module}: {results}"))?;
    for (test, failures) in results {
        ensure!(*failures == Value::Array(Vec::new()), "{engine}, {module}, {test}: {failures:#}");
    }
    ensure!(!results.is_empty(), "{module} has no tests");
    Ok(results.len())
}

/// Runs all tests of a module. Returns the failures by test.
const RUN_TESTS: &str = include_str!("run_tests.js");
