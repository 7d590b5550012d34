//! Workers that run the app's own module: they read and write the cache, or decode and verify.

use super::Report;
use crate::browser::worker;
use crate::loader::Loader;
use crate::source::web::WebSource;
use crate::workers::{self, PoolHandle};
use js_sys::{Function, Reflect};
use std::rc::Rc;
#[cfg(not(feature = "js"))]
use wasm_bindgen::prelude::*;

/// The name of the workers. The script has it, too.
const NAME: &str = "weightstream";

/// The number of workers that loads are fastest with, measured in browsers: at most 4, one on two cores, none on one.
pub fn default_workers() -> usize {
    workers::default_count()
}

/// Whether this instance of the module runs in one of the workers. A `start` function must then return at once.
pub fn is_worker() -> bool {
    let scope = js_sys::global();
    let is_worker = Reflect::has(&scope, &"importScripts".into()).unwrap_or(false);
    is_worker && Reflect::get(&scope, &"name".into()).is_ok_and(|name| name == NAME)
}

/// Sets the function that starts a worker, for bundlers, which find the script of a worker only if the JavaScript of
/// the app names it. Call it before the first model is opened.
///
/// The function returns a `Worker` with the name "weightstream":
///
/// ```js
/// new Worker(new URL("./weights_worker.js", import.meta.url), { type: "module", name: "weightstream" });
/// ```
///
/// Its script, here for glue of `wasm-bindgen --target web`, starts the same module:
///
/// ```js
/// import { initSync, weightstreamServe } from "./pkg/app.js";
///
/// onmessage = ({ data: [module, role] }) => {
///   initSync({ module });
///   weightstreamServe(role);
/// };
/// ```
pub fn set_worker(start: Function) {
    worker::set(start, None);
}

/// Adds the workers to a loader. Without workers, the Web Crypto API computes SHA-256 off the page's thread.
pub(crate) fn add_to(loader: Loader<WebSource>, count: usize, report: &Report) -> Loader<WebSource> {
    let workers = (count > 0).then(|| Rc::new(PoolHandle::new(count)));
    if let Some(workers) = &workers {
        set_script();
        report.workers.set(Rc::clone(workers)).ok(); // the report of the first loader stays
    }
    match workers::pool(workers.as_ref()) {
        Some(pool) => loader.with_pool(pool),
        None => loader,
    }
}

/// Lets workers run the script that wasm-bindgen writes, unless the app has set its own function.
#[cfg(not(feature = "js"))]
pub(super) fn set_script() {
    if !worker::is_set() {
        worker::set(GLUE_URL.with(|url| starter(url)), None);
    }
}

/// The npm package sets its own functions.
#[cfg(feature = "js")]
pub(super) fn set_script() {}

/// Starts to serve the page. A worker calls it once.
#[cfg(not(feature = "js"))]
#[wasm_bindgen(js_name = weightstreamServe)]
#[allow(unreachable_pub, reason = "wasm-bindgen exports only what is `pub`")]
pub fn serve(role: &str) {
    match role {
        "cache" => crate::cache::serve_cache(),
        _ => workers::serve_jobs(),
    }
}

#[cfg(not(feature = "js"))]
#[wasm_bindgen(module = "/src/web/worker.js")]
extern "C" {
    /// The function that starts a worker with the glue at this URL.
    fn starter(glue_url: &str) -> Function;
}

#[cfg(not(feature = "js"))]
#[wasm_bindgen]
extern "C" {
    /// The URL of the app's glue, which refers to this as `import.meta.url`.
    #[wasm_bindgen(thread_local_v2, js_namespace = ["import", "meta"], js_name = url)]
    static GLUE_URL: String;
}
