//! Threads, the cache folder and several processes in Node.js, Deno and Bun.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use weightstream_cli::serve::{Running, Server};
use xtask::bundle::Bundler;
use xtask::expected::ExpectedTensor;
use xtask::model::{self, Model};
use xtask::project::Project;
use xtask::{command, package};

/// A script must end this soon after its last line: idle threads end after ten seconds, and must not keep it running.
const END_LIMIT_MS: u128 = 5_000;

/// A file that is being written is never older than this.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const FILE_BYTES: usize = 8 << 20;

/// A command without a script.
pub(super) type Runtime<'a> = &'a dyn Fn() -> Command;

/// What the scripts load.
pub(super) struct Scripts<'a> {
    app: &'a Path,
    model: &'a Model,
    /// A JSON file with the SHA-256 of each tensor.
    digests: PathBuf,
    /// The number of bytes of all tensors.
    byte_length: u64,
    /// Serves the model and the files `a`, `b` and `c`.
    server: Running,
    files: TempDir,
}

impl<'a> Scripts<'a> {
    pub(super) fn new(project: &Project, app: &'a Path, model: &'a Model) -> Result<Self> {
        fs::create_dir_all(app.join("node"))?;
        for name in ["aborts.mjs", "served.mjs", "paused.mjs", "uncached.mjs", "threads.mjs", "cache.mjs", "files.mjs"]
        {
            fs::copy(project.root.join("tests/package/node").join(name), app.join("node").join(name))?;
        }
        let built = project.target.join("pkg");
        let served = [("served.js", "service-worker/served.js")];
        let (parts, manifest) = (app.join("parts"), package::manifest(project)?);
        Bundler::new(project, &built)?.write_entry_points(&manifest, &served, &parts)?;
        fs::copy(built.join(package::MODULE), parts.join(package::MODULE))?;
        let digest = |tensor: &ExpectedTensor| format!("sha256:{}", tensor.sha256);
        let digests: BTreeMap<_, _> = model.expected.iter().map(|tensor| (&tensor.name, digest(tensor))).collect();
        let files = tempfile::tempdir()?;
        let path = files.path().join("digests.json");
        fs::write(&path, json!(digests).to_string())?;
        for name in ["a", "b", "c"] {
            fs::write(files.path().join(name), content(name))?;
        }
        let server = Server::new().mount("/models", &model.folder).mount("/files", files.path());
        let server = server.bind("127.0.0.1:0")?.spawn();
        let byte_length = model.expected.iter().map(|tensor| tensor.byte_length).sum();
        Ok(Scripts { app, model, digests: path, byte_length, server, files })
    }

    pub(super) fn run(&self, runtime: Runtime<'_>) -> Result<()> {
        self.ends_aborted_calls(runtime).context("with a module that is never loaded")?;
        self.asks_for_access_again(runtime).context("with a file that a service worker serves")?;
        self.ends_while_paused(runtime).context("with unfinished loads")?;
        self.loads_in_threads(runtime).context("in threads")?;
        self.shares_its_cache(runtime).context("with several processes")?;
        self.bounds_its_cache(runtime).context("with a full cache")
    }

    fn ends_aborted_calls(&self, runtime: Runtime<'_>) -> Result<()> {
        let script = &mut self.script(runtime, "aborts.mjs", &self.app.join("no-cache"));
        let (Aborts { before, during, requests_before }, printed) = output(script)?;
        let all_end = |calls: &BTreeMap<String, bool>| calls.len() == 4 && calls.values().all(|ends| *ends);
        ensure!(all_end(&before) && all_end(&during), "a call does not end with the reason of its signal: {printed}");
        ensure!(requests_before == 0, "calls with an aborted signal send requests: {printed}");
        Ok(())
    }

    fn asks_for_access_again(&self, runtime: Runtime<'_>) -> Result<()> {
        let (Served { before, requests_before, after, again, other_cookies }, printed) =
            output(&mut self.script(runtime, "served.mjs", &self.app.join("no-cache")))?;
        ensure!(before == [200, 200] && requests_before == 1, "requests do not share an open file: {printed}");
        let refused = after.iter().position(|status| *status == 401).context("a file is served after a logout")?;
        ensure!(refused <= 6 && after.iter().skip(refused).all(|status| *status == 401), "{printed}");
        ensure!(again == 200 && other_cookies == 401, "other cookies do not open the file again: {printed}");
        Ok(())
    }

