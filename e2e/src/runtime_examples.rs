//! Opens the examples that load a model into a runtime, with the runtimes that `tests/runtimes` pins.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use crate::chromium::Chromium;
use crate::failures;
use crate::minilm;
use crate::page::Page;
use crate::runtime_test;
use xtask::command;
use xtask::project::Project;

/// A page has a form, and shows in `#status` what came of it.
struct Example {
    name: &'static str,
    /// The query of the page, in which `HOST` is the address of the server.
    query: &'static str,
    /// Scripts that fill in the form.
    input: &'static str,
    /// A regular expression that the final status matches.
    status: &'static str,
}

const EXAMPLES: [Example; 5] = [
    Example {
        name: "service-worker",
        query: "",
        input: "document.querySelector('[name=file]').value = '/models/model.gguf'",
        status: "^(\\d+) bytes of \\1 were loaded",
    },
    Example {
        name: "tfjs",
        query: "",
        input: "document.querySelector('[name=model]').value = '/models/tfjs/model.json'",
        status: "^10 values",
    },
    Example { name: "transformers", query: "?host=HOST/hub/", input: "", status: "The similarity is 0\\.[1-9]" },
    Example {
        name: "web-llm",
        query: "?model=HOST/models/tiny&library=HOST/models/tiny.wasm",
        input: "",
        status: "^The model is in the cache of web-llm$",
    },
    Example {
        name: "wllama",
        query: "",
        input: "document.querySelector('[name=model]').value = '/models/model.gguf'",
        status: "^[1-9]\\d* characters were written",
    },
];

/// The time that a page may take to load a runtime and a model.
const LOAD_LIMIT: Duration = Duration::from_secs(120);

const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// wllama asks for a GPU, which headless Chromium does not have.
const NO_GPU: &str = "No available adapters";

/// Writes a small GGUF model. The arguments are the module with the model and the folder to write to.
const WRITE_GGUF: &str = "const { llamaModel } = await import(process.argv[1]);
(await import('node:fs')).writeFileSync(`${process.argv[2]}/model.gguf`, llamaModel()[0]);";

/// Writes a small model of TensorFlow.js, in the same way.
const WRITE_TFJS: &str = "const { graphModel, sharded } = await import(process.argv[1]);
const { mkdirSync, writeFileSync } = await import('node:fs');
mkdirSync(`${process.argv[2]}/tfjs`);
for (const [name, bytes] of Object.entries(sharded(graphModel(), [100_000, Infinity])))
  writeFileSync(`${process.argv[2]}/tfjs/${name}`, bytes);";

/// Opens the pages in `examples`, with the package.
pub fn run(project: &Project, examples: &Path, package: &Path) -> Result<()> {
    let node_modules = runtime_test::node_modules(project)?;
    let models = tempfile::tempdir()?;
    write_model(project, "gguf", WRITE_GGUF, models.path())?;
    write_model(project, "tfjs_models", WRITE_TFJS, models.path())?;
    write_mlc_model(models.path())?;
    let mut server = Server::new().mount("/models", models.path());
    for Example { name, .. } in EXAMPLES {
        // As `npm install` in the folder of the example installs them.
        server = server
            .mount(&format!("/{name}"), examples.join(name))
            .mount(&format!("/{name}/node_modules"), &node_modules)
            .mount(&format!("/{name}/node_modules/weightstream"), package);
    }
    for (path, file) in minilm::ready(project)? {
        server = server.mount(&format!("/hub/Xenova/all-MiniLM-L6-v2/resolve/main/{path}"), file);
    }
    let server = server.bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    for example in &EXAMPLES {
        let mut page = browser.new_page()?;
        let shown = shows_result(&mut page, &server.url(), example);
        let shown = failures::keep(shown, &mut page, "Chromium", &format!("examples/{}", example.name))?;
        println!("examples/{} shows {shown}", example.name);
    }
    Ok(())
}

/// Runs an example. Returns the result that it shows.
fn shows_result(page: &mut Page, site: &str, example: &Example) -> Result<Value> {
    let Example { name, query, input, status } = example;
    page.open(&format!("{site}/{name}/{}", query.replace("HOST", site)))?;
    page.evaluate(input)?;
    page.click("form button")?;
    let text = "document.querySelector('#status').textContent";
    let is_done = format!("!/^(|Loading.*|Writing.*)$/.test({text})");
    page.wait_for("the result", LOAD_LIMIT, &is_done)?;
    let is_expected = page.evaluate(&format!("/{status}/.test({text})"))?;
    let shown = page.evaluate(text)?;
    ensure!(is_expected == true, "it shows {shown}");
    let mut console_errors = page.take_console_errors()?;
    console_errors.retain(|error| !error.contains(NO_GPU));
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    Ok(shown)
}

/// Runs a script that writes a model of a module in `tests/runtimes`.
pub fn write_model(project: &Project, module: &str, script: &str, folder: &Path) -> Result<()> {
    // Node.js takes the extension `.mjs` for a module.
    let copy = folder.join(module).with_extension("mjs");
    fs::copy(project.root.join("tests/runtimes").join(module).with_extension("js"), &copy)?;
    let mut node = Command::new("node");
    node.args(["--input-type=module", "--eval", script, "--"]).arg(&copy).arg(folder);
    command::quiet(&mut node, WRITE_LIMIT)
}

/// Writes the files of a model as MLC publishes it, with a library that is no WebAssembly module.
fn write_mlc_model(folder: &Path) -> Result<()> {
    let files = folder.join("tiny/resolve/main");
    fs::create_dir_all(&files)?;
    let shard = "params_shard_0.bin";
    let index = json!({ "metadata": {}, "records": [{ "dataPath": shard, "nbytes": 200_000, "records": [] }] });
    fs::write(files.join("tensor-cache.json"), index.to_string())?;
    fs::write(files.join(shard), [7; 200_000])?;
    fs::write(files.join("mlc-chat-config.json"), json!({ "tokenizer_files": ["tokenizer.json"] }).to_string())?;
    fs::write(files.join("tokenizer.json"), "{}")?;
    Ok(fs::write(folder.join("tiny.wasm"), [0; 100])?)
}
