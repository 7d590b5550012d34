//! The examples that publish a model on several machines: the result has the same bytes as that of one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::python;
use xtask::project::Project;
use xtask::{command, setup};

/// Ray starts about ten processes.
const RAY_LIMIT: Duration = Duration::from_secs(180);

/// The number of pods in the example.
const PODS: u64 = 8;

/// Publishes a model with each example. `expected` is the folder of one machine.
pub(super) fn publish_in_parts(project: &Project, program: &Path, model: &Path, expected: &Path) -> Result<()> {
    let folder = model.parent().context("the model has no folder")?;
    let expected = files(expected)?;
    let out = |name: &str| folder.join(name);
    let is_same = |name: &str| -> Result<()> {
        ensure!(files(&out(name))? == expected, "{name} has other files or bytes than one machine");
        Ok(())
    };
    with_ray(project, program, model, &out("ray"), folder)?;
    is_same("ray")?;
    println!("Ray: a worker was killed, its part was run again, and the bytes are those of one machine");
    with_slurm(project, program, model, &out("slurm"))?;
    is_same("slurm")?;
    with_kubernetes(project, program, model, &out("kubernetes"))?;
    is_same("kubernetes")?;
    println!("Slurm and Kubernetes: the commands of the examples give the bytes of one machine");
    Ok(())
}

fn with_ray(project: &Project, program: &Path, model: &Path, out: &Path, folder: &Path) -> Result<()> {
    let python = python::ready()?;
    let requirements = project.root.join("tests/stores/ray.txt");
    let name = format!("ray-{}", setup::fingerprint([requirements.clone()])?);
    let packages = python.installed(project, &name, &[OsStr::new("--requirement"), requirements.as_os_str()])?;
    let marker = folder.join("killed");
    let mut ray = python.run(&project.root.join("examples/publish/ray_publish.py"), &[packages])?;
    ray.arg(model).arg(out).args(["--parts", "4"]);
    ray.arg("--program").arg(project.root.join("tests/stores/killed_once.sh"));
    ray.env("WEIGHTSTREAM", program).env("MARKER", &marker);
    // Ray keeps its state in the folder, sends nothing to its developers, and listens only on this machine.
    ray.env("HOME", folder).env("RAY_TMPDIR", folder.join("r")).env("RAY_USAGE_STATS_ENABLED", "0");
    ray.env("RAY_AUTH_MODE", "disabled").env("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0");
    command::quiet(&mut ray, RAY_LIMIT)?;
    ensure!(marker.exists(), "no worker was killed");
    Ok(())
}

/// A program `sbatch` runs the jobs that Slurm would run.
fn with_slurm(project: &Project, program: &Path, model: &Path, out: &Path) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.arg(project.root.join("examples/publish/slurm.sh")).env("PARTS", "3");
    shell.env("IN", model).env("DEST", out).env("PATH", path(&[&project.root.join("tests/stores")], program)?);
    command::output(&mut shell).map(drop)
}

/// Runs the command of the pods, with the variable that Kubernetes sets, and the command of the merge.
fn with_kubernetes(project: &Project, program: &Path, model: &Path, out: &Path) -> Result<()> {
    let jobs = fs::read_to_string(project.root.join("examples/publish/kubernetes.yaml"))?;
    let command = jobs.split_once("args: ['").and_then(|(_, rest)| rest.split_once("']"));
    let (command, _) = command.context("the example has no command")?;
    for index in 0..PODS {
        let mut pod = Command::new("sh");
        pod.args(["-c", command]).env("JOB_COMPLETION_INDEX", index.to_string());
        pod.env("IN", model).env("DEST", out).env("PATH", path(&[], program)?);
        command::output(&mut pod)?;
    }
    command::output(Command::new(program).arg("publish").arg(model).arg(out).arg("--merge")).map(drop)
}

/// A search path with these folders and the folder of the program.
fn path(folders: &[&Path], program: &Path) -> Result<std::ffi::OsString> {
    let own = program.parent().context("the program has no folder")?;
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.iter().map(|folder| folder.to_path_buf()).chain([own.to_owned()]);
    Ok(std::env::join_paths(all.chain(std::env::split_paths(&usual)))?)
}

fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        files.insert(path.file_name().unwrap_or_default().into(), fs::read(&path)?);
    }
    Ok(files)
}
