//! Other programs of the workspace, which are compiled on demand.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::command;
use crate::linted::linted_in_suite;
use crate::project::Project;

/// Compiles a program of the workspace, if necessary, and runs it.
pub fn run(project: &Project, program: &str, arguments: &[String]) -> Result<()> {
    command::run(Command::new(build(project, program)?).args(arguments).current_dir(&project.root))
}

/// Compiles a program of the workspace, if necessary, without optimizations, and returns its path.
pub fn build(project: &Project, program: &str) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    // With `--workspace`, dependencies have the same features as in `cargo xtask` and `cargo test --workspace`, which
    // compile them only once. `--package` would select fewer features and compile another copy.
    cargo.args(["build", "--quiet", "--workspace", "--bin", program]);
    command::run(linted_in_suite(&mut cargo).current_dir(&project.root))?;
    Ok(project.target.join("debug").join(program).with_extension(env::consts::EXE_EXTENSION))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use crate::command;

    #[test]
    fn dependencies_of_xtask_have_the_features_that_the_workspace_selects() {
        let xtask_packages = packages_with_features(&["--package", "xtask", "--edges", "normal,build"]);
        let workspace_packages = packages_with_features(&["--workspace", "--edges", "normal,build,dev"]);
        assert!(xtask_packages.iter().any(|line| line.starts_with("weightstream ")), "{xtask_packages:?}");
        let different: Vec<_> = xtask_packages.difference(&workspace_packages).collect();
        assert!(
            different.is_empty(),
            "these would be compiled twice: add the features that `cargo tree --workspace --edges features` shows to \
             the dependencies of xtask/Cargo.toml that are not used there: {different:#?}"
        );
    }

    fn packages_with_features(arguments: &[&str]) -> BTreeSet<String> {
        let mut cargo = Command::new("cargo");
        cargo.args(["tree", "--prefix", "none", "--format", "{p} {f}"]).args(arguments);
        let listed = command::output(cargo.current_dir(env!("CARGO_MANIFEST_DIR"))).unwrap();
        listed.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    }
}
