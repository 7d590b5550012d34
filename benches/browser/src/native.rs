//! `verify` and `convert` of the command line, which the program `native-benchmark` measures.

use std::process::Command;

use anyhow::Result;
use xtask::project::Project;
use xtask::{cargo_tools, command};

/// Builds the command line and the benchmark, installs `b3sum`, and prints the table. Needs 20 GB in the target folder.
pub(crate) fn run(project: &Project, rounds: usize) -> Result<()> {
    let b3sum = cargo_tools::b3sum(project)?;
    let in_release = ["--quiet", "--release", "--package"];
    let cargo = |subcommand| {
        let mut cargo = Command::new("cargo");
        cargo.arg(subcommand).args(in_release).current_dir(&project.root);
        cargo
    };
    command::run(cargo("build").arg("weightstream-cli"))?;
    let mut benchmark = cargo("run");
    benchmark.args(["native-benchmark", "--", "--rounds", &rounds.to_string()]);
    command::run(benchmark.env("PATH", command::path_starting_with([b3sum.as_path()])?))
}
