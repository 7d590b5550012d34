//! Runtimes, unpatched from npm, with weights from the package. Their outputs must equal those with plain weights. The
//! tests are in `tests/runtimes`.

use anyhow::Result;
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

const RUNTIMES: [Runtime; 2] = [
    Runtime { module: "onnxruntime", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "wllama", engines: &[Engine::Chromium, Engine::Firefox] },
];

pub fn run(project: &Project) -> Result<()> {
    let files = ["package.json", "package-lock.json", ".npmrc"];
    let node_modules = npm::installed(project, "runtimes", "tests/runtimes", &files)?;
    let package = package::build(project)?;
    let server = Server::new()
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
