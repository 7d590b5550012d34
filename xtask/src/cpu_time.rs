//! Measures the CPU time of child processes: what a step computes, however many others run at the same time.

use std::fs;
use std::time::Duration;

/// The clock ticks of `/proc` per second, the same on every architecture of Linux that browsers run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time of all child processes that have ended, with their own children; `None` where there is no `/proc`.
pub fn of_children() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name of the program, which may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some(Duration::from_secs_f64((ticks(13)? + ticks(14)?) / TICKS_PER_SECOND)) // cutime and cstime, proc_pid_stat(5)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    #[cfg(target_os = "linux")]
    fn counts_what_a_child_computed() {
        let before = super::of_children().unwrap();
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(super::of_children().unwrap() > before);
    }
}
