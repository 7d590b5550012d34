//! The browser engines and their WebDriver servers.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium;
use xtask::project::Project;
use xtask::{browser, cargo_tools};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Engine {
    Chromium,
    /// Chromium with WebGPU, on an adapter in software.
    ChromiumWithGpu,
    Firefox,
    WebKit,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Engine::Chromium => "Chromium",
            Engine::ChromiumWithGpu => "Chromium with WebGPU",
            Engine::Firefox => "Firefox",
            Engine::WebKit => "WebKitGTK",
        })
    }
}

impl Engine {
    pub const ALL: [Engine; 3] = [Engine::Chromium, Engine::Firefox, Engine::WebKit];

    /// Finds or installs the browser and its driver, and starts the driver on a free port.
    pub fn start(self, project: &Project) -> Result<Driver> {
        let folder = tempfile::Builder::new().prefix("weightstream-browser-").tempdir()?;
        // If another process takes the port before the driver does, the driver fails to start.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut driver =
            Driver { port, capabilities: json!({}), console: Console::InThePage, processes: Vec::new(), folder };
        let flag = format!("--port={port}");
        match self {
            Engine::Chromium | Engine::ChromiumWithGpu => {
                let has_gpu = self == Engine::ChromiumWithGpu;
                let flags = if has_gpu { chromium::flags_with_gpu() } else { chromium::FLAGS.to_vec() };
                let options = json!({ "binary": browser::chromium()?, "args": flags });
                driver.capabilities =
                    json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
                driver.console = Console::OfTheDriver;
                driver.spawn(Command::new(browser::chromedriver()?).arg(flag))?;
            }
            Engine::Firefox => {
                let console = json!({ "devtools.console.stdout.content": true });
                let options = json!({ "binary": browser::firefox()?, "args": ["-headless"], "prefs": console });
                driver.capabilities = json!({ "moz:firefoxOptions": options });
                driver.console = Console::InTheLog;
                driver.spawn(Command::new(cargo_tools::geckodriver(project)?.join("geckodriver")).arg(flag))?;
            }
            Engine::WebKit => {
                let program = browser::webkit_driver()?;
                let display = driver.spawn_display(&browser::xvfb()?)?;
                driver.spawn(Command::new(program).arg(flag).env("DISPLAY", display))?;
            }
        }
        Ok(driver)
    }
}

/// Where the console of a page is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Console {
    /// The driver returns it.
    OfTheDriver,
    /// The browser writes it to its log.
    InTheLog,
    /// The page has to keep it.
    InThePage,
}

/// A running WebDriver server. Dropping it ends the server.
pub struct Driver {
    pub port: u16,
    /// The capabilities to request for a session.
    pub capabilities: Value,
    pub console: Console,
    /// The processes in the order in which they were started.
    processes: Vec<Child>,
    /// The files that the processes write, including profiles.
    folder: TempDir,
}

impl Driver {
    /// The log of the driver and its browser.
    pub fn log(&self) -> String {
        fs::read(self.folder.path().join("log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().rev().take(10).collect();
        format!("the log of the driver ends with: {}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }

    fn spawn(&mut self, command: &mut Command) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).env("TMPDIR", self.folder.path());
        let child = command.spawn().with_context(|| format!("cannot start {}", xtask::command::describe(command)))?;
        self.processes.push(child);
        Ok(())
    }

    /// Starts a virtual display for a browser without a headless mode. Returns the name of the display.
    fn spawn_display(&mut self, xvfb: &Path) -> Result<String> {
        let mut command = Command::new(xvfb);
        command.args(["-displayfd", "1", "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", xvfb.display()))?;
        let output = child.stdout.take().context("Xvfb has no output")?;
        self.processes.push(child);
        let mut number = String::new();
        BufReader::new(output).read_line(&mut number)?;
        let number: u32 = number.trim().parse().context("Xvfb opened no display")?;
        Ok(format!(":{number}"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            process.kill().ok(); // it may have ended already
            process.wait().ok();
        }
    }
}
