//! Output for people: colors, and what `--quiet` leaves out.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const HEADING: Style = Style::new().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();
pub(super) const CHANGED: Style = AnsiColor::Yellow.on_default();
pub(super) const MOVED: Style = AnsiColor::Cyan.on_default();

/// The position in the help: after the options of the command.
const LAST: usize = 100;

/// Set once, before a command runs, like the choice of colors in `anstream`.
static QUIET: AtomicBool = AtomicBool::new(false);

/// The options of all commands.
#[derive(clap::Args)]
pub(super) struct TerminalArguments {
    /// Print no progress bars and no reports. Errors, warnings, and results that were asked for remain.
    #[arg(long, short, global = true, display_order = LAST)]
    quiet: bool,
    /// When to print colors. `auto` prints them on a terminal, and follows the environment variables NO_COLOR, CLICOLOR
    /// and CLICOLOR_FORCE.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = clap::ColorChoice::Auto)]
    #[arg(global = true, display_order = LAST)]
    color: clap::ColorChoice,
}

impl TerminalArguments {
    /// Applies the options to the whole process.
    pub(super) fn apply(&self) {
        QUIET.store(self.quiet, Ordering::Relaxed);
        match self.color {
            clap::ColorChoice::Auto => ColorChoice::Auto,
            clap::ColorChoice::Always => ColorChoice::Always,
            clap::ColorChoice::Never => ColorChoice::Never,
        }
        .write_global();
        // The progress bar is drawn by `console`.
        let is_colored = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
        console::set_colors_enabled_stderr(is_colored);
        console::set_colors_enabled(is_colored);
    }
}

pub(super) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a line of a report on standard output, unless `--quiet` is given.
pub(super) fn inform(line: &str) -> io::Result<()> {
    if is_quiet() { Ok(()) } else { writeln!(anstream::stdout(), "{line}") }
}

/// The text in a style, for a stream of `anstream`, which removes the style if there are no colors.
pub(super) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
