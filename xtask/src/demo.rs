//! `cargo xtask demo`: the page, the package and the model behind our own range server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use weightstream_cli::serve::{Bound, Exchange, Running, Server};

use crate::model::{self, Model};
use crate::package;
use crate::project::Project;

/// Where the page is looked for first; another port serves as well.
const USUAL_PORT: u16 = 8080;

const MODELS: &str = "/models";

/// The demo, served in the background.
pub struct Demo {
    pub server: Running,
    pub model: Model,
    /// What was asked of the model's files, as the server saw it.
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

    /// Requests and bytes so far, which are not counted any more.
    pub fn take(&self) -> (u64, u64) {
        (self.requests.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed))
    }

    /// Bytes of bodies.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Builds and serves the demo for a person, until the process is interrupted.
pub fn run(project: &Project, port: Option<u16>) -> Result<()> {
    let (server, model) = site(project)?;
    let bound = match port {
        Some(port) => server.bind(("127.0.0.1", port))?,
        None => match server.bind(("127.0.0.1", USUAL_PORT)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => site(project)?.0.bind("127.0.0.1:0")?,
            bound => bound?,
        },
    };
    eprintln!("demo: {} tensors in {}", model.expected.len(), model.folder.display());
    println!("{}/", bound.url());
    eprintln!("demo: open this address in a browser; Ctrl-C ends the server");
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

    /// An address of the page.
    pub fn page(&self, query: &str) -> String {
        format!("{}/{query}", self.server.url())
    }

    /// The address of the demo model's manifest, without the origin.
    pub fn manifest(&self) -> String {
        format!("{MODELS}/{}", model::MANIFEST)
    }
}

fn site(project: &Project) -> Result<(Server, Model)> {
    let package = package::build(project)?;
    let model = model::ready(project)?;
    let server = Server::new()
        .mount("/", project.root.join("www"))
        .mount("/pkg", package)
        .mount(MODELS, &model.folder)
        .isolated(true);
    Ok((server, model))
}
