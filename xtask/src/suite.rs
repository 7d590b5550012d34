//! `cargo xtask test`: everything that must hold, each step also when one before it failed.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::project::Project;
use crate::wasm_target::TARGET;
use crate::{
    browser, cache_test, cargo_tools, chaos, command, crash_test, formats, headless, interop, nginx_test, package_test,
    page_test, parity, setup, trap_test, wasm_target, worker_test,
};

struct Step {
    /// The word by which the step is asked for on the command line.
    name: &'static str,
    /// What holds when it succeeds.
    promise: &'static str,
    run: fn(&Project) -> Result<()>,
}

const STEPS: [Step; 19] = [
    Step { name: "tools", promise: "every tool is there", run: setup::all },
    Step { name: "fmt", promise: "the code is formatted", run: formatting },
    Step { name: "clippy", promise: "clippy has nothing to say", run: clippy },
    Step { name: "clippy-wasm", promise: "nor for wasm32", run: clippy_for_wasm },
    Step { name: "native", promise: "the native tests pass", run: native_tests },
    Step { name: "chaos", promise: "bad networks give the right bytes or an error", run: chaos },
    Step { name: "interop", promise: "the formats' own tools and we read each other", run: interoperation },
    Step { name: "doc", promise: "the documentation has no dead link", run: documentation },
    Step { name: "web", promise: "the tests pass in a browser", run: browser_tests },
    Step { name: "package", promise: "the npm package is whole, typed and small", run: package_test::run },
    Step { name: "crash", promise: "a panic is told, and the next open works", run: crash_test::run },
    Step { name: "workers", promise: "workers give what the page would, or are done without", run: worker_test::run },
    Step { name: "parity", promise: "every fixture is the same through three browsers and mmap", run: parity::run },
    Step { name: "traps", promise: "no trap of networks catches the package in a browser", run: trap_test::run },
    Step { name: "model", promise: "the whole model arrives bit-exact", run: headless::run },
    Step { name: "formats", promise: "and so it does from every format that is written", run: formats::run },
    Step { name: "nginx", promise: "another server, however set up, is read the same", run: nginx_test::run },
    Step { name: "cache", promise: "what was loaded once is kept, and harms nothing", run: cache_test::run },
    Step { name: "page", promise: "the demo page does what it promises", run: page_test::run },
];

/// Runs the steps of these names; all of them where none is named.
pub(crate) fn run(project: &Project, names: &[String]) -> Result<()> {
    let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
    for name in names {
        ensure!(known.contains(&name.as_str()), "there is no step {name}, only {}", known.join(", "));
    }
    let mut outcomes = Vec::new();
    for step in STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)) {
        println!("\n━━ {}: {}", step.name, step.promise);
        let start = Instant::now();
        let passed = match (step.run)(project) {
            Ok(()) => true,
            Err(error) => {
                println!("{} FAILED: {error:#}", step.name);
                false
            }
        };
        outcomes.push((step, passed, start.elapsed()));
    }
    summary(&outcomes)
}

fn summary(outcomes: &[(&Step, bool, Duration)]) -> Result<()> {
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

fn clippy_for_wasm(project: &Project) -> Result<()> {
    let mut cargo = wasm_target::ready(project)?.cargo()?;
    cargo.args(["clippy", "--target", TARGET, "--lib", "--tests", "--", "-D", "warnings"]);
    command::run(cargo.current_dir(&project.root))
}

fn native_tests(project: &Project) -> Result<()> {
    command::run(cargo(project).args(["test", "--workspace"]))
}

fn interoperation(project: &Project) -> Result<()> {
    interop::run(project, interop::SEED)
}

fn chaos(_: &Project) -> Result<()> {
    chaos::run(chaos::SEED, chaos::SHORT)
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
