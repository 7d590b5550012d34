//! Runs nginx with the configuration of the tests. Dropping [`Nginx`] ends it.

use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use tempfile::TempDir;

use xtask::browser;
use xtask::project::Project;

const START_LIMIT: Duration = Duration::from_secs(10);

pub struct Nginx {
    port: u16,
    process: Child,
    folder: TempDir,
}

/// A request that nginx has answered, from its access log.
#[derive(Debug, PartialEq)]
pub struct Answered {
    pub path: String,
    pub method: String,
    pub status: u16,
    pub body_bytes: usize,
    pub is_encoded: bool,
}

impl Nginx {
    /// Starts nginx on a free port. It serves the model under this name, plain and gzipped.
    pub fn start(project: &Project, name: &str, model: &[u8]) -> Result<Nginx> {
        let program = browser::nginx()?;
        let folder = tempfile::Builder::new().prefix("weightstream-nginx-").tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let configuration = fs::read_to_string(project.root.join("tests/nginx/nginx.conf"))?;
        fs::write(folder.path().join("nginx.conf"), configuration.replace("PORT", &port.to_string()))?;
        fs::create_dir(folder.path().join("models"))?;
        fs::write(folder.path().join("models").join(name), model)?;
        let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
        compressed.write_all(model)?;
        fs::write(folder.path().join("models").join(format!("{name}.gz")), compressed.finish()?)?;

        let log = File::create(folder.path().join("stderr"))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf", "-e", "error.log"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = command.spawn().context("cannot start nginx")?;
        let mut nginx = Nginx { port, process, folder };
        let end = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let runs = matches!(nginx.process.try_wait(), Ok(None));
            ensure!(runs && Instant::now() < end, "nginx does not answer; its log: {}", nginx.logs());
            sleep(Duration::from_millis(20));
        }
        Ok(nginx)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests answered so far. nginx writes its log after the last byte, so an entry may be missing for a moment.
    pub fn answered(&self) -> Result<Vec<Answered>> {
        let log = fs::read_to_string(self.folder.path().join("access.log"))?;
        log.lines().map(|line| parse(line).with_context(|| format!("cannot parse the log line {line}"))).collect()
    }

    fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        format!("{}{}", read("stderr"), read("error.log"))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.process.kill().ok(); // it may have ended already
        self.process.wait().ok();
    }
}

fn parse(line: &str) -> Option<Answered> {
    let mut words = line.split(' ');
    let (path, method) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (status, body_bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Answered { path, method, status, body_bytes, is_encoded: words.next()? != "-" })
}
