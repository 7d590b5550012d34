//! Runs the development server of Vite. Dropping [`DevServer`] ends it.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use xtask::npm;

const START_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct DevServer {
    port: u16,
    process: Child,
    log: PathBuf,
}

impl DevServer {
    /// Starts the server of this version, the name of the tool's folder, without a configuration.
    pub(super) fn start(app: &Path, tools: &Path, vite: &str) -> Result<Self> {
        // Every version keeps the dependencies that it has changed in the same folder.
        let changed = app.join("node_modules/.vite");
        if changed.exists() {
            fs::remove_dir_all(changed)?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = app.join(format!("{vite}.log"));
        let mut command = npm::tool(tools, &format!("{vite}/bin/vite.js"));
        command.args(["app", "--host", "127.0.0.1", "--strictPort", "--port", &port.to_string()]).current_dir(app);
        command.stdin(Stdio::null()).stdout(File::create(&log)?).stderr(File::options().append(true).open(&log)?);
        let process = command.spawn().with_context(|| format!("cannot start {vite}"))?;
        let mut server = DevServer { port, process, log };
        let end = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let runs = matches!(server.process.try_wait(), Ok(None));
            ensure!(runs && Instant::now() < end, "{vite} does not answer; its log: {}", server.logs());
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
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
