//! `cargo xtask test`: runs the steps of the test suite. A failed step does not stop later ones.

mod native;
mod steps;
mod summary;
mod wasm;

use std::env;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::project::Project;
use crate::{cpu_time, linted, parallel};
use steps::{FIRST_STEPS, LONG_STEPS, SHORT_STEPS, Step, TOOLS};
use summary::{Outcome, Passed, print_failure, summary, title};

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
    for name in names.iter().chain(except) {
        let list = || steps::all().map(|step| step.name).collect::<Vec<_>>().join(", ");
        ensure!(steps::all().any(|step| step.name == name), "unknown step {name}; the steps are {}", list());
    }
    if !linted::is_in_suite() {
        let status = linted::restart_in_suite()?;
        ensure!(status.success(), "the test suite failed ({status})");
        return Ok(());
    }
    match names {
        [] => run_suite(project, extent, except),
        [name] => {
            let result = steps::all().filter(|step| step.name == name).try_for_each(|step| (step.run)(project));
            if let Some(time) = cpu_time::of_children() {
                println!("{name} took {} s of CPU time", time.as_secs());
            }
            result
        }
        names => {
            let wanted = steps::all().filter(|step| names.iter().any(|name| name == step.name));
            summary(&wanted.map(|step| outcome(project, step)).collect::<Vec<_>>())
        }
    }
}

fn run_suite(project: &Project, extent: Extent, except: &[String]) -> Result<()> {
    // Its path now: a step that compiles this program again would replace the file, and the path would be that of a
    // deleted one.
    let xtask = &env::current_exe()?;
    let long: &[Step] = if extent == Extent::All { &LONG_STEPS } else { &[] };
    let stages = [FIRST_STEPS.iter().collect::<Vec<_>>(), SHORT_STEPS.iter().chain(long).collect()];
    let (mut outcomes, mut failures) = (Vec::new(), Vec::new());
    if extent == Extent::All {
        outcomes.push(outcome(project, &TOOLS));
    }
    for mut stage in stages {
        stage.retain(|step| !except.iter().any(|name| name == step.name));
        run_stage(xtask, &stage, &mut outcomes, &mut failures);
    }
    let summarised = summary(&outcomes);
    for (step, output) in &failures {
        print_failure(step, output);
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

/// Runs steps beside each other, and those that fail again alone. Adds the output of failures.
fn run_stage(
    xtask: &Path,
    stage: &[&'static Step],
    outcomes: &mut Vec<Outcome>,
    failures: &mut Vec<(&'static Step, String)>,
) {
    let names: Vec<_> = stage.iter().map(|step| step.name).collect();
    let mut again = Vec::new();
    parallel::run(xtask, &names, |ended| {
        let Some(step) = stage.iter().find(|step| step.name == ended.name) else { return };
        title(step);
        print!("{}", ended.output);
        match ended.passed {
            true => outcomes.push(Outcome { step, result: Passed::AtOnce, time: ended.time }),
            false => again.push((*step, ended)),
        }
    });
    for (step, first) in again {
        title(step);
        println!("{} failed beside other steps, and runs again alone", step.name);
        let second = parallel::run_step(xtask, step.name);
        print!("{}", second.output);
        let result = if second.passed { Passed::Alone } else { Passed::Not };
        outcomes.push(Outcome { step, result, time: first.time + second.time });
        failures.push((step, first.output));
    }
}

fn outcome(project: &Project, step: &'static Step) -> Outcome {
    title(step);
    let start = Instant::now();
    let passed = (step.run)(project).inspect_err(|error| println!("{} FAILED: {error:#}", step.name)).is_ok();
    Outcome { step, result: if passed { Passed::AtOnce } else { Passed::Not }, time: start.elapsed() }
}
