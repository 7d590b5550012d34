//! Starts the emulators of the stores, and a web server. Dropping an emulator ends it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::python::{self, Python};
use xtask::project::Project;
use xtask::{browser, command, npm, setup};

/// The time limit for the start. Python imports many files when it starts for the first time.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server.
pub(super) struct Emulator {
    pub(super) port: u16,
    process: Child,
    log: PathBuf,
}

/// What starts the emulators.
pub(super) struct Emulators {
    scripts: PathBuf,
    python: Python,
    packages: PathBuf,
    node_modules: PathBuf,
    folder: PathBuf,
}

impl Emulators {
    /// Installs the emulators. Logs are written to `folder`.
    pub(super) fn ready(project: &Project, folder: &Path) -> Result<Self> {
        let scripts = project.root.join("tests/stores");
        let python = python::ready()?;
        let requirements = scripts.join("requirements.txt");
        let name = format!("stores-{}", setup::fingerprint([requirements.clone()])?);
        let packages = python.installed(project, &name, &[OsStr::new("--requirement"), requirements.as_os_str()])?;
        let pins = ["package.json", "package-lock.json", ".npmrc"];
        let node_modules = npm::installed(project, "emulator of Azure", "tests/stores", &pins)?;
        Ok(Emulators { scripts, python, packages, node_modules, folder: folder.to_owned() })
    }

    /// Starts moto, with a bucket.
    pub(super) fn s3(&self, bucket: &str) -> Result<Emulator> {
        let port = free_port()?;
        let mut start = self.script("s3.py")?;
        let emulator = self.start(start.arg("start").arg(port.to_string()), "moto", port)?;
        command::output(self.s3_script(&emulator)?.args(["create", bucket]))?;
        Ok(emulator)
    }

    /// The headers of all objects of a bucket, as JSON: Cache-Control, Content-Type, length.
    pub(super) fn s3_objects(&self, emulator: &Emulator, bucket: &str) -> Result<serde_json::Value> {
        Ok(serde_json::from_str(&command::output(self.s3_script(emulator)?.args(["list", bucket]))?)?)
    }

    /// Starts the emulator of Google Cloud Storage, with the bucket `models`.
    pub(super) fn google(&self) -> Result<Emulator> {
        let port = free_port()?;
        self.start(self.script("gcs.py")?.arg(port.to_string()), "gcp-storage-emulator", port)
    }

    /// Starts azurite, with a container.
    pub(super) fn azure(&self, container: &str) -> Result<Emulator> {
        let port = free_port()?;
        let mut azurite = npm::tool(&self.node_modules, "azurite/dist/src/blob/main.js");
        azurite.args(["--silent", "--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort"]);
        let emulator = self.start(azurite.arg(port.to_string()), "azurite", port)?;
        command::output(self.script("azure.py")?.arg(port.to_string()).arg(container))?;
        Ok(emulator)
    }

    /// Starts nginx, which takes files with PUT.
    pub(super) fn nginx(&self) -> Result<Emulator> {
        let (program, port) = (browser::nginx()?, free_port()?);
        let configuration = fs::read_to_string(self.scripts.join("nginx.conf"))?.replace("PORT", &port.to_string());
        let folder = self.folder.join("nginx");
        fs::create_dir_all(folder.join("files"))?;
        fs::write(folder.join("nginx.conf"), configuration)?;
        let mut nginx = Command::new(program);
        self.start(nginx.arg("-p").arg(&folder).args(["-c", "nginx.conf", "-e", "error.log"]), "nginx", port)
    }

    fn script(&self, name: &str) -> Result<Command> {
        let mut python = self.python.run(&self.scripts.join(name), std::slice::from_ref(&self.packages))?;
        python.envs(S3_KEYS).env("AWS_DEFAULT_REGION", "us-east-1");
        Ok(python)
    }

    fn s3_script(&self, emulator: &Emulator) -> Result<Command> {
        let mut script = self.script("s3.py")?;
        script.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", emulator.port));
        Ok(script)
    }

    fn start(&self, command: &mut Command, name: &str, port: u16) -> Result<Emulator> {
        let log = self.folder.join(format!("{name}.log"));
        let file = File::create(&log)?;
        // An open standard input: the emulator of Google Cloud Storage ends with it.
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        let process = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut emulator = Emulator { port, process, log };
        let end = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let runs = matches!(emulator.process.try_wait(), Ok(None)) && Instant::now() < end;
            ensure!(runs, "{name} does not answer; its log: {}", fs::read_to_string(&emulator.log)?);
            sleep(Duration::from_millis(50));
        }
        Ok(emulator)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.process.kill().ok(); // it may have ended already
        self.process.wait().ok();
    }
}

/// The credentials of the emulator of S3, which takes any.
pub(super) const S3_KEYS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")];

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
