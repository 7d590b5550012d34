//! A Rust toolchain that can build for `wasm32-unknown-unknown`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::project::Project;
use crate::{command, setup, wasm_sysroot};

pub const TARGET: &str = "wasm32-unknown-unknown";

/// The time limit of rustup. A machine without access to rustup's server must use the other route instead of waiting.
const RUSTUP_LIMIT: Duration = Duration::from_secs(180);

/// The toolchain for wasm builds. Native builds use the ordinary toolchain.
#[derive(Clone)]
pub struct Toolchain {
    /// The programs of the private toolchain, `None` if the ordinary one can build for the target.
    bin: Option<PathBuf>,
}

/// The ordinary toolchain with rustup's standard library. If rustup cannot download it, Debian's toolchain with a
/// locally built one. `WEIGHTSTREAM_WASM_ROUTE` (`rustup` or `debian`) selects one of them.
pub fn ready(project: &Project) -> Result<Toolchain> {
    let route = env::var("WEIGHTSTREAM_WASM_ROUTE").ok();
    let allowed = |name: &str| route.as_deref().is_none_or(|route| route == name);
    if !allowed("rustup") && !allowed("debian") {
        bail!("WEIGHTSTREAM_WASM_ROUTE must be `rustup` or `debian`");
    }

    let ordinary = Toolchain { bin: None };
    let private = Toolchain { bin: Some(wasm_sysroot::folder(project).join("bin")) };
    let find = || {
        if allowed("rustup") && ordinary.works() {
            return Some(ordinary.clone());
        }
        (allowed("debian") && wasm_sysroot::is_current(project) && private.works()).then(|| private.clone())
    };
    let install = || {
        if allowed("rustup") {
            match add_with_rustup() {
                Ok(()) => return Ok(()),
                Err(error) if !allowed("debian") => return Err(error),
                Err(error) => {
                    eprintln!("setup: falling back to Debian's toolchain, because {error:#}")
                }
            }
        }
        wasm_sysroot::install(project)
            .with_context(|| format!("install the target manually: rustup target add {TARGET}"))
    };
    setup::ready("wasm32 target", find, install)
}

fn add_with_rustup() -> Result<()> {
    let mut rustup = Command::new("rustup");
    // Suppresses the backtrace of a refused connection.
    rustup.args(["target", "add", TARGET]).env("RUST_BACKTRACE", "0");
    command::quiet(&mut rustup, RUSTUP_LIMIT)
}

impl Toolchain {
    pub fn cargo(&self) -> Result<Command> {
        let mut cargo = Command::new("cargo");
        self.select_for(&mut cargo)?;
        Ok(cargo)
    }

    /// Makes a command use this toolchain.
    fn select_for(&self, command: &mut Command) -> Result<()> {
        command.env("PATH", command::path_starting_with(self.bin.as_deref())?);
        // These variables would override the flags in .cargo/config.toml.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        if self.bin.is_some() {
            // With these variables, which rustup's proxy sets, cargo does not look for its compiler in PATH.
            command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
        }
        Ok(())
    }

    /// Compiles and links a module. Checking only that the files exist would not detect a missing linker or a library
    /// of another compiler.
    fn works(&self) -> bool {
        let module = tempfile::tempdir().and_then(|folder| {
            let path = folder.path().join("smoke.wasm");
            let mut rustc = Command::new("rustc");
            self.select_for(&mut rustc).map_err(std::io::Error::other)?;
            rustc.args(["--edition=2024", "--crate-type=cdylib", "--target", TARGET, "-", "-o"]).arg(&path);
            rustc.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = rustc.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(b"#[unsafe(no_mangle)] pub extern \"C\" fn f(n: u32) -> usize { vec![n; 9].len() }")?;
            }
            child.wait()?;
            fs::read(path)
        });
        module.is_ok_and(|module| module.starts_with(b"\0asm"))
    }
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let program = self.bin.as_ref().map_or("rustc".into(), |bin| bin.join("rustc"));
        let version = command::output(Command::new(program).arg("--version")).unwrap_or_default();
        let name = if self.bin.is_some() { "Debian's toolchain" } else { "the ordinary toolchain" };
        write!(f, "{name}, {}", version.trim())
    }
}
