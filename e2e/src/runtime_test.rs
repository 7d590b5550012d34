//! Runtimes, unpatched from npm, with weights from the package. Their outputs must equal those with plain weights. The
//! tests are in `tests/runtimes`.

use std::path::PathBuf;

use anyhow::Result;
use weightstream_cli::serve::Server;

use crate::cases;
use crate::engine::Engine;
use crate::failures;
use crate::file_test::run_module;
use crate::linear_layer;
use crate::llama_model;
use crate::minilm;
use crate::onnx_models;
use crate::tfjs_model;
use crate::webdriver::Browser;
use xtask::project::Project;
use xtask::{npm, package};

/// A module of `tests/runtimes`.
struct Runtime {
    module: &'static str,
    /// The browsers that the runtime supports.
    engines: &'static [Engine],
}

impl Runtime {
    /// The page, whose import map selects a build of ONNX Runtime for transformers.js.
    fn page(&self) -> &'static str {
        if self.module == TRANSFORMERS_WITH_JSPI { "jspi.html" } else { "index.html" }
    }
}

const TRANSFORMERS_WITH_JSPI: &str = "transformers_jspi";

const RUNTIMES: [Runtime; 13] = [
    Runtime { module: "litertjs", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "onnxruntime", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "onnxruntime_ahead", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "onnxruntime_models", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "onnxruntime_streamed", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "onnxruntime_webgpu", engines: &[Engine::ChromiumWithGpu] },
    Runtime { module: "service_worker", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "tfjs", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "transformers", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: TRANSFORMERS_WITH_JSPI, engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "tvmjs", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "webllm", engines: &[Engine::Chromium, Engine::Firefox] },
    Runtime { module: "wllama", engines: &[Engine::Chromium, Engine::Firefox] },
];

pub fn run(project: &Project) -> Result<()> {
    let node_modules = node_modules(project)?;
    let package = package::build(project)?;
    let models = tempfile::tempdir()?;
    linear_layer::write(models.path())?;
    let llama = tempfile::tempdir()?;
    llama_model::write(project, llama.path())?;
    let onnx_models = tempfile::tempdir()?;
    onnx_models::write(project, onnx_models.path())?;
    let graph = tempfile::tempdir()?;
    tfjs_model::write(project, graph.path())?;
    let mut server = Server::new()
        .mount("/graph", graph.path())
        .mount("/linear", models.path())
        .mount("/llama", llama.path())
        .mount("/onnx", onnx_models.path())
        .mount("/tests", project.root.join("tests/runtimes"))
        .mount("/files", project.root.join("tests/files"))
        .mount("/fixtures", project.root.join("tests/fixtures"))
        .mount("/npm", node_modules)
        .mount("/pkg", &package);
    for (path, file) in minilm::ready(project)? {
        server = server.mount(&format!("/hub/minilm/resolve/main/{path}"), file);
    }
    let server = server.bind("127.0.0.1:0")?.spawn();
    for engine in [Engine::Chromium, Engine::ChromiumWithGpu, Engine::Firefox] {
        let browser = Browser::launch(project, engine)?;
        let runtimes = RUNTIMES.iter().filter(|runtime| runtime.engines.contains(&engine));
        for runtime in runtimes.filter(|runtime| cases::is_wanted(runtime.module)) {
            let module = runtime.module;
            browser.open(&format!("{}/tests/{}", server.url(), runtime.page()))?;
            let count = failures::keep(run_module(&browser, module), &browser, engine, module)?;
            println!("{engine}: {count} tests of {module} passed");
        }
    }
    Ok(())
}

/// Installs the runtimes if they are missing. Returns their `node_modules` folder.
pub fn node_modules(project: &Project) -> Result<PathBuf> {
    npm::installed(project, "runtimes", "tests/runtimes", &["package.json", "package-lock.json", ".npmrc"])
}
