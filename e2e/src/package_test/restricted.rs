//! Loads the sample in pages that may not do everything: under a Content-Security-Policy, in a sandboxed frame, and
//! isolated from other origins. What they lack must be reported with the setting that allows it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;
use xtask::project::Project;

use super::report::{self, Lacks};
use super::sample::{self, Sample};
use super::with_each_browser;
use crate::failures;

const EVERYTHING: Lacks = Lacks { cache: None, workers: None };

/// The pages of `tests/package/app/restricted` in which the sample can be loaded, and what they lack. The cache is in
/// IndexedDB where workers are forbidden.
const LOADING: [(&str, Lacks); 6] = [
    ("strict", EVERYTHING),
    ("trusted-types", EVERYTHING),
    ("no-trusted-types", without_workers("Add `weightstream` to `trusted-types`")),
    ("no-workers", without_workers("add `'self'` to `worker-src`")),
    ("inline-self", without_workers("add `blob:` to `worker-src`")),
    ("inline-blob", EVERYTHING),
];

/// The pages in which nothing can be loaded, and what the error says.
const FAILING: [(&str, &str); 3] = [
    ("no-wasm", "INTERNAL: The WebAssembly module of weightstream could not be started: … Add `'wasm-unsafe-eval'` to"),
    (
        "no-requests",
        "INTERNAL: The WebAssembly module of weightstream could not be started: … add `'self'` to `connect-src`",
    ),
    ("own-requests", "NETWORK: … add `http://127.0.0.1:… to `connect-src`"),
];

/// In a sandboxed frame, which has no origin and therefore no storage. Its workers can only be inline.
const SANDBOXED: [(&str, Lacks); 2] = [
    ("none", Lacks { cache: Some("storage failed"), workers: Some("Add `allow-same-origin`") }),
    ("inline", Lacks { cache: Some("storage failed"), workers: None }),
];

const fn without_workers(advice: &'static str) -> Lacks {
    Lacks { cache: Some(advice), workers: Some(advice) }
}

pub(super) fn load_where_not_all_is_allowed(project: &Project, app: &Path, sample: &Sample) -> Result<()> {
    with_each_browser(project, |engine, browser| {
        // Each page is in an origin of its own, which has stored nothing.
        let load = |page: &str, is_sandboxed: bool, is_isolated: bool| -> Result<Value> {
            let server = Server::new().mount("/", app).isolated(is_isolated).bind("127.0.0.1:0")?.spawn();
            browser.open(&format!("{}/app/frames.html", server.url()))?;
            let (model, matrix) = (json!(sample.url()), json!(sample::MATRIX));
            browser.evaluate(&format!("checkIn({page:?}, {is_sandboxed}, {model}, {matrix})"))
        };
        let check = |page: &str, loaded: Result<Value>, lacks: Lacks| {
            let checked = loaded.and_then(|found| {
                ensure!(report::was_first_visit(&found, sample), "the page had a cache: {found}");
                report::check(found, sample, lacks)
            });
            failures::keep(checked, browser, engine, page)
        };
        LOADING.iter().try_for_each(|(page, lacks)| check(page, load(page, false, false), *lacks))?;
        SANDBOXED.iter().try_for_each(|(page, lacks)| check(page, load(page, true, false), *lacks))?;
        for (page, wanted) in FAILING {
            let checked = load(page, false, false).and_then(|found| fails(page, wanted, &found));
            failures::keep(checked, browser, engine, page)?;
        }
        check("none", load("none", false, true), EVERYTHING).context("isolated from other origins")?;
        println!("{engine}: {} restricted pages load the sample or report why not", LOADING.len() + FAILING.len() + 3);
        Ok(())
    })
}

/// Checks that the sample could not be loaded, and why.
fn fails(page: &str, wanted: &str, found: &Value) -> Result<()> {
    let error = found.get("error").and_then(Value::as_str).unwrap_or_default();
    let blocked = found.get("blocked").and_then(Value::as_u64);
    ensure!(page == "no-wasm" || blocked == Some(1), "requests are repeated: {found}");
    ensure!(wanted.split('…').all(|part| error.contains(part)), "{found}");
    Ok(())
}
