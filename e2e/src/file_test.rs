//! Tests of files of any format (`openFile`, `createFetch`) and of models as files (`toBlob`) in three browsers, and of
//! tensors on a GPU in Chromium. The tests are in `tests/files`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};
use weightstream_cli::serve::Server;

use crate::cases;
use crate::chromium::Chromium;
use crate::engine::Engine;
use crate::failures;
use crate::page::{Page, SOON};
use crate::webdriver::Browser;
use xtask::package;
use xtask::project::Project;

/// The modules of `tests/files`. Each exported function is a test, which resolves to a list of failures.
const MODULES: [&str; 19] = [
    "remote",
    "blob",
    "fetch",
    "model",
    "rows",
    "rules",
    "converted",
    "dense",
    "layouts",
    "litert",
    "sources",
    "parts",
    "messages",
    "progress",
    "signals",
    "fits",
    "cached_models",
    "chunks",
    "mirrors",
];

/// A module whose tests delete the storage of the cache, so that it has a page of its own.
const FIRST_USE: &str = "first_use";

/// The tests of `first_call`, each of which has a page of its own.
const FIRST_CALLS: [&str; 6] = [
    "readsBlobOfModel",
    "readsBlobOfModelWithIndex",
    "readsBlobOfModelInWorker",
    "opensFile",
    "listsCache",
    "abortsWhileCodeIsLoaded",
];

pub fn run(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    let models = models_with_rows()?;
    let server = Server::new()
        .mount("/tests", project.root.join("tests/files"))
        .mount("/fixtures", project.root.join("tests/fixtures"))
        .mount("/rows", models.path())
        .mount("/pkg", &package);
    let server = server.bind("127.0.0.1:0")?.spawn();
    for engine in Engine::ALL {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/tests/index.html", server.url()))?;
        let mut count = 0;
        for module in MODULES.into_iter().filter(|module| cases::is_wanted(module)) {
            count += failures::keep(run_module(&browser, module), &browser, engine, module)?;
        }
        if cases::is_wanted(FIRST_USE) {
            browser.open(&format!("{}/tests/index.html", server.url()))?;
            count += failures::keep(run_module(&browser, FIRST_USE), &browser, engine, FIRST_USE)?;
        }
        for test in FIRST_CALLS.into_iter().filter(|test| cases::is_wanted(test)) {
            browser.open(&format!("{}/tests/index.html", server.url()))?;
            failures::keep(run_first_call(&browser, test), &browser, engine, test)?;
        }
        println!("{engine}: {} tests of files passed", count + FIRST_CALLS.len());
    }
    let browser = Browser::launch(project, Engine::ChromiumWithGpu)?;
    browser.open(&format!("{}/tests/index.html", server.url()))?;
    let count = failures::keep(run_module(&browser, "gpu"), &browser, Engine::ChromiumWithGpu, "gpu")?;
    println!("{}: {count} tests of tensors on a GPU passed", Engine::ChromiumWithGpu);
    opens_dropped_files(project, &server.url())
}

/// Real drops of files and of a folder that contains the folder of a model.
fn opens_dropped_files(project: &Project, server: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let nested = folder.path().join("downloads/model");
    fs::create_dir_all(&nested)?;
    let sharded = project.root.join("tests/fixtures/safetensors/sharded");
    let mut files = Vec::new();
    for entry in fs::read_dir(&sharded)? {
        let path = entry?.path();
        if !path.to_string_lossy().ends_with(".expected.json") {
            fs::copy(&path, nested.join(path.file_name().context("a file without a name")?))?;
            files.push(path);
        }
    }
    fs::write(folder.path().join("downloads/README.md"), "# A model")?;
    let mut browser = Chromium::launch()?;
    for dropped in [vec![folder.path().join("downloads")], files] {
        let mut page = browser.new_page()?;
        page.open(&format!("{server}/tests/index.html"))?;
        failures::keep(opens_dropped(&mut page, &dropped), &mut page, "Chromium", "dropped files")?;
    }
    println!("Chromium: dropped files and folders passed");
    Ok(())
}

fn opens_dropped(page: &mut Page, dropped: &[PathBuf]) -> Result<()> {
    page.evaluate("import('/tests/drop.js').then(({ listen }) => listen())")?;
    page.drop_files(dropped)?;
    page.wait_for("the dropped model", SOON, "window.dropped")?;
    let names = page.evaluate("window.dropped")?;
    let expected = page.evaluate("import('/tests/drop.js').then(({ expected }) => expected())")?;
    ensure!(names == expected, "{} dropped files: {names} instead of {expected}", dropped.len());
    Ok(())
}

/// The models of `tests/files/rows.js`: one tensor in files of different compression.
fn models_with_rows() -> Result<TempDir> {
    const SHAPE: [usize; 2] = [12288, 1024];
    let folder = tempfile::tempdir()?;
    let length = SHAPE[0] * SHAPE[1];
    // The tensor before is read together with the header.
    let header = json!({
        "first": { "dtype": "U8", "shape": [100_000], "data_offsets": [0, 100_000] },
        "t": { "dtype": "U8", "shape": SHAPE, "data_offsets": [100_000, 100_000 + length] },
    })
    .to_string();
    let mut file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    // Half of the bytes are noise, so that each block has another compressed length.
    let mut state = 1u32;
    file.extend((0..100_000 + length).map(|at| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if at % 7000 < 3500 { (state >> 24) as u8 } else { 0 }
    }));
    let source = folder.path().join("m.safetensors");
    fs::write(&source, file)?;
    let reader = Reader::open(&source)?;
    for (name, compression) in [("own.apr", Compression::Lz4), ("own.zt", Compression::Zstd)] {
        let options = ConvertOptions::default().compression(compression);
        write::convert(&reader, &folder.path().join(name), &options, &())?;
    }
    // The positions are under a key that weightstream does not know, as if another tool had written the file.
    let mut foreign = fs::read(folder.path().join("own.apr"))?;
    let key = b"weightstream.lz4_blocks";
    let at = foreign.windows(key.len()).position(|bytes| bytes == key).context("the file states no positions")?;
    foreign.splice(at..=at, *b"W");
    fs::write(folder.path().join("foreign.apr"), foreign)?;
    Ok(folder)
}

/// Runs all tests of a module on the open page. Returns their number.
pub fn run_module(browser: &Browser, module: &str) -> Result<usize> {
    let results = browser.evaluate(&format!("({RUN_TESTS})('/tests/{module}.js')"))?;
    let results = results.as_object().with_context(|| format!("no results: {results}"))?;
    let failed = results.iter().filter(|(_, failures)| **failures != Value::Array(Vec::new()));
    let failed: Vec<_> = failed.map(|(test, failures)| format!("{test}: {failures:#}")).collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    ensure!(!results.is_empty(), "{module} has no tests");
    Ok(results.len())
}

/// Runs a test of `first_call`.
fn run_first_call(browser: &Browser, test: &str) -> Result<()> {
    let failures = browser.evaluate(&format!("import('/tests/first_call.js').then((tests) => tests.{test}())"))?;
    ensure!(failures == json!([]), "{failures:#}");
    Ok(())
}

/// Runs all tests of a module. Returns the failures by test.
const RUN_TESTS: &str = include_str!("run_tests.js");
