//! The packages of all crates, and a project of a user that depends on them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::project::Project;
use crate::wasm_target::{self, TARGET};
use crate::{command, release};

/// The crates of the workspace in `bridges/`.
const BRIDGES: [&str; 2] = ["weightstream-burn", "weightstream-candle"];

/// The crate of the command line.
const COMMAND_LINE: &str = "weightstream-cli";

const CHECK_LIMIT: Duration = Duration::from_secs(900);

/// A layer whose values the project reads in three ways.
const FIXTURE: &str = "tests/fixtures/burnpack/bs021_module_linear.bpk";

/// The libraries that print its values.
const LIBRARIES: [&str; 3] = ["weightstream", "candle", "burn"];

/// Packages all crates, builds the project in `tests/packages` with them, and checks that weightstream, candle and burn
/// read the same values. For browsers, checks the package of weightstream as the project configures it.
pub fn test(project: &Project) -> Result<()> {
    let packages = unpacked(project)?;
    let folder = project.target.join("packages").join("app");
    copy_project(project, &folder, &packages)?;

    let build_folder = project.root.join("bridges/target"); // candle and burn are compiled there already
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--target-dir"]).arg(&build_folder).arg("--").arg(project.root.join(FIXTURE));
    let printed = command::output(cargo.current_dir(&folder))?;
    let lines: Vec<_> = printed.lines().filter_map(|line| line.split_once(": ")).collect();
    let libraries: Vec<_> = lines.iter().map(|(library, _)| *library).collect();
    ensure!(libraries == LIBRARIES, "the project printed:\n{printed}");
    let values: BTreeSet<_> = lines.iter().map(|(_, values)| *values).collect();
    ensure!(values.len() == 1 && !values.contains(""), "the libraries read different values:\n{printed}");

    let mut wasm = wasm_target::ready(project)?.cargo()?;
    // The examples of the bridges compile candle and burn for browsers.
    wasm.args(["check", "--quiet", "--package", "weightstream", "--target", TARGET, "--target-dir"]).arg(&build_folder);
    command::run(wasm.current_dir(&folder))?;
    command_line_compiles(project, &packages)?;
    println!("packages: {} packages compile, and a project that depends on them reads a layer", packages.len());
    Ok(())
}

/// Checks the package of the command line, on which no project depends, with the other packages.
fn command_line_compiles(project: &Project, packages: &[Unpacked]) -> Result<()> {
    let command_line = packages.iter().find(|package| package.name == COMMAND_LINE);
    let folder = &command_line.context("the command line is not packaged")?.folder;
    fs::copy(project.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let path = folder.join("Cargo.toml");
    let mut manifest = fs::read_to_string(&path)?;
    let of_workspace = fs::read_to_string(project.root.join("Cargo.toml"))?;
    // With the same profile, the dependencies are compiled already.
    let profiles = of_workspace.find("[profile.dev]").and_then(|start| of_workspace.get(start..));
    manifest.push_str(&format!("\n{}", profiles.context("Cargo.toml has no profile")?));
    let others = packages.iter().filter(|package| package.name != COMMAND_LINE && !BRIDGES.contains(&&*package.name));
    manifest.push_str(&workspace_of(others));
    fs::write(path, manifest)?;
    let mut cargo = Command::new("cargo");
    cargo.args(["check", "--offline", "--target-dir"]).arg(&project.target);
    command::quiet(cargo.current_dir(folder), CHECK_LIMIT)
}

/// The end of the manifest of a workspace in which packages replace those of the registry.
fn workspace_of<'a>(packages: impl IntoIterator<Item = &'a Unpacked>) -> String {
    let patch =
        |Unpacked { name, folder }: &Unpacked| format!("{name} = {{ path = {:?} }}\n", folder.display().to_string());
    let patches: String = packages.into_iter().map(patch).collect();
    format!("\n[workspace]\n\n[patch.crates-io]\n{patches}")
}

/// A package as users get it.
struct Unpacked {
    name: String,
    folder: PathBuf,
}

/// Packages the crates of both workspaces, and unpacks them.
fn unpacked(project: &Project) -> Result<Vec<Unpacked>> {
    let target = project.target.join("packages");
    let bridges = BRIDGES.map(str::to_owned).to_vec();
    let mut unpacked = Vec::new();
    for (root, names) in [(project.root.clone(), release::published(project)?), (project.root.join("bridges"), bridges)]
    {
        let mut cargo = Command::new("cargo");
        // The lock file of a package would name the other packages in the registry, where they are not yet.
        cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--exclude-lockfile", "--target-dir"]);
        cargo.arg(&target).args(names.iter().flat_map(|name| ["--package", name]));
        command::output(cargo.current_dir(root))?;
        for name in names {
            let stem = format!("{name}-{}", project.version);
            let folder = target.join(&stem);
            if folder.exists() {
                fs::remove_dir_all(&folder)?; // an older package may have files that this one lacks
            }
            let mut tar = Command::new("tar");
            // The times in packages are those of 2006: cargo would not notice that a file has changed.
            tar.arg("-xzmf").arg(target.join("package").join(format!("{stem}.crate"))).arg("-C").arg(&target);
            command::output(&mut tar)?;
            unpacked.push(Unpacked { name, folder });
        }
    }
    Ok(unpacked)
}

/// Copies the project out of the repository. The packages replace those of the registry.
fn copy_project(project: &Project, folder: &Path, packages: &[Unpacked]) -> Result<()> {
    let source = project.root.join("tests/packages");
    fs::create_dir_all(folder.join("src"))?;
    fs::copy(source.join("src/main.rs"), folder.join("src/main.rs")).context("cannot copy the program")?;
    // The same versions of other crates as in `bridges/`.
    fs::copy(project.root.join("bridges/Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut manifest = fs::read_to_string(source.join("Cargo.toml"))?;
    // With the same profile, candle and burn are not compiled again.
    let bridges = fs::read_to_string(project.root.join("bridges/Cargo.toml"))?;
    let profiles = bridges.find("[profile.").and_then(|start| bridges.get(start..));
    manifest.push_str(&format!("\n{}", profiles.context("bridges/Cargo.toml has no profile")?));
    manifest.push_str(&workspace_of(packages));
    fs::write(folder.join("Cargo.toml"), manifest)?;
    Ok(())
}
