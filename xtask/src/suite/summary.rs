//! How the steps of a run ended, and where its time went.

use std::cmp::Reverse;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::steps::Step;

/// How much of the output of a failed step is repeated after the summary. The output itself can be thousands of lines
/// above, or cut off by the logs of a continuous integration.
const LINES_OF_A_FAILURE: usize = 12;

/// How many steps the summary lists by their time.
const SLOWEST_STEPS: usize = 10;

/// How a step ended.
pub(super) struct Outcome {
    pub(super) step: &'static Step,
    pub(super) result: Passed,
    pub(super) time: Duration,
}

/// Whether a step passed. On a machine with two cores, browsers beside compilers sometimes exceed a time limit.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Passed {
    AtOnce,
    /// It failed beside other steps, and passed when it ran again alone.
    Alone,
    Not,
}

pub(super) fn title(step: &Step) {
    println!("\n━━ {}: {}", step.name, step.description);
}

pub(super) fn summary(outcomes: &[Outcome]) -> Result<()> {
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

/// Repeats the end of the output of a step that failed.
pub(super) fn print_failure(step: &Step, output: &str) {
    let lines: Vec<_> = output.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LINES_OF_A_FAILURE)..).unwrap_or_default().join("\n");
    println!("\n━━ {} failed beside other steps. Its output ends with:\n{last}", step.name);
}
