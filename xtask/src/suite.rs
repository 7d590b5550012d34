//! `cargo xtask test`: runs the steps of the test suite. A failed step does not stop later ones.

use std::cmp::Reverse;
use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{
    api, bridges, browser, cargo_tools, command, cpu_time, msrv, package, parallel, reference, release, rustdoc,
    scripts, setup, types, wasm_target, workspace,
};

/// Ten seconds, enough to detect frequent failures.
const SHORT_CHAOS_MINUTES: &str = "0.17";

/// How much of the output of a failed step is repeated after the summary. The output itself can be thousands of lines
/// above, or cut off by the logs of a continuous integration.
const LINES_OF_A_FAILURE: usize = 12;

/// How many steps the summary lists by their time.
const SLOWEST_STEPS: usize = 10;

struct Step {
    /// The name of the step on the command line.
    name: &'static str,
    /// What the step checks.
    description: &'static str,
    run: fn(&Project) -> Result<()>,
}

/// Steps that run one after another, because compilers use all cores and the later steps need the results.
const SEQUENTIAL_STEPS: [Step; 11] = [
    Step { name: "tools", description: "all tools are installed", run: setup::all },
    Step { name: "fmt", description: "the code is formatted", run: formatting },
    Step { name: "locks", description: "the lock files fit the manifests", run: lock_files },
    Step { name: "clippy", description: "clippy reports no warnings", run: clippy },
    Step { name: "clippy-wasm", description: "clippy reports no warnings for wasm32", run: clippy_for_wasm },
    Step { name: "types", description: "the JavaScript matches its types and the public API", run: types::run },
    Step { name: "js", description: "the JavaScript passes its unit tests and the linter", run: scripts::check },
    Step { name: "build", description: "the npm package is built", run: |project| package::build(project).map(drop) },
    Step { name: "publish", description: "npm and crates.io would accept the packages", run: release::dry_run },
    Step { name: "compile", description: "the tests and the programs that they run compile", run: compile },
    Step { name: "deny", description: "licences and sources of dependencies are allowed", run: dependencies },
];

/// Steps that run in parallel, the longest first.
const PARALLEL_STEPS: [Step; 18] = [
    Step { name: "native", description: "the native tests pass", run: native_tests },
    Step {
        name: "package",
        description: "the npm package is complete, typed and within its size budget",
        run: |project| end_to_end(project, &["package"]),
    },
    // These have build folders of their own, or block others for some seconds only.
    Step { name: "api", description: "the public Rust API matches its snapshot", run: api::run },
    Step {
        name: "msrv",
        description: "the library compiles with the minimum supported Rust version, with each feature alone",
        run: msrv::run,
    },
    Step { name: "page", description: "the demo page works", run: |project| end_to_end(project, &["page"]) },
    Step {
        name: "parity",
        description: "every fixture is identical in three browsers and through mmap",
        run: |project| end_to_end(project, &["parity"]),
    },
    Step {
        name: "files",
        description: "files of any format load in three browsers",
        run: |project| end_to_end(project, &["files"]),
    },
    Step {
        name: "crash",
        description: "a panic is reported, and the next open works",
        run: |project| end_to_end(project, &["crash"]),
    },
    Step {
        name: "model",
        description: "the demo page loads the whole model bit-exact",
        run: |project| end_to_end(project, &["headless"]),
    },
    Step {
        name: "formats",
        description: "the model loads bit-exact from every format that has a writer",
        run: |project| end_to_end(project, &["formats"]),
    },
    Step {
        name: "examples",
        description: "the web examples build and show a model",
        run: |project| end_to_end(project, &["examples"]),
    },
    Step {
        name: "docs",
        description: "the JavaScript of the documentation runs",
        run: |project| end_to_end(project, &["docs"]),
    },
    Step {
        name: "site",
        description: "the documentation site has no dead links, is accessible, and its examples run",
        run: |project| end_to_end(project, &["site"]),
    },
    Step {
        name: "standards",
        description: "fetch and Blobs of the package behave like those of the platform",
        run: standards,
    },
    Step { name: "web", description: "the Rust tests pass in a browser", run: browser_tests },
    Step { name: "doc", description: "the reference of the Rust API builds without warnings", run: documentation },
    Step {
        name: "reference",
        description: "the reference of the JavaScript API builds without warnings",
        run: |project| reference::build(project).map(drop),
    },
    Step {
        name: "chaos",
        description: "loads from a faulty server give correct bytes or an error",
        run: |project| end_to_end(project, &["chaos", "--only", "native", "--minutes", SHORT_CHAOS_MINUTES]),
    },
];

