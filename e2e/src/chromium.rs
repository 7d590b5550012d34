//! Runs a headless Chromium with a temporary profile. Dropping [`Chromium`] ends the process and deletes the profile.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::devtools::{Area, DevTools};
use crate::failures::Witness;
use crate::page::Page;
use xtask::browser;

/// The machines that run the tests have no GPU.
const NO_GPU: &str = "--disable-gpu";

pub const FLAGS: [&str; 10] = [
    "--headless",
    // The sandbox is unavailable to root. The browser opens only pages of these tests.
    "--no-sandbox",
    NO_GPU,
    "--disable-quic",
    // Containers limit /dev/shm to 64 MB, less than a model.
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
];

/// The flags of a browser with WebGPU, on an adapter in software.
pub fn flags_with_gpu() -> Vec<&'static str> {
    FLAGS.into_iter().filter(|flag| *flag != NO_GPU).chain(["--enable-unsafe-webgpu"]).collect()
}

const START_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(10);

pub struct Chromium {
    devtools: DevTools,
    process: Process,
}

impl Chromium {
    pub fn launch() -> Result<Chromium> {
        Chromium::launch_with(&[])
    }

    pub fn launch_with(flags: &[&str]) -> Result<Chromium> {
        Chromium::launch_exactly(&[FLAGS.as_slice(), flags].concat())
    }

    /// Launches a browser with WebGPU, on an adapter in software.
    pub fn launch_with_gpu() -> Result<Chromium> {
        Chromium::launch_exactly(&flags_with_gpu())
    }

    fn launch_exactly(flags: &[&str]) -> Result<Chromium> {
        let program = browser::chromium()?;
        let process = Process::start(&program, flags)?;
        let (port, path) = process.endpoint()?;
        let devtools = DevTools::connect(port, &path).with_context(|| process.stderr())?;
        Ok(Chromium { devtools, process })
    }

    /// The name and version of the browser.
    pub fn version(&mut self) -> Result<String> {
        let version = self.devtools.call(None, "Browser.getVersion", json!({}))?;
        let product = version.get("product").and_then(Value::as_str);
        product.map(str::to_owned).context("the browser does not report its version")
    }

    /// Opens an empty tab.
    pub fn new_page(&mut self) -> Result<Page<'_>> {
        self.new_page_with(json!({ "url": "about:blank" }))
    }

    /// Opens an empty tab in a new private window.
    pub fn new_private_page(&mut self) -> Result<Page<'_>> {
        let created = self.devtools.call(None, "Target.createBrowserContext", json!({ "disposeOnDetach": true }))?;
        let context = created.get("browserContextId").context("the browser opened no private window")?;
        self.new_page_with(json!({ "url": "about:blank", "browserContextId": context }))
    }

    /// Calls a global function in the page or worker whose URL ends with this text, and awaits the value. Waits until
    /// the page or worker exists and has the function.
    pub fn call_in(&mut self, url_end: &str, function: &str, arguments: &[Value]) -> Result<Value> {
        let end = Instant::now() + START_LIMIT;
        while !self.has_function(url_end, function)? {
            ensure!(Instant::now() < end, "nothing with a URL that ends with {url_end} has the function {function}");
            sleep(Duration::from_millis(50));
        }
        let arguments: Vec<_> = arguments.iter().map(Value::to_string).collect();
        self.evaluate_in(url_end, &format!("{function}({})", arguments.join(", ")))
    }

    fn has_function(&mut self, url_end: &str, function: &str) -> Result<bool> {
        let exists = self.target(url_end)?.is_some();
        Ok(exists && self.evaluate_in(url_end, &format!("typeof globalThis.{function}"))? == "function")
    }

    fn evaluate_in(&mut self, url_end: &str, expression: &str) -> Result<Value> {
        let target = self.target(url_end)?.with_context(|| format!("{url_end} was closed"))?;
        let session = self.attach(&target)?;
        // A worker that was just starting waits for this.
        self.devtools.call(Some(&session), "Runtime.runIfWaitingForDebugger", json!({}))?;
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.devtools.call(Some(&session), "Runtime.evaluate", params)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("`{expression}` throws {thrown}");
        }
        Ok(answer.pointer("/result/value").cloned().unwrap_or_default())
    }

    /// The page or worker whose URL ends with this text.
    fn target(&mut self, url_end: &str) -> Result<Option<String>> {
        let found = self.devtools.call(None, "Target.getTargets", json!({}))?;
        let targets = found.get("targetInfos").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let text = |target: &Value, name: &str| target.get(name).and_then(Value::as_str).map(str::to_owned);
        let target = targets.iter().find(|target| text(target, "url").is_some_and(|url| url.ends_with(url_end)));
        Ok(target.and_then(|target| text(target, "targetId")))
    }

    fn attach(&mut self, target: &str) -> Result<String> {
        let attached =
            self.devtools.call(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true }))?;
        let session = attached.get("sessionId").and_then(Value::as_str);
        Ok(session.context("the browser attached no session")?.to_owned())
    }

    fn new_page_with(&mut self, parameters: Value) -> Result<Page<'_>> {
        let text = |value: Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        self.devtools.close_left();
        let created = self.devtools.call(None, "Target.createTarget", parameters)?;
        let target = text(created, "targetId").context("the browser opened no tab")?;
        let session = self.attach(&target)?;
        Page::new(&mut self.devtools, target, session)
    }
}

/// Shows the page that was used last.
impl Witness for &mut Chromium {
    fn screenshot(&mut self) -> Result<Vec<u8>> {
        let session = self.devtools.left().context("no page is open")?.to_owned();
        self.devtools.screenshot(&session, Area::WholePage)
    }

    fn console(&mut self) -> Result<String> {
        self.devtools.console()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // On `Browser.close` the browser ends all its processes. If the call fails, `Process` kills it.
        if self.devtools.call(None, "Browser.close", json!({})).is_ok() {
            self.process.wait(END_LIMIT);
        }
    }
}

struct Process {
    child: Child,
    /// The user-data folder, with what the browser wrote to its standard error.
    profile: TempDir,
}

impl Process {
    fn start(program: &Path, flags: &[&str]) -> Result<Process> {
        let profile = tempfile::Builder::new().prefix("weightstream-chromium-").tempdir()?;
        let log = File::create(profile.path().join("stderr"))?;
        let mut command = Command::new(program);
        command
            .args(flags)
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank");
        // Other temporary files are deleted with the profile.
        command.env("TMPDIR", profile.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Process { child, profile })
    }

    /// The port and path of the debugging socket, which the browser writes into its profile once it listens.
    fn endpoint(&self) -> Result<(u16, String)> {
        let file = self.profile.path().join("DevToolsActivePort");
        let end = Instant::now() + START_LIMIT;
        while Instant::now() < end {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if let Some((port, path)) = text.split_once('\n')
                && let Ok(port) = port.parse()
                && path.starts_with('/')
            {
                return Ok((port, path.trim_end().to_owned()));
            }
            sleep(Duration::from_millis(20));
        }
        bail!("Chromium opened no debugging port within {} s; {}", START_LIMIT.as_secs(), self.stderr())
    }

    fn stderr(&self) -> String {
        let stderr = fs::read_to_string(self.profile.path().join("stderr")).unwrap_or_default();
        format!("its standard error: {}", stderr.trim())
    }

    fn wait(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Helper processes end a moment later and may still write to the profile until then.
        for _ in 0..100 {
            if fs::remove_dir_all(self.profile.path()).is_ok() {
                return;
            }
            sleep(Duration::from_millis(50));
        }
    }
}
