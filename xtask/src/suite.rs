//! `cargo xtask test`: everything that must hold, each step also when one before it failed.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{api, browser, cargo_tools, command, lanes, msrv, release, setup, types, wasm_target, workspace};

/// Ten seconds: enough to notice what breaks often.
const SHORT_CHAOS_MINUTES: &str = "0.17";

struct Step {
    /// The word by which the step is asked for on the command line.
    name: &'static str,
    /// What holds when it succeeds.
    promise: &'static str,
    run: fn(&Project) -> Result<()>,
}

/// One after another: compilers use every core, and what is found, built and converted here is what the others need.
const FIRST: [Step; 11] = [
    Step { name: "tools", promise: "every tool is there", run: setup::all },
    Step { name: "fmt", promise: "the code is formatted", run: formatting },
    Step { name: "clippy", promise: "clippy has nothing to say", run: clippy },
    Step { name: "clippy-wasm", promise: "nor for wasm32", run: clippy_for_wasm },
    Step { name: "features", promise: "each feature alone compiles without a warning", run: features },
    Step { name: "types", promise: "the JavaScript agrees with its types and with the public API", run: types::run },
    Step { name: "api", promise: "the public Rust API is that of its snapshot", run: api::run },
    Step { name: "msrv", promise: "the library compiles with the stated version of Rust", run: msrv::run },
    Step {
        name: "package",
        promise: "the npm package is whole, typed and small",
        run: |project| end_to_end(project, &["package"]),
    },
    Step { name: "publish", promise: "npm and crates.io would accept the packages", run: release::dry_run },
    Step { name: "deny", promise: "licences, bans and sources of dependencies are allowed", run: dependencies },
];

/// Side by side, what takes longest first.
const THEN: [Step; 15] = [
    Step { name: "native", promise: "the native tests pass", run: native_tests },
    Step {
        name: "cache",
        promise: "what was loaded once is kept, and harms nothing",
        run: |project| end_to_end(project, &["cache"]),
    },
    Step {
        name: "workers",
        promise: "workers give what the page would, or are done without",
        run: |project| end_to_end(project, &["workers"]),
    },
    Step {
        name: "traps",
        promise: "no trap of networks catches the package in a browser",
        run: |project| end_to_end(project, &["traps"]),
    },
    Step {
        name: "interop",
        promise: "the formats' own tools and we read each other",
        run: |project| end_to_end(project, &["interop"]),
    },
    Step {
        name: "nginx",
        promise: "another server, however set up, is read the same",
        run: |project| end_to_end(project, &["nginx"]),
    },
    Step { name: "web", promise: "the tests pass in a browser", run: browser_tests },
    Step {
        name: "parity",
        promise: "every fixture is the same through three browsers and mmap",
        run: |project| end_to_end(project, &["parity"]),
    },
    Step {
        name: "page",
        promise: "the demo page does what it promises",
        run: |project| end_to_end(project, &["page"]),
    },
    Step {
        name: "chaos",
        promise: "bad networks give the right bytes or an error",
        run: |project| end_to_end(project, &["chaos", "--only", "native", "--minutes", SHORT_CHAOS_MINUTES]),
    },
    Step {
        name: "examples",
        promise: "the examples for the web build and show a model",
        run: |project| end_to_end(project, &["examples"]),
    },
    Step {
        name: "crash",
        promise: "a panic is told, and the next open works",
        run: |project| end_to_end(project, &["crash"]),
    },
    Step {
        name: "formats",
        promise: "it does so from every format that is written",
        run: |project| end_to_end(project, &["formats"]),
    },
    Step { name: "doc", promise: "the documentation has no dead link", run: documentation },
    Step {
        name: "model",
        promise: "the whole model arrives bit-exact",
        run: |project| end_to_end(project, &["headless"]),
    },
];

