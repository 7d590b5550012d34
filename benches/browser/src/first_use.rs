//! Measures `open()` in a fresh page: the scripts and the module come over a slow connection, compressed with brotli as
//! a server would send them, and nothing is cached.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::measure::median;
use crate::models;
use crate::nginx::Nginx;
use crate::report::Row;
use crate::throttle::{MOBILE, ThrottledProxy};
use e2e::chromium::Chromium;
use xtask::package;
use xtask::parts::PARTS;
use xtask::project::Project;

/// The name of the case on the command line.
pub(super) const NAME: &str = "first-use";

/// The goal for the time against that of as many bytes.
const GOAL: f64 = 1.10;

/// How much slower the page's thread is than this machine: as fast as it is, and a stand-in for a phone.
const CPU_SLOWDOWNS: [u32; 2] = [1, 4];

/// The total bytes of the tensors of the model, of which `open` reads the header.
const PAYLOAD_BYTES: u64 = 262_144;

/// Files of `app/` are stored compressed.
const DIRECTIVES: &str = "location /app/ { add_header Content-Encoding br; add_header Cache-Control no-cache; } \
    types { text/html html; text/javascript js; application/wasm wasm; }";

/// A website with a page, the package, and a small model, behind a slow connection.
pub(super) struct Site {
    line: ThrottledProxy,
    model: String,
    _nginx: Nginx,
    folder: TempDir,
}

impl Site {
    pub(super) fn start(project: &Project, package: &Path) -> Result<Site> {
        let folder = tempfile::tempdir()?;
        let (app, page) = (folder.path().join("app"), folder.path().join("page"));
        fs::create_dir(&app)?;
        fs::create_dir(&page)?;
        compress(package, &app)?;
        for name in ["index.html", "first_use.js"] {
            fs::copy(project.root.join("benches/page").join(name), page.join(name))?;
        }
        let model = models::scaled_payload(folder.path(), PAYLOAD_BYTES)?;
        let nginx = Nginx::start_with(folder.path(), DIRECTIVES)?;
        Ok(Site { line: ThrottledProxy::to(&nginx.url, MOBILE)?, model, _nginx: nginx, folder })
    }

    /// Measures visits without and with a cache.
    pub(super) fn measure(&self, browser: &mut Chromium, rounds: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for slowdown in CPU_SLOWDOWNS {
            for (cache, title) in [("none", "first use, no cache"), ("auto", "first use, with an empty cache")] {
                rows.push(self.measure_visits(browser, rounds, cache, slowdown, title)?);
            }
        }
        Ok(rows)
    }

    /// Measures visits with this value of the option `cache`, against a response of as many bytes as a visit receives.
    fn measure_visits(
        &self,
        browser: &mut Chromium,
        rounds: usize,
        cache: &str,
        slowdown: u32,
        title: &str,
    ) -> Result<Row> {
        let open = json!({ "url": format!("{}/{}", self.line.url, self.model), "cache": cache });
        let plain = json!({ "url": "/plain.bin" });
        let (_, bytes) = self.visit(browser, slowdown, "open", &open)?;
        fs::write(self.folder.path().join("plain.bin"), vec![0; usize::try_from(bytes)?])?;
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (plain_ms, _) = self.visit(browser, slowdown, "plain", &plain)?;
            let (ms, _) = self.visit(browser, slowdown, "open", &open)?;
            ours.push(ms);
            theirs.push(plain_ms);
            ratios.push(ms / plain_ms);
        }
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(Row {
            case: NAME.to_owned(),
            title: format!("{title}, CPU time × {slowdown}, {:.0} KiB", bytes as f64 / 1024.0),
            quantity: "time against fetch() of as many bytes",
            value: median(ratios).context("no round was measured")?,
            goal: Some(GOAL),
            best: Some(least(&ours) / least(&theirs)),
            ms: median(ours),
            plain_ms: median(theirs),
        })
    }

    /// Calls a function of the page in a browser profile of its own. Returns the time in milliseconds, and the number
    /// of bytes that were received.
    fn visit(&self, browser: &mut Chromium, slowdown: u32, function: &str, parameters: &Value) -> Result<(f64, u64)> {
        let script = r#"import("/page/first_use.js")"#;
        let mut page = browser.new_private_page()?;
        page.open(&format!("{}/page/index.html", self.line.url))?;
        page.evaluate(&format!("{script}.then(() => true)"))?;
        page.call("Emulation.setCPUThrottlingRate", json!({ "rate": slowdown }))?;
        let before = self.line.sent_bytes();
        let ms = page.evaluate(&format!("{script}.then((page) => page.{function}({parameters}))"))?;
        let bytes = self.line.sent_bytes() - before;
        Ok((ms.as_f64().with_context(|| format!("{function} has no time"))?, bytes))
    }
}

/// Compresses the files of the package that a page may load.
fn compress(package: &Path, app: &Path) -> Result<()> {
    let mut is_shared = false;
    for file in fs::read_dir(package)? {
        let file = file?;
        let name = file.file_name().into_string().map_err(|name| anyhow!("{} is not UTF-8", name.display()))?;
        let is_shared_script = name.starts_with("weightstream.shared.");
        is_shared |= is_shared_script;
        let is_part = name == package::MAIN || PARTS.iter().any(|part| part.file == name);
        if is_part || is_shared_script || ["weightstream.js", "weightstream.worker.js"].contains(&&*name) {
            fs::write(app.join(name), package::brotli(&fs::read(file.path())?)?)?;
        }
    }
    ensure!(is_shared, "the package has no shared script");
    Ok(())
}
