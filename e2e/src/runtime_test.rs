//! Runtimes, unpatched from npm, with weights from the package. Their outputs must equal those with plain weights. The
//! tests are in `tests/runtimes`.

use std::path::Path;

use anyhow::Result;
use weightstream::native::Reader;
use weightstream::write::{self, Compression, ConvertOptions};
use weightstream_cli::serve::Server;

use crate::engine::Engine;
use crate::file_test::run_module;
use crate::webdriver::Browser;
use xtask::project::Project;
use xtask::{npm, package};

/// A module of `tests/runtimes`.
struct Runtime {
    module: &'static str,
    /// The browsers that the runtime supports.
    engines: &'static [Engine],
}

const RUNTIMES: [Runtime; 1] = [Runtime { module: "onnxruntime", engines: &[Engine::Chromium, Engine::Firefox] }];

pub fn run(project: &Project) -> Result<()> {
    let files = ["package.json", "package-lock.json", ".npmrc"];
    let node_modules = npm::installed(project, "runtimes", "tests/runtimes", &files)?;
    let package = package::build(project)?;
    let models = tempfile::tempdir()?;
    write_linear_layer(models.path())?;
    let server = Server::new()
        .mount("/linear", models.path())
        .mount("/tests", project.root.join("tests/runtimes"))
        .mount("/files", project.root.join("tests/files"))
        .mount("/npm", node_modules)
        .mount("/pkg", &package)
        .bind("127.0.0.1:0")?
        .spawn();
    for engine in [Engine::Chromium, Engine::Firefox] {
        let browser = Browser::launch(project, engine)?;
        for Runtime { module, .. } in RUNTIMES.iter().filter(|runtime| runtime.engines.contains(&engine)) {
            browser.open(&format!("{}/tests/index.html", server.url()))?;
            let count = run_module(&browser, engine, module)?;
            println!("{engine}: {count} tests of {module} passed");
        }
    }
    Ok(())
}

/// Small enough for several files.
const SHARD_BYTES: u64 = 100_000;

/// The shape of the layer, which `tests/runtimes/graph.js` has too.
const ROWS: usize = 512;
const COLUMNS: usize = 768;

/// Writes the weights of a linear layer: as `model.apr`, compressed and in several files, and as `model.safetensors`,
/// the same model as one SafeTensors file without metadata.
fn write_linear_layer(folder: &Path) -> Result<()> {
    let entry = |name: &str, shape: &[usize], start: usize, count: usize| {
        let offsets = [start * 4, (start + count) * 4];
        format!(r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":{offsets:?}}}"#)
    };
    let (weights, bias) =
        (entry("W", &[ROWS, COLUMNS], 0, ROWS * COLUMNS), entry("b", &[COLUMNS], ROWS * COLUMNS, COLUMNS));
    let header = format!("{{{weights},{bias}}}");
    let values = (0..(ROWS + 1) * COLUMNS).flat_map(|at| ((at * 31 % 257) as f32 / 257.0 - 0.5).to_le_bytes());
    let file: Vec<u8> =
        (header.len() as u64).to_le_bytes().into_iter().chain(header.into_bytes()).chain(values).collect();
    let model = Reader::from_bytes(vec![("model.safetensors".to_owned(), file)])?;
    let compressed =
        ConvertOptions::default().with_compression(Compression::Lz4).with_max_shard_bytes(Some(SHARD_BYTES));
    write::convert(&model, &folder.join("model.apr"), &compressed, &())?;
    let plain = ConvertOptions::default().with_omit_metadata(true);
    write::convert(&model, &folder.join("model.safetensors"), &plain, &())?;
    Ok(())
}
