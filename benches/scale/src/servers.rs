//! The origin and the caches: real servers, each in a temporary folder. Dropping a [`Server`] ends it.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use xtask::browser;

const ORIGIN: &str = include_str!("../servers/origin.conf");
const NGINX: &str = include_str!("../servers/cache.conf");
const VARNISH: &str = include_str!("../servers/varnish.vcl");

/// varnishd compiles its configuration before it listens.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A program that caches what an origin sends.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Cache {
    /// varnish, which requests whole files.
    Varnish,
    /// nginx, which requests slices of 1 MiB.
    Nginx,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    process: Child,
    folder: TempDir,
}

/// The responses of an origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) requests: u64,
    /// The bytes of the bodies.
    pub(crate) bytes: u64,
}

impl Server {
    /// Starts nginx as the origin of the files in a folder.
    pub(crate) fn origin(files: &Path) -> Result<Server> {
        Server::nginx(&ORIGIN.replace("FILES", &files.display().to_string()))
    }

    /// Starts a cache of an origin.
    pub(crate) fn cache(cache: Cache, origin: SocketAddr) -> Result<Server> {
        let port = origin.port().to_string();
        match cache {
            Cache::Nginx => Server::nginx(&NGINX.replace("UPSTREAM", &port)),
            Cache::Varnish => Server::varnish(&VARNISH.replace("UPSTREAM", &port)),
        }
    }

    /// What an origin has sent so far, from its access log. nginx writes an entry after the last byte of a response.
    pub(crate) fn sent(&self) -> Result<Sent> {
        let log = fs::read_to_string(self.folder.path().join("access.log"))?;
        let mut sent = Sent { requests: 0, bytes: 0 };
        for line in log.lines() {
            let bytes = line.split_once(' ').and_then(|(_, bytes)| bytes.parse::<u64>().ok());
            sent.bytes += bytes.with_context(|| format!("cannot parse the log line {line}"))?;
            sent.requests += 1;
        }
        Ok(sent)
    }

    fn nginx(configuration: &str) -> Result<Server> {
        Server::start(|address, folder| {
            // The process would give up root privileges, and then might be unable to read the temporary folder.
            let user = if is_root() { "user root;\n" } else { "" };
            let configuration = configuration.replace("PORT", &address.port().to_string());
            fs::write(folder.join("nginx.conf"), format!("{user}{configuration}"))?;
            let mut command = Command::new(browser::nginx()?);
            command.arg("-p").arg(folder).args(["-c", "nginx.conf", "-e", "error.log"]);
            Ok(command)
        })
    }

    fn varnish(configuration: &str) -> Result<Server> {
        Server::start(|address, folder| {
            fs::write(folder.join("cache.vcl"), configuration)?;
            let mut command = Command::new(browser::varnish()?);
            // `-j none`: without privileges that it would give up. `-T none`: without a port for administration.
            command.args(["-F", "-j", "none", "-T", "none", "-s", "malloc,1G", "-a", &address.to_string()]);
            // One thread for each response: four connections for each of some hundred clients.
            command.args(["-p", "thread_pool_max=4000", "-p", "listen_depth=4096"]);
            command.arg("-n").arg(folder.join("state")).arg("-f").arg(folder.join("cache.vcl"));
            Ok(command)
        })
    }

    fn start(command: impl FnOnce(SocketAddr, &Path) -> Result<Command>) -> Result<Server> {
        let folder = tempfile::Builder::new().prefix("weightstream-scale-").tempdir()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = command(address, folder.path())?;
        let log = File::create(folder.path().join("output"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let mut server = Server { address, process, folder };
        let end = Instant::now() + START_LIMIT;
        while TcpStream::connect(address).is_err() {
            let runs = matches!(server.process.try_wait(), Ok(None));
            ensure!(runs && Instant::now() < end, "a server does not start; its log: {}", server.logs());
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        format!("{}{}", read("output"), read("error.log"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A signal lets varnishd end its worker, too.
        let ended = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        if !ended.is_ok_and(|status| status.success()) {
            self.process.kill().ok(); // it may have ended already
        }
        self.process.wait().ok();
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