    fn ends_while_paused(&self, runtime: Runtime<'_>) -> Result<()> {
        let cache = tempfile::tempdir()?;
        let mut script = self.script(runtime, "paused.mjs", cache.path());
        script.arg(self.model_url()).arg(format!("{}/files/a", self.server.url()));
        let (Paused { ended_at }, _) = output(&mut script)?;
        ends_soon(ended_at)
    }

    fn loads_in_threads(&self, runtime: Runtime<'_>) -> Result<()> {
        let folder = tempfile::tempdir_in(self.app)?;
        let mut script = self.script(runtime, "threads.mjs", &folder.path().join("cache"));
        script.arg(self.model.folder.join(model::MANIFEST)).arg(self.model_url()).arg(&self.digests);
        let (report, printed): (Threads, _) = output(script.current_dir(folder.path()))?;
        ends_soon(report.ended_at)?;

        let Threads { workers, in_worker, file, cold, warm, warm_here, .. } = &report;
        for load in [workers, in_worker, file, cold, warm, warm_here] {
            let has_errors = load.workers_error.is_some() || load.cache_error.is_some();
            ensure!(load.wrong.is_empty() && !has_errors, "{printed}");
        }
        ensure!(workers.threads == 2 && in_worker.threads == 1, "the work is not done in threads: {printed}");
        for warm in [warm, warm_here] {
            ensure!(warm.bytes_received < 1000, "cached bytes are fetched again: {printed}");
        }
        for (error, code, message) in [
            (&report.missing, "NOT_FOUND", "There is no file at the path "),
            (&report.missing_in_worker, "NOT_FOUND", "There is no file at the path "),
            (&report.folder, "INVALID_ARGUMENT", "contains no files"),
            (&report.unreadable, "IO", "ELOOP"),
        ] {
            ensure!(error.code == code && error.message.contains(message), "{printed}");
        }
        Ok(())
    }

    /// One of two processes that fill the same folder is killed while it writes.
    fn shares_its_cache(&self, runtime: Runtime<'_>) -> Result<()> {
        let cache = tempfile::tempdir()?;
        let old = cache.path().join("unfinished-of-a-crashed-process");
        File::create(&old)?.set_modified(SystemTime::now() - 2 * DAY)?;
        let recent = cache.path().join("unfinished-of-another-process");
        File::create(&recent)?;

        let mut killed = self.load(runtime, cache.path());
        let killed = killed.arg("0.5").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        self.loaded(runtime, cache.path())?;
        let killed = killed.wait_with_output()?;
        ensure!(!killed.status.success() && killed.stdout.is_empty(), "a process was not killed: {}", killed.status);
        ensure!(!old.exists(), "a file of a crashed process is not deleted");
        ensure!(recent.exists(), "a file that another process may be writing is deleted");

        // Two processes that start at the same time do not see each other's bytes for a second.
        let warm = self.loaded(runtime, cache.path())?;
        ensure!(warm.bytes_from_cache > self.byte_length / 2, "{} bytes are from the cache", warm.bytes_from_cache);
        let warm = self.loaded(runtime, cache.path())?;
        ensure!(warm.bytes_received < 1000, "{} cached bytes are fetched again", warm.bytes_received);
        Ok(())
    }

    /// Deletes the file that was used least recently.
    fn bounds_its_cache(&self, runtime: Runtime<'_>) -> Result<()> {
        let cache = tempfile::tempdir()?;
        let load = |names: &[&str], limit: &str| {
            let mut script = self.script(runtime, "files.mjs", cache.path());
            script.args(names.iter().map(|name| format!("{}/files/{name}", self.server.url())));
            script.env("WEIGHTSTREAM_CACHE_SIZE", limit);
            script
        };
        let limit = "20 MiB"; // two of the files
        for (names, cached) in [(&["a", "b"][..], ["a", "b"]), (&["a"], ["a", "b"]), (&["c"], ["a", "c"])] {
            let (report, printed): (Files, _) = output(&mut load(names, limit))?;
            let sha256: Vec<_> = names.iter().map(|name| hex(&Sha256::digest(content(name)))).collect();
            ensure!(report.sha256 == sha256 && report.cached == cached, "{names:?}: {printed}");
            ensure!(report.cache_errors.iter().all(Option::is_none), "{printed}");
        }
        let (report, printed): (Files, _) = output(&mut load(&["b"], "1MB"))?;
        let error = report.cache_errors.first().cloned().flatten().unwrap_or_default();
        // Of this file, only the entry is cached.
        ensure!(report.cached == ["b"] && error.contains("WEIGHTSTREAM_CACHE_SIZE"), "{printed}");

        let mut uncached = self.script(runtime, "uncached.mjs", cache.path());
        uncached.arg(format!("{}/files/a", self.server.url())).arg(self.files.path().join("a"));
        let (lengths, printed): ([usize; 2], _) = output(uncached.env("WEIGHTSTREAM_CACHE_SIZE", "1 parsec"))?;
        ensure!(lengths == [FILE_BYTES; 2], "{printed}");
        let refused = load(&["a"], "1 parsec").output()?;
        let printed = String::from_utf8_lossy(&refused.stderr);
        ensure!(!refused.status.success() && printed.contains("must be a size such as 20GB"), "{printed}");
        Ok(())
    }

