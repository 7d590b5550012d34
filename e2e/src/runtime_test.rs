//! Runtimes, unpatched from npm, with weights from the package. Their outputs must equal those with plain weights. The
//! tests are in `tests/runtimes`.

use anyhow::Result;
use weightstream_cli::serve::Server;

use crate::engine::Engine;
use crate::file_test::run_module;
use crate::webdriver::Browser;
use xtask::project::Project;
use xtask::{npm, package};

/// The modules of `tests/runtimes`, one for each runtime.
const MODULES: [&str; 1] = ["onnxruntime"];

/// The runtimes that are tested do not support WebKitGTK.
const ENGINES: [Engine; 2] = [Engine::Chromium, Engine::Firefox];

pub fn run(project: &Project) -> Result<()> {
    let files = ["package.json", "package-lock.json", ".npmrc"];
    let node_modules = npm::installed(project, "runtimes", "tests/runtimes", &files)?;
    let package = package::build(project)?;
    let server = Server::new()
        .mount("/tests", project.root.join("tests/runtimes"))
        .mount("/files", project.root.join("tests/files"))
        .mount("/ort", node_modules.join("onnxruntime-web/dist"))
        .mount("/pkg", &package)
        .bind("127.0.0.1:0")?
        .spawn();
    for engine in ENGINES {
        let browser = Browser::launch(project, engine)?;
        browser.open(&format!("{}/tests/index.html", server.url()))?;
        let mut count = 0;
        for module in MODULES {
            count += run_module(&browser, engine, module)?;
        }
        println!("{engine}: {count} tests of runtimes passed");
    }
    Ok(())
}
