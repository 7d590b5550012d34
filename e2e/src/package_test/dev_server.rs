//! Runs a server of a tool from npm: the development servers of Vite, Next.js, workerd. Dropping [`DevServer`] ends it.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use xtask::npm;
use xtask::project::Project;

const START_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(5);

/// The folders of the versions of Vite among the tools.
const VITES: [&str; 3] = ["vite5", "vite", "vite7"];

pub(super) struct DevServer {
    port: u16,
    process: Child,
    log: PathBuf,
}

/// The folders of all versions of Vite, the latest last.
pub(crate) fn vites(project: &Project, tools: &Path) -> Result<Vec<PathBuf>> {
    let pins = ["package.json", "package-lock.json", ".npmrc"];
    let latest = npm::installed(project, "Vite 8", "tests/package/vite8", &pins)?.join("vite");
    Ok(VITES.map(|name| tools.join(name)).into_iter().chain([latest]).collect())
}

impl DevServer {
    /// Starts the development server of the version of Vite in this folder, with these options.
    pub(super) fn vite(app: &Path, vite: &Path, options: &[&str]) -> Result<Self> {
        // Every version keeps the dependencies that it has changed in the same folder.
        let changed = app.join("node_modules/.vite");
        if changed.exists() {
            fs::remove_dir_all(changed)?;
        }
        let mut command = npm::tool(vite, "bin/vite.js");
        command.arg("app").args(options).args(["--host", "127.0.0.1", "--strictPort", "--port"]);
        Self::start(command, app, "vite", |port| port.to_string())
    }

    /// Starts a server with this command in the folder of the app. The last argument is made of the port.
    pub(super) fn start(
        mut command: Command,
        app: &Path,
        name: &str,
        argument: impl FnOnce(u16) -> String,
    ) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = app.join(format!("{name}.log"));
        command.arg(argument(port)).current_dir(app);
        command.stdin(Stdio::null()).stdout(File::create(&log)?).stderr(File::options().append(true).open(&log)?);
        let process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut server = DevServer { port, process, log };
        let end = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let runs = matches!(server.process.try_wait(), Ok(None));
            ensure!(runs && Instant::now() < end, "{name} does not answer; its log: {}", server.logs());
            sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    fn logs(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        // Next.js ends the processes that it started only if it is asked to end.
        if cfg!(unix) {
            let _ = Command::new("sh").args(["-c", &format!("kill {}", self.process.id())]).status();
            let end = Instant::now() + END_LIMIT;
            while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < end {
                sleep(Duration::from_millis(20));
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
