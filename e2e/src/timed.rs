//! Prints how long the parts of a test take.

use std::time::Instant;

use anyhow::Result;

use xtask::cpu_time;

/// Runs a part, and prints its time and the CPU time of the programs that it has started and waited for.
pub fn timed<T>(what: &str, part: impl FnOnce() -> Result<T>) -> Result<T> {
    let (start, before) = (Instant::now(), cpu_time::of_children());
    let outcome = part()?;
    let cpu = cpu_time::of_children().zip(before).map(|(after, before)| after.saturating_sub(before));
    let cpu = cpu.map(|cpu| format!(", {:.1} s of CPU time", cpu.as_secs_f64())).unwrap_or_default();
    println!("  {:>5.1} s{cpu}: {what}", start.elapsed().as_secs_f64());
    Ok(outcome)
}
