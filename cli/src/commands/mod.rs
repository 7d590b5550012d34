//! The commands: they parse arguments, call the library and print results.

mod conversion;
mod convert;
mod describe;
mod diff;
mod digests;
mod download;
mod examples;
mod extract;
mod gguf_names;
mod inspect;
mod manual;
mod model;
mod numbers;
mod progress;
mod publish;
mod serve;
mod sign;
mod signature;
mod size;
mod table;
mod terminal;
mod total;
mod upgrade;
mod verify;
mod wording;

use anstyle::Style;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;
use terminal::{BAD, CHANGED, TerminalArguments, styled};
use weightstream::Error;
use wording::in_options;

/// Inspects, verifies, signs, compares, converts, extracts, publishes, downloads and serves files of model weights.
#[derive(Parser)]
#[command(name = "weightstream", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 after a signal. `diff` exits \
                        with 0 if the models are equal, 1 if they are different, and 2 for an error."
)]
struct Arguments {
    #[command(flatten)]
    terminal: TerminalArguments,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
    Diff(diff::Arguments),
    Convert(convert::Arguments),
    Extract(extract::Arguments),
    Publish(publish::Arguments),
    Download(download::Arguments),
    Upgrade(upgrade::Arguments),
    Sign(sign::Arguments),
    Serve(serve::Arguments),
    Completions(manual::CompletionsArguments),
    Man(manual::ManArguments),
}

/// The reason for an exit code other than 0.
enum Failure {
    /// An error of the library.
    Model(Error),
    /// Standard output cannot be written.
    Output(io::Error),
    /// The process received a signal. The text says what it leaves behind.
    Interrupted(&'static str),
    /// Two models are different. This is a result, without a message.
    Different,
    /// A check printed findings that are errors. This is a result, without a message.
    Findings,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Model(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// The definition of the command line.
fn interface() -> clap::Command {
    examples::with_examples(Arguments::command().mut_subcommand("publish", publish::with_own_defaults))
}

/// Runs the command of the process arguments. Exit codes: 0 for success, 1 for a failure, 2 for wrong usage, 130 after
/// a signal. Like `diff` of POSIX, `diff` exits with 1 if the models are different, and with 2 after a failure.
pub(crate) fn run() -> ExitCode {
    let interface = interface();
    let matches = interface.clone().get_matches();
    let Arguments { terminal, command } = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    terminal.apply();
    if let Some(running) = matches.subcommand_name().and_then(|name| interface.find_subcommand(name)) {
        wording::set_command(running);
    }
    let failed = ExitCode::from(if matches!(command, Command::Diff(_)) { 2 } else { 1 });
    let outcome = match command {
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Extract(arguments) => extract::run(arguments),
        Command::Publish(arguments) => publish::run(arguments),
        Command::Download(arguments) => download::run(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Sign(arguments) => sign::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments, interface),
        Command::Man(arguments) => manual::man(&arguments, interface),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe stopped, as in `weightstream inspect … | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            report(BAD, "error[IO]", &format!("the output cannot be written: {error}"));
            failed
        }
        Err(Failure::Model(error)) => {
            report(BAD, &format!("error[{}]", error.code()), &in_options(&error.to_string()));
            failed
        }
        Err(Failure::Interrupted(outcome)) => {
            report(BAD, "interrupted", outcome);
            ExitCode::from(130)
        }
        Err(Failure::Different | Failure::Findings) => ExitCode::from(1),
    }
}

fn warn(message: &str) {
    report(CHANGED, "warning", &in_options(message));
}

/// Writes one line to standard error. Ignores errors, such as a closed standard error.
fn report(style: Style, kind: &str, message: &str) {
    writeln!(anstream::stderr(), "weightstream: {}: {}", styled(style.bold(), kind), one_line(message)).ok();
}

/// Escapes control characters and line breaks, which names and paths may contain.
fn one_line(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(escape).collect()
}

/// `1 file`, `2 files`.
fn count(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}
