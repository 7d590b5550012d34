//! `publish --check` of real servers: nginx with a bad configuration, nginx with the printed one, and nginx slices and
//! varnish as CDNs in front of it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::trap_test::traps::model::FILE;
use xtask::project::Project;
use xtask::{browser, model};

const START_LIMIT: Duration = Duration::from_secs(30);

/// What the bad configuration does wrong.
const EXPECTED: [&str; 6] = ["ranges", "etag", "cors-origin", "cors-expose", "cache-control", "keep-alive"];

/// A server. Dropping it ends its process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok(); // it may have ended already
        self.0.wait().ok();
    }
}

pub fn run(project: &Project) -> Result<()> {
    let program = model::command_line(project)?;
    let folder = tempfile::Builder::new().prefix("weightstream-publish-").tempdir()?;
    let configuration = fs::read_to_string(project.root.join("tests/nginx/publish.conf"))?;

    let bad = check_nginx(&program, &folder.path().join("bad"), &configuration, ["", ""])?;
    let report = bad.report("m.safetensors")?;
    for name in EXPECTED {
        ensure!(worst(&report, name) > Some(1), "{name} is not reported: {report:#}");
    }
    let text = |at| report.pointer(at).and_then(Value::as_str).context("there is no configuration");
    let snippets = [text("/configuration/0/text")?, text("/configuration/1/text")?];
    drop(bad);

    let good = check_nginx(&program, &folder.path().join("good"), &configuration, snippets)?;
    for name in ["m.safetensors", "m-3f2a9c01.safetensors"] {
        good.ensure_passes(good.origin, name)?;
        good.ensure_passes(good.cdn, name)?;
    }
    let varnish = free_port()?;
    let mut command = Command::new(browser::varnish()?);
    command.args(["-F", "-n"]).arg(folder.path().join("varnish")).args(["-s", "malloc,16m"]);
    command.args(["-a", &format!("127.0.0.1:{varnish}"), "-b", &format!("127.0.0.1:{}", good.origin)]);
    let _varnish = start(&mut command, varnish)?;
    good.ensure_passes(varnish, "m-3f2a9c01.safetensors")?;
    println!("nginx with the printed configuration, nginx slices and varnish pass the check");
    Ok(())
}

struct Site<'a> {
    program: &'a Path,
    origin: u16,
    cdn: u16,
    _nginx: Running,
}

fn check_nginx<'a>(
    program: &'a Path,
    folder: &Path,
    configuration: &str,
    [http, location]: [&str; 2],
) -> Result<Site<'a>> {
    let (origin, cdn) = (free_port()?, free_port()?);
    fs::create_dir_all(folder.join("models"))?;
    for name in ["m.safetensors", "m-3f2a9c01.safetensors"] {
        fs::write(folder.join("models").join(name), &*FILE)?;
    }
    let configuration = configuration.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let configuration = configuration.replace("ORIGIN", &origin.to_string()).replace("CDN", &cdn.to_string());
    let configuration = configuration.replace("HTTP_SNIPPET", http).replace("LOCATION_SNIPPET", location);
    fs::write(folder.join("nginx.conf"), configuration)?;
    let mut command = Command::new(browser::nginx()?);
    command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log"]);
    let nginx = start(&mut command, cdn)?;
    Ok(Site { program, origin, cdn, _nginx: nginx })
}

impl Site<'_> {
    fn report(&self, name: &str) -> Result<Value> {
        self.report_of(self.origin, name)
    }

    fn report_of(&self, port: u16, name: &str) -> Result<Value> {
        let url = format!("http://127.0.0.1:{port}/{name}");
        let output = Command::new(self.program).args(["publish", "--json", "--check", &url]).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).with_context(|| format!("no report about {url}: {error}"))
    }

    fn ensure_passes(&self, port: u16, name: &str) -> Result<()> {
        let report = self.report_of(port, name)?;
        let findings = report.get("findings").and_then(Value::as_array).context("there are no findings")?;
        let is_good = |finding: &Value| matches!(finding.get("severity").and_then(Value::as_str), Some("ok" | "info"));
        ensure!(!findings.is_empty() && findings.iter().all(is_good), "port {port}: {report:#}");
        Ok(())
    }
}

/// 3 for an error, 2 for a warning, 1 otherwise; `None` if there is no finding of this name.
fn worst(report: &Value, name: &str) -> Option<u8> {
    let named = report
        .get("findings")
        .and_then(Value::as_array)?
        .iter()
        .filter(|finding| finding.get("name").is_some_and(|one| one == name));
    named
        .map(|finding| match finding.get("severity").and_then(Value::as_str) {
            Some("error") => 3,
            Some("warning") => 2,
            _ => 1,
        })
        .max()
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn start(command: &mut Command, port: u16) -> Result<Running> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut running = Running(command.spawn().with_context(|| format!("cannot start {command:?}"))?);
    let end = Instant::now() + START_LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let runs = matches!(running.0.try_wait(), Ok(None));
        ensure!(runs && Instant::now() < end, "{command:?} does not answer");
        sleep(Duration::from_millis(20));
    }
    Ok(running)
}
