//! Debian's Rust with a locally built wasm32 standard library, for machines where rustup cannot download one.
//!
//! Debian has a recent compiler (for its web browsers) and the source of the standard library, but no build of it for
//! wasm32. It is built once, in a sysroot in the tools folder. `/usr` and rustup's toolchains are not modified.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{apt, command};

const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";

/// The version of the build procedure. Increase it to rebuild existing sysroots.
const RECIPE: u32 = 2;

const BUILD_LIMIT: Duration = Duration::from_secs(900);

/// The sysroot. Its `bin` folder contains a rustc, rustdoc, cargo and clippy that use it.
pub fn folder(project: &Project) -> PathBuf {
    project.tools.join("wasm-sysroot")
}

/// Whether the standard library was built by the installed compiler. An update of the compiler makes it outdated.
pub fn is_current(project: &Project) -> bool {
    let stamp = fs::read_to_string(folder(project).join("stamp"));
    stamp.is_ok_and(|stamp| Compiler::ask().is_ok_and(|compiler| compiler.stamp() == stamp))
}

pub fn install(project: &Project) -> Result<()> {
    apt::install(&["rustc-web", "cargo-web", "rust-web-src", "rust-web-clippy"])?;
    let compiler = Compiler::ask()?;
    // A linker older than the compiler's LLVM may refuse its object files.
    apt::install(&[&compiler.linker()])?;

    fs::create_dir_all(&project.tools)?;
    let work = tempfile::Builder::new().prefix("wasm-sysroot-").tempdir_in(&project.tools)?;
    eprintln!("setup: building the standard library for {TARGET}, which takes about half a minute");
    let libraries = build_libraries(work.path())?;

    // Assembled in a temporary folder and moved at the end, so that an interrupted run leaves no incomplete sysroot.
    let sysroot = work.path().join("sysroot");
    let lib = sysroot.join("lib/rustlib").join(TARGET).join("lib");
    fs::create_dir_all(&lib)?;
    for entry in fs::read_dir(libraries)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libstd_for_wasm") {
            fs::copy(entry.path(), lib.join(name))?;
        }
    }
    add_host_parts(&sysroot, &compiler)?;
    add_programs(&sysroot, &folder(project))?;
    fs::write(sysroot.join("stamp"), compiler.stamp())?;

    let old = folder(project);
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    Ok(fs::rename(sysroot, old)?)
}

/// The output of `rustc -vV`.
struct Compiler(String);

impl Compiler {
    fn ask() -> Result<Compiler> {
        Ok(Compiler(command::output(Command::new(RUSTC).arg("-vV"))?))
    }

    fn field(&self, name: &str) -> Result<&str> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.with_context(|| format!("the output of {RUSTC} -vV has no {name}"))
    }

    /// The name of the linker's package and program, such as `lld-22`. The number is missing if the version is unknown.
    fn linker(&self) -> String {
        let llvm = self.field("LLVM version").unwrap_or_default();
        format!("lld-{}", llvm.split('.').next().unwrap_or_default())
    }

    fn stamp(&self) -> String {
        format!("recipe {RECIPE}\n{}", self.0)
    }
}

fn build_libraries(work: &Path) -> Result<PathBuf> {
    fs::create_dir(work.join("src"))?;
    fs::write(work.join("src/lib.rs"), "")?;
    let manifest = "[package]\nname = \"std_for_wasm\"\nedition = \"2021\"\n[profile.release]\nopt-level = 3\n";
    fs::write(work.join("Cargo.toml"), manifest)?;

    let target = work.join("target");
    let mut cargo = Command::new(CARGO);
    cargo.args(["build", "--release", "--target", TARGET, "--target-dir"]).arg(&target).current_dir(work);
    // `rustc --test` links `test`; tests in the browser need it too.
    cargo.arg("-Zbuild-std=std,panic_abort,panic_unwind,proc_macro,test");
    // Lets a stable cargo accept -Zbuild-std.
    cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", RUSTC);
    // `lto = true` needs bitcode in the library, as in the official one.
    cargo.env("RUSTFLAGS", "-Cembed-bitcode=yes");
    // The user's toolchain and flags must not affect the library.
    for name in ["RUSTUP_TOOLCHAIN", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "CARGO"] {
        cargo.env_remove(name);
    }
    command::quiet(&mut cargo, BUILD_LIMIT)?;
    Ok(target.join(TARGET).join("release/deps"))
}

/// Adds the host's standard library, for build scripts and procedural macros.
fn add_host_parts(sysroot: &Path, compiler: &Compiler) -> Result<()> {
    let host = compiler.field("host")?;
    let rustlib = sysroot.join("lib/rustlib");
    fs::create_dir_all(rustlib.join(host).join("bin"))?;
    symlink(Path::new("/usr/lib/rustlib").join(host).join("lib"), rustlib.join(host).join("lib"))?;
    // The path at which rustc looks for its linker first.
    symlink(Path::new("/usr/bin").join(compiler.linker()), rustlib.join(host).join("bin/rust-lld"))?;
    Ok(())
}

/// Adds wrappers that pass the sysroot, because rustc by default uses the one next to its own program.
fn add_programs(sysroot: &Path, final_place: &Path) -> Result<()> {
    let bin = sysroot.join("bin");
    fs::create_dir(&bin)?;
    symlink(CARGO, bin.join("cargo"))?;
    let place = final_place.display();
    let programs = [
        ("rustc", format!("exec /usr/bin/rustc --sysroot '{place}'")),
        ("rustdoc", format!("exec /usr/bin/rustdoc --sysroot '{place}'")),
        // The driver that it runs instead of rustc reads the sysroot from a variable.
        ("cargo-clippy", format!("SYSROOT='{place}' exec /usr/bin/cargo-clippy")),
        ("clippy-driver", format!("SYSROOT='{place}' exec /usr/bin/clippy-driver")),
    ];
    for (program, command) in programs {
        let path = bin.join(program);
        fs::write(&path, format!("#!/bin/sh\n{command} \"$@\"\n"))?;
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
    }
    Ok(())
}