/// Steps that take more than a minute each, or need rare tools. They run with `--all`, before the other parallel steps.
const LONG_STEPS: [Step; 15] = [
    Step {
        name: "bridges",
        description: "the crates for candle and burn pass their tests, and their examples run in a browser",
        run: bridges::test,
    },
    Step {
        name: "hostile",
        description: "hostile files stay within the limits of memory and time",
        run: hostile_tests,
    },
    Step {
        name: "cache",
        description: "the persistent cache works and never breaks a load",
        run: |project| end_to_end(project, &["cache"]),
    },
    Step {
        name: "workers",
        description: "workers return the same as the page, and loads succeed without them",
        run: |project| end_to_end(project, &["workers"]),
    },
    Step {
        name: "traps",
        description: "the package handles network traps in three browsers",
        run: |project| end_to_end(project, &["traps"]),
    },
    Step {
        name: "hub",
        description: "models load from a hub in three browsers",
        run: |project| end_to_end(project, &["hub"]),
    },
    Step {
        name: "rust-app",
        description: "an app in Rust loads with a cache and workers in three browsers",
        run: |project| end_to_end(project, &["rust-app"]),
    },
    Step {
        name: "signatures",
        description: "signed models, with the reference implementation and in three browsers",
        run: |project| end_to_end(project, &["signatures"]),
    },
    Step {
        name: "runtimes",
        description: "runtimes compute the same with weights from the package",
        run: |project| end_to_end(project, &["runtimes"]),
    },
    Step {
        name: "personas",
        description: "new users who follow the documentation see their results",
        run: |project| end_to_end(project, &["personas"]),
    },
    Step {
        name: "interop",
        description: "weightstream and the formats' own tools read each other's files",
        run: |project| end_to_end(project, &["interop"]),
    },
    Step {
        name: "nginx",
        description: "models load from nginx in various configurations",
        run: |project| end_to_end(project, &["nginx"]),
    },
    Step {
        name: "scale",
        description: "many clients load through caches, and return at different times after an outage",
        run: |project| workspace::run(project, "scale-simulation", &["--check".to_owned()]),
    },
    Step {
        name: "stores",
        description: "models are published in emulators of stores, and in parts with Ray, Slurm and Kubernetes",
        run: |project| end_to_end(project, &["stores"]),
    },
    Step {
        name: "publish-check",
        description: "`publish --check` of nginx and varnish, before and after the printed configuration",
        run: |project| end_to_end(project, &["publish-check"]),
    },
];

/// Which steps the suite has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    Short,
    /// Also the long steps.
    All,
}

/// Runs the named steps one after another. If `names` is empty, runs the suite, up to this extent, without the steps of
/// `except`.
pub fn run(project: &Project, extent: Extent, except: &[String], names: &[String]) -> Result<()> {
    let known = || SEQUENTIAL_STEPS.iter().chain(&LONG_STEPS).chain(&PARALLEL_STEPS);
    for name in names.iter().chain(except) {
        let list = || known().map(|step| step.name).collect::<Vec<_>>().join(", ");
        ensure!(known().any(|step| step.name == name), "unknown step {name}; the steps are {}", list());
    }
    match names {
        [] => run_suite(project, extent, except),
        [name] => {
            let result = known().filter(|step| step.name == name).try_for_each(|step| (step.run)(project));
            if let Some(time) = cpu_time::of_children() {
                println!("{name} took {} s of CPU time", time.as_secs());
            }
            result
        }
        names => {
            let wanted = known().filter(|step| names.iter().any(|name| name == step.name));
            summary(&wanted.map(|step| outcome(project, step)).collect::<Vec<_>>())
        }
    }
}

