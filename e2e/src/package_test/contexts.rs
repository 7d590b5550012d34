//! Loads the sample in dedicated, shared and service workers, in three browsers.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use weightstream_cli::serve::Server;
use xtask::project::Project;

use super::report::{self, Lacks};
use super::sample::{self, Sample};
use super::with_each_browser;
use crate::engine::Engine;
use crate::failures;

pub(super) fn load_in_workers(project: &Project, app: &Path, sample: &Sample) -> Result<()> {
    let server = Server::new().mount("/static", app).bind("127.0.0.1:0")?.spawn();
    with_each_browser(project, |engine, browser| {
        browser.open(&format!("{}/static/app/contexts.html", server.url()))?;
        for kind in ["dedicated", "shared", "service"] {
            let found =
                browser.evaluate(&format!("checkIn({kind:?}, {}, {})", json!(sample.url()), json!(sample::MATRIX)));
            let checked = found.and_then(|found| report::check(found, sample, lacks(engine, kind)));
            failures::keep(checked, browser, engine, &format!("{kind} worker"))?;
        }
        println!("{engine}: a dedicated, a shared and a service worker load the sample");
        Ok(())
    })
}

/// Service workers have no workers of their own; shared workers only have them in Firefox. The cache, which is in
/// IndexedDB there, works in all of them.
fn lacks(engine: Engine, kind: &str) -> Lacks {
    let has_workers = kind == "dedicated" || kind == "shared" && engine == Engine::Firefox;
    let workers = (!has_workers).then_some("workers cannot be started: Worker is not available in this context");
    Lacks { cache: None, workers }
}
