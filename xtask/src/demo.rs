//! `cargo xtask demo`: serves the demo page, the package and the model.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use serde::Serialize;
use weightstream_cli::serve::{Bound, Exchange, Running, Server};

use crate::model::{self, Model};
use crate::project::Project;
use crate::{npm, package};

/// The default port. If it is in use, a free one is chosen.
const DEFAULT_PORT: u16 = 8080;

const MODELS: &str = "/models";

/// The file that tells the page what is beside it.
pub const DESCRIPTION: &str = "demo.json";

/// The contents of this file. `www/site.js` reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<'a> {
    name: &'a str,
    model: String,
    original: String,
    tensor_bytes: u64,
    stored_bytes: u64,
    /// Whether ONNX Runtime Web and the tokenizer are beside the page.
    computes: bool,
    documentation: Option<&'a str>,
}

/// The demo, served by a background thread.
pub struct Demo {
    pub server: Running,
    pub model: Model,
    /// Counts the requests for files of the model.
    pub traffic: Arc<Traffic>,
}

#[derive(Default)]
pub struct Traffic {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn count(&self, exchange: &Exchange) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(exchange.bytes_sent, Ordering::Relaxed);
    }

    /// Returns the requests and bytes so far and resets the counters.
    pub fn take(&self) -> (u64, u64) {
        (self.requests.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed))
    }

    /// The number of bytes in response bodies.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Builds and serves the demo until the process is interrupted.
pub fn run(project: &Project, port: Option<u16>) -> Result<()> {
    let (server, model) = site(project)?;
    let bound = match port {
        Some(port) => server.bind(("127.0.0.1", port))?,
        None => match server.bind(("127.0.0.1", DEFAULT_PORT)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => site(project)?.0.bind("127.0.0.1:0")?,
            bound => bound?,
        },
    };
    eprintln!("demo: {} tensors in {}", model.expected.len(), model.folder.display());
    println!("{}/", bound.url());
    eprintln!("demo: open this URL in a browser; press Ctrl-C to stop the server");
    bound.run();
    Ok(())
}

impl Demo {
    /// Builds the demo and serves it on a free port.
    pub fn start(project: &Project) -> Result<Demo> {
        let (server, model) = site(project)?;
        let traffic = Arc::new(Traffic::default());
        let counted = Arc::clone(&traffic);
        let server = server.on_request(move |exchange| {
            if exchange.path.starts_with(MODELS) {
                counted.count(exchange);
            }
        });
        let bound: Bound = server.bind("127.0.0.1:0")?;
        Ok(Demo { server: bound.spawn(), model, traffic })
    }

    /// The URL of the page, with a path or query appended.
    pub fn page(&self, query: &str) -> String {
        format!("{}/{query}", self.server.url())
    }

    /// The URL of the demo model's manifest, without the origin.
    pub fn manifest(&self) -> String {
        format!("{MODELS}/{}", model::MANIFEST)
    }
}

fn site(project: &Project) -> Result<(Server, Model)> {
    let package = package::build(project)?;
    let node_modules = node_modules(project)?;
    let model = model::ready(project)?;
    let description = project.target.join(DESCRIPTION);
    fs::write(&description, describe(project, &model)?)?;
    let mut server = Server::new()
        .mount("/", project.root.join("www"))
        .mount(&format!("/{DESCRIPTION}"), description)
        .mount("/pkg", package)
        .mount("/npm/onnxruntime-web", node_modules.join("onnxruntime-web/dist"))
        .mount("/npm/tokenizers", node_modules.join("@huggingface/tokenizers/dist"))
        .mount(MODELS, &model.folder)
        .mount(&format!("{MODELS}/{}", model.original_name), &model.original)
        .isolated(true);
    if let Some(tokenizer) = &model.tokenizer {
        server = server.mount("/minilm/tokenizer.json", tokenizer);
    }
    Ok((server, model))
}

/// The description of a site with this model.
pub fn describe(project: &Project, model: &Model) -> Result<Vec<u8>> {
    let below = |name: &str| format!("{}/{name}", MODELS.trim_start_matches('/'));
    let description = Description {
        name: model.name,
        model: below(model.manifest),
        original: below(model.original_name),
        tensor_bytes: model.expected.iter().map(|tensor| tensor.byte_length).sum(),
        stored_bytes: model.stored_bytes()?,
        computes: model.tokenizer.is_some(),
        documentation: Some(project.repository.as_str()).filter(|url| !url.is_empty()),
    };
    Ok(serde_json::to_vec_pretty(&description)?)
}

/// Installs the runtime and the tokenizer of the page if they are missing. Returns their `node_modules` folder.
pub fn node_modules(project: &Project) -> Result<PathBuf> {
    npm::installed(project, "npm packages of the demo", "www", &["package.json", "package-lock.json", ".npmrc"])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use crate::sources;

    #[test]
    fn the_demo_has_the_runtimes_that_the_tests_run() {
        let read = |path| -> Value { serde_json::from_slice(&fs::read(sources::root().join(path)).unwrap()).unwrap() };
        let (demo, tests) = (read("www/package.json"), read("tests/runtimes/package.json"));
        for (name, version) in demo["dependencies"].as_object().unwrap() {
            assert_eq!(*version, tests["devDependencies"][name], "{name}");
        }
    }
}
