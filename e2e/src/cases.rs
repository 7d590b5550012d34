//! Which cases of a test run. A developer who works on one of them names it: `e2e page --case phone`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};

static ONLY: OnceLock<String> = OnceLock::new();
static RUN: AtomicUsize = AtomicUsize::new(0);

/// From now on, only cases whose name contains this text are wanted.
pub fn run_only(text: String) {
    ONLY.set(text).ok(); // the command line has one such option
}

/// Whether to run the case with this name.
pub fn is_wanted(name: &str) -> bool {
    let is_wanted = ONLY.get().is_none_or(|only| name.contains(only.as_str()));
    RUN.fetch_add(usize::from(is_wanted), Ordering::Relaxed);
    is_wanted
}

/// Fails if a text was given that no case has in its name, so that a test without cases does not pass.
pub fn check_some_ran() -> Result<()> {
    if let Some(only) = ONLY.get() {
        let run = RUN.load(Ordering::Relaxed);
        ensure!(run > 0, "no case of this test has {only:?} in its name, or the test has no named cases");
        println!("only {run} cases with {only:?} in their names ran");
    }
    Ok(())
}