fn run_suite(project: &Project, extent: Extent, except: &[String]) -> Result<()> {
    // Its path now: a step that compiles this program again would replace the file, and the path would be that of a
    // deleted one.
    let xtask = &env::current_exe()?;
    let is_wanted = |step: &&'static Step| !except.iter().any(|name| name == step.name);
    let sequential = SEQUENTIAL_STEPS.iter().filter(is_wanted);
    let mut outcomes: Vec<_> = sequential.map(|step| outcome(project, step)).collect();
    let long: &[Step] = if extent == Extent::All { &LONG_STEPS } else { &[] };
    let steps: Vec<&'static Step> = long.iter().chain(&PARALLEL_STEPS).filter(is_wanted).collect();
    let names: Vec<_> = steps.iter().map(|step| step.name).collect();
    let mut failures = Vec::new();
    parallel::run(xtask, &names, |ended| {
        let Some(step) = steps.iter().find(|step| step.name == ended.name) else { return };
        title(step);
        print!("{}", ended.output);
        match ended.passed {
            true => outcomes.push(Outcome { step, result: Passed::AtOnce, time: ended.time }),
            false => failures.push((*step, ended.output, ended.time)),
        }
    });
    for (step, _, time) in &failures {
        title(step);
        println!("{} failed beside other steps, and runs again alone", step.name);
        let again = parallel::run_step(xtask, step.name);
        print!("{}", again.output);
        let result = if again.passed { Passed::Alone } else { Passed::Not };
        outcomes.push(Outcome { step, result, time: again.time + *time });
    }
    let summarised = summary(&outcomes);
    for (step, output, _) in &failures {
        let name = step.name;
        println!(
            "\n━━ {name} failed beside other steps. Its output ends with:\n{}",
            last_lines(output, LINES_OF_A_FAILURE)
        );
    }
    if !except.is_empty() {
        println!("\nleft out: {}", except.join(", "));
    }
    summarised?;
    if extent == Extent::Short {
        let left_out = LONG_STEPS.each_ref().map(|step| step.name).join(", ");
        println!("not run: {left_out}; `cargo xtask test --all` runs them too");
    }
    Ok(())
}

/// The end of a text.
fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

/// How a step ended.
struct Outcome {
    step: &'static Step,
    result: Passed,
    time: Duration,
}

/// Whether a step passed. On a machine with two cores, browsers beside compilers sometimes exceed a time limit.
#[derive(Clone, Copy, PartialEq)]
enum Passed {
    AtOnce,
    /// It failed beside other steps, and passed when it ran again alone.
    Alone,
    Not,
}

fn outcome(project: &Project, step: &'static Step) -> Outcome {
    title(step);
    let start = Instant::now();
    let passed = (step.run)(project).inspect_err(|error| println!("{} FAILED: {error:#}", step.name)).is_ok();
    Outcome { step, result: if passed { Passed::AtOnce } else { Passed::Not }, time: start.elapsed() }
}

fn title(step: &Step) {
    println!("\n━━ {}: {}", step.name, step.description);
}

fn summary(outcomes: &[Outcome]) -> Result<()> {
    println!("\n━━ summary");
    for Outcome { step, result, time } in outcomes {
        let outcome = match result {
            Passed::AtOnce => "ok",
            Passed::Alone => "ok 2nd",
            Passed::Not => "FAILED",
        };
        println!("{outcome:<8}{:<14}{:>7.1} s  {}", step.name, time.as_secs_f64(), step.description);
    }
    let mut slowest: Vec<_> = outcomes.iter().collect();
    slowest.sort_by_key(|outcome| Reverse(outcome.time));
    let slowest = slowest.iter().take(SLOWEST_STEPS);
    let slowest: Vec<_> = slowest.map(|it| format!("{} {} s", it.step.name, it.time.as_secs())).collect();
    println!("\nthe slowest: {}", slowest.join(", "));
    let count = |wanted: Passed| outcomes.iter().filter(|outcome| outcome.result == wanted).count();
    let failed = count(Passed::Not);
    let passed = outcomes.len() - failed;
    println!("\n{passed} passed ({} of them only alone), {failed} failed", count(Passed::Alone));
    ensure!(failed == 0, "{failed} steps failed");
    Ok(())
}

fn formatting(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["fmt", "--all", "--check"]))?;
    // A separate workspace.
    command::run(cargo(project).args(["fmt", "--all", "--check"]).current_dir(project.root.join("tests/interop/peers")))
}

/// Each workspace has a lock file of its own, and a dependency of the library is in all of them.
fn lock_files(project: &Project) -> Result<()> {
    for workspace in ["", "bridges", "fuzz", "tests/interop/peers"] {
        let mut update = Command::new("cargo");
        update.args(["update", "--quiet", "--workspace", "--locked"]).current_dir(project.root.join(workspace));
        let advice = || format!("`cargo update --workspace` in {workspace:?} of the repository updates its lock file");
        command::run(&mut update).with_context(advice)?;
    }
    Ok(())
}