    fn script(&self, runtime: Runtime<'_>, name: &str, cache: &Path) -> Command {
        let mut command = runtime();
        command.arg(self.app.join("node").join(name)).current_dir(self.app).env("WEIGHTSTREAM_CACHE", cache);
        command
    }

    fn model_url(&self) -> String {
        format!("{}/models/{}", self.server.url(), model::MANIFEST)
    }

    /// The command that loads the model into the cache.
    fn load(&self, runtime: Runtime<'_>, cache: &Path) -> Command {
        let mut command = self.script(runtime, "cache.mjs", cache);
        command.arg(self.model_url()).arg(&self.digests);
        command
    }

    /// Loads the model into the cache, and checks its tensors.
    fn loaded(&self, runtime: Runtime<'_>, cache: &Path) -> Result<Load> {
        let (load, printed): (Load, _) = output(&mut self.load(runtime, cache))?;
        ensure!(load.wrong.is_empty() && load.byte_length == Some(self.byte_length), "{printed}");
        ensure!(load.cache_error.is_none(), "{printed}");
        Ok(load)
    }
}

/// The report of `aborts.mjs`: for each call, whether it rejected with the reason of its signal.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Aborts {
    before: BTreeMap<String, bool>,
    during: BTreeMap<String, bool>,
    requests_before: u64,
}

/// The report of `served.mjs`: the statuses of responses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Served {
    before: Vec<u16>,
    requests_before: u64,
    after: Vec<u16>,
    again: u16,
    other_cookies: u16,
}

/// The report of `paused.mjs`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paused {
    /// Milliseconds since 1970.
    ended_at: u64,
}

/// The report of `threads.mjs`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Threads {
    workers: Load,
    in_worker: Load,
    file: Load,
    cold: Load,
    warm: Load,
    warm_here: Load,
    missing: Failure,
    missing_in_worker: Failure,
    folder: Failure,
    unreadable: Failure,
    /// Milliseconds since 1970.
    ended_at: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Load {
    /// The names of tensors with another SHA-256.
    wrong: Vec<String>,
    #[serde(default)]
    threads: u32,
    byte_length: Option<u64>,
    workers_error: Option<String>,
    cache_error: Option<String>,
    bytes_received: u64,
    bytes_from_cache: u64,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
    message: String,
}

/// The report of `files.mjs`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Files {
    sha256: Vec<String>,
    cache_errors: Vec<Option<String>>,
    /// The names of the cached files.
    cached: Vec<String>,
}

/// Checks that a script has just run its last line, at this time in milliseconds since 1970.
fn ends_soon(ended_at: u64) -> Result<()> {
    let late_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() - u128::from(ended_at);
    ensure!(late_ms < END_LIMIT_MS, "it ended {late_ms} ms after its last line");
    Ok(())
}

/// Runs a script. Returns its report, also as text.
fn output<T: DeserializeOwned>(script: &mut Command) -> Result<(T, String)> {
    let printed = command::output(script)?;
    Ok((serde_json::from_str(printed.trim()).with_context(|| printed.clone())?, printed))
}

/// The bytes of a file. They differ everywhere, because equal bytes are cached once.
fn content(name: &str) -> Vec<u8> {
    let block = |number: usize| Sha256::digest(format!("{name} {number}"));
    (0..FILE_BYTES / 32).flat_map(block).collect()
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}
