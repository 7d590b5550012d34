//! A progress bar on standard error, for operations that take longer than a second.

use super::terminal::is_quiet;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weightstream::internals::progress::Progress;

const SHOW_DELAY: Duration = Duration::from_secs(1);
const DRAWS_PER_SECOND: u8 = 10;

/// Shows nothing with `--quiet`, and unless standard error is a terminal.
pub(super) struct Bar {
    bar: ProgressBar,
    started: Instant,
    is_shown: AtomicBool,
    cancelled: Arc<AtomicBool>,
}

impl Bar {
    /// Creates a bar with a label before it.
    pub(super) fn new(label: &'static str) -> Self {
        Bar::cancelled_by(label, Arc::default())
    }

    /// A bar whose work ends early once the flag is set.
    pub(super) fn cancelled_by(label: &'static str, cancelled: Arc<AtomicBool>) -> Self {
        let bar = ProgressBar::hidden();
        let template = "{prefix:.bold} {wide_bar:.cyan} {decimal_bytes}/{decimal_total_bytes}, \
                        {decimal_bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(label);
        Bar { bar, started: Instant::now(), is_shown: AtomicBool::new(false), cancelled }
    }
}

impl Progress for Bar {
    fn expects(&self, total_bytes: u64) {
        self.bar.set_length(total_bytes);
    }

    fn advanced(&self, bytes: u64) {
        self.bar.inc(bytes);
        if !is_quiet() && self.started.elapsed() > SHOW_DELAY && !self.is_shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