fn clippy(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Checks the library as the npm package builds it, and as wasm32 applications use it, and the modules for
/// signatures and certificates.
fn clippy_for_wasm(project: &Project) -> Result<()> {
    for features in ["js", "web-workers", ""] {
        let mut cargo = wasm_target::ready(project)?.cargo()?;
        cargo.args(["clippy", "--target", TARGET, "--features", features, "--lib", "--tests", "--", "-D", "warnings"]);
        command::run(cargo.current_dir(&project.root))?;
    }
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["clippy", "--target", TARGET, "--features", "module"]);
    cargo.args(["--package", "weightstream-certificates", "--package", "weightstream-signatures"]);
    command::run(cargo.args(["--lib", "--", "-D", "warnings"]).current_dir(&project.root))
}

/// Advisories are not checked, see deny.toml.
fn dependencies(project: &Project) -> Result<()> {
    let program = cargo_tools::cargo_deny(project)?.join("cargo-deny");
    for workspace in [project.root.clone(), project.root.join("bridges")] {
        let mut deny = Command::new(&program);
        deny.arg("--locked").arg("--config").arg(project.root.join("deny.toml"));
        command::run(deny.args(["check", "bans", "licenses", "sources"]).current_dir(workspace))?;
    }
    Ok(())
}

/// Compiles what the parallel steps run. Otherwise, the first of them that compiles would block the others: a build
/// folder can be used by one compiler at a time.
fn compile(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["build", "--workspace", "--bins"]))?;
    command::run(cargo(project).args(["test", "--workspace", "--no-run"]).args(TEST_TARGETS).args(["--test", "*"]))
}

/// The targets with native tests, besides those of the folder `tests`.
const TEST_TARGETS: [&str; 3] = ["--lib", "--bins", "--examples"];

/// All native tests but those of `tests/hostile`, whose name is the only one that begins with an h.
fn native_tests(project: &Project) -> Result<()> {
    let mut tests = cargo(project);
    tests.args(["test", "--workspace", "--no-fail-fast"]).args(TEST_TARGETS);
    command::run(tests.args(["--test", "[!h]*"]))?;
    command::run(cargo(project).args(["test", "--workspace", "--no-fail-fast", "--doc"]))
}

/// These tests measure time and memory, so they run one after another.
fn hostile_tests(project: &Project) -> Result<()> {
    // With `--workspace`, dependencies have the features with which they are compiled already.
    command::run(cargo(project).args(["test", "--workspace", "--test", "hostile"]))
}

/// Runs an end-to-end test.
fn end_to_end(project: &Project, arguments: &[&str]) -> Result<()> {
    workspace::run(project, "e2e", &arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
}

/// Compares the package with the platform in Node.js.
fn standards(project: &Project) -> Result<()> {
    let package = package::build(project)?;
    command::run(Command::new("node").arg("tests/standards/run.js").arg(package).current_dir(&project.root))
}

fn documentation(project: &Project) -> Result<()> {
    rustdoc::published(project)?;
    rustdoc::internal(project)
}

fn browser_tests(project: &Project) -> Result<()> {
    let runner = workspace::build(project, "xtask-test-runner")?;
    let chromedriver = browser::chromedriver()?;
    // The test runner leaves a temporary folder behind.
    let temporary = tempfile::tempdir()?;
    let mut test = wasm_target::ready(project)?.cargo()?;
    // Excludes the examples in the documentation, which run natively.
    test.args(["test", "--target", TARGET, "--lib", "--test", "*"]);
    test.current_dir(&project.root).env("TMPDIR", temporary.path());
    test.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", runner);
    // In a browser only, and not in Node.js.
    test.env("WASM_BINDGEN_TEST_ONLY_WEB", "1").env("CHROMEDRIVER", chromedriver);
    command::run(&mut test)
}

fn cargo(project: &Project) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&project.root);
    cargo
}

#[cfg(test)]
mod tests {
    use super::{LONG_STEPS, PARALLEL_STEPS, SEQUENTIAL_STEPS};

    #[test]
    fn the_workflow_runs_every_step_once() {
        let workflow = include_str!("../../.github/workflows/ci.yml");
        let lists = workflow.lines().filter_map(|line| line.trim().strip_prefix("steps: "));
        let mut run: Vec<_> = lists.flat_map(str::split_whitespace).collect();
        run.sort_unstable();
        let steps = SEQUENTIAL_STEPS.iter().chain(&LONG_STEPS).chain(&PARALLEL_STEPS);
        let mut all: Vec<_> = steps.map(|step| step.name).collect();
        all.sort_unstable();
        assert_eq!(run, all);
    }
}