/// Runs the steps of these names here, one after another; all of them where none is named.
pub fn run(project: &Project, names: &[String]) -> Result<()> {
    let all = || FIRST.iter().chain(&THEN);
    for name in names {
        let known = || all().map(|step| step.name).collect::<Vec<_>>().join(", ");
        ensure!(all().any(|step| step.name == name), "there is no step {name}, only {}", known());
    }
    match names {
        [] => {
            let mut outcomes: Vec<_> = FIRST.iter().map(|step| outcome(project, step)).collect();
            lanes::run(&THEN.each_ref().map(|step| step.name), |ended| {
                let Some(step) = THEN.iter().find(|step| step.name == ended.name) else { return };
                title(step);
                print!("{}", ended.said);
                outcomes.push((step, ended.passed, ended.time));
            });
            summary(&outcomes)
        }
        [name] => all().filter(|step| step.name == name).try_for_each(|step| (step.run)(project)),
        names => {
            let wanted = all().filter(|step| names.iter().any(|name| name == step.name));
            summary(&wanted.map(|step| outcome(project, step)).collect::<Vec<_>>())
        }
    }
}

type Outcome = (&'static Step, bool, Duration);

fn outcome(project: &Project, step: &'static Step) -> Outcome {
    title(step);
    let start = Instant::now();
    let passed = (step.run)(project).inspect_err(|error| println!("{} FAILED: {error:#}", step.name)).is_ok();
    (step, passed, start.elapsed())
}

fn title(step: &Step) {
    println!("\n━━ {}: {}", step.name, step.promise);
}

fn summary(outcomes: &[Outcome]) -> Result<()> {
    println!("\n━━ summary");
    for (step, passed, time) in outcomes {
        let outcome = if *passed { "ok" } else { "FAILED" };
        println!("{outcome:<8}{:<14}{:>7.1} s  {}", step.name, time.as_secs_f64(), step.promise);
    }
    let passed = outcomes.iter().filter(|(_, passed, _)| *passed).count();
    let failed = outcomes.len() - passed;
    println!("\n{passed} passed, {failed} failed");
    ensure!(failed == 0, "not everything holds");
    Ok(())
}

fn formatting(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["fmt", "--all", "--check"]))?;
    // A workspace of its own.
    command::run(cargo(project).args(["fmt", "--all", "--check"]).current_dir(project.root.join("tests/interop/peers")))
}

fn clippy(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Once as the npm package is built, and once as a wasm32 application uses the crate.
fn clippy_for_wasm(project: &Project) -> Result<()> {
    for features in ["js", ""] {
        let mut cargo = wasm_target::ready(project)?.cargo()?;
        cargo.args(["clippy", "--target", TARGET, "--features", features, "--lib", "--tests", "--", "-D", "warnings"]);
        command::run(cargo.current_dir(&project.root))?;
    }
    Ok(())
}

/// With no feature, and with each one alone.
fn features(project: &Project) -> Result<()> {
    for feature in project.features.iter().map(String::as_str).chain([""]) {
        let mut cargo = cargo(project);
        cargo.args(["clippy", "--package", "weightstream", "--no-default-features", "--features", feature]);
        command::run(cargo.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Not advisories: see deny.toml.
fn dependencies(project: &Project) -> Result<()> {
    let mut deny = Command::new(cargo_tools::cargo_deny(project)?.join("cargo-deny"));
    command::run(deny.args(["--locked", "check", "bans", "licenses", "sources"]).current_dir(&project.root))
}

fn native_tests(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["test", "--workspace", "--no-fail-fast"]))
}

/// Runs an end-to-end test.
fn end_to_end(project: &Project, arguments: &[&str]) -> Result<()> {
    workspace::run(project, "e2e", &arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
}

fn documentation(project: &Project) -> Result<()> {
    let mut cargo = cargo(project);
    command::run(cargo.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn browser_tests(project: &Project) -> Result<()> {
    let wasm_bindgen = cargo_tools::wasm_bindgen(project)?;
    let wasm_pack = cargo_tools::wasm_pack(project)?.join("wasm-pack");
    let chromedriver = browser::chromedriver()?;
    // The test runner leaves a folder behind on each run.
    let temporary = tempfile::tempdir()?;
    let mut test = Command::new(wasm_pack);
    test.args(["test", "--headless", "--chrome", "--mode", "no-install", "--chromedriver"]).arg(chromedriver);
    // Not the examples in the documentation: those are run natively.
    test.args(["--lib", "--test", "*"]);
    test.current_dir(&project.root).env("TMPDIR", temporary.path());
    wasm_target::ready(project)?.select_for(&mut test, &[&wasm_bindgen])?;
    command::run(&mut test)
}

fn cargo(project: &Project) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&project.root);
    cargo
}
