//! Compares the public APIs of the Rust crates with their snapshots, so that every change is visible in review.
//!
//! The JSON output of rustdoc is unstable, and a stable compiler requires the variable `RUSTC_BOOTSTRAP` for it. If
//! cargo itself had this variable, it would compile all dependencies again. So cargo runs this program as `rustdoc`,
//! which sets the variable.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use public_api::Builder;

use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{command, wasm_target};

/// The native API with all features for apps.
const NATIVE_SNAPSHOT: &str = "tests/api/weightstream.txt";

/// The API on wasm32 with the default features and `web-workers`.
const WASM_SNAPSHOT: &str = "tests/api/weightstream-wasm32.txt";

/// The API of the crate that publishes models.
const PUBLISH_SNAPSHOT: &str = "tests/api/weightstream-publish.txt";

/// Pages of the documentation, which exist only for rustdoc and have no items.
const GUIDE: &str = "pub mod weightstream::guide";

/// A run without a build folder also compiles the dependencies.
const RUSTDOC_LIMIT: Duration = Duration::from_secs(600);

/// Whether cargo runs this program as `rustdoc`.
const IS_RUSTDOC: &str = "WEIGHTSTREAM_XTASK_IS_RUSTDOC";

/// Runs rustdoc if cargo started this program as `rustdoc`.
pub fn as_rustdoc() -> Option<ExitCode> {
    env::var_os(IS_RUSTDOC)?;
    let status = Command::new("rustdoc").args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    let code = status.ok().and_then(|status| u8::try_from(status.code()?).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Compares the public APIs with the snapshots, or rewrites the snapshots if `UPDATE_SNAPSHOTS` is set.
pub fn run(project: &Project) -> Result<()> {
    let mut native = Command::new("cargo");
    native.args(["rustdoc", "--package", "weightstream", "--features", "http,signatures,write"]);
    compare(project, native, "doc/weightstream.json", NATIVE_SNAPSHOT)?;
    let mut publish = Command::new("cargo");
    publish.args(["rustdoc", "--package", "weightstream-publish", "--features", "weightstream/default"]);
    compare(project, publish, "doc/weightstream_publish.json", PUBLISH_SNAPSHOT)?;
    let mut wasm = wasm_target::ready(project)?.cargo()?;
    wasm.args(["rustdoc", "--package", "weightstream", "--target", TARGET, "--features", "web-workers"]);
    compare(project, wasm, &format!("{TARGET}/doc/weightstream.json"), WASM_SNAPSHOT)
}

fn compare(project: &Project, rustdoc: Command, json: &str, name: &str) -> Result<()> {
    let api = public_api(project, rustdoc, json)?;
    let snapshot = project.root.join(name);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        return Ok(fs::write(snapshot, api)?);
    }
    let known = fs::read_to_string(snapshot).context(name.to_owned())?;
    let (added, removed) = (missing(&api, &known), missing(&known, &api));
    ensure!(
        api == known,
        "the public API differs from {name}.\nadded:\n{added}\nremoved:\n{removed}\n\
         To accept the change, run: UPDATE_SNAPSHOTS=1 cargo xtask test api"
    );
    Ok(())
}

/// One line for each public item. Blanket, auto trait and derived implementations are omitted, and so are [`GUIDE`].
/// `json` is the file in the target folder that `rustdoc` writes.
fn public_api(project: &Project, mut rustdoc: Command, json: &str) -> Result<String> {
    rustdoc.args(["--lib", "--", "-Z", "unstable-options", "--output-format", "json"]);
    rustdoc.env("RUSTDOC", env::current_exe()?).env(IS_RUSTDOC, "1").env_remove("RUSTDOCFLAGS");
    command::quiet(rustdoc.current_dir(&project.root), RUSTDOC_LIMIT)?;

    let api = Builder::from_rustdoc_json(project.target.join(json))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .context(
            "if this compiler is newer, set `public-api` in xtask/Cargo.toml to the release for its rustdoc JSON",
        )?;
    let items = api.items().map(|item| format!("{item}\n"));
    Ok(items.filter(|item| !item.starts_with(GUIDE)).collect())
}

/// The lines of one text that the other one lacks.
fn missing(text: &str, other: &str) -> String {
    let known: HashSet<&str> = other.lines().collect();
    text.lines().filter(|line| !known.contains(line)).collect::<Vec<_>>().join("\n")
}
