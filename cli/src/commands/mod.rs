//! The commands: they parse arguments, call the library and print results.

mod convert;
mod describe;
mod extract;
mod inspect;
mod manual;
mod model;
mod numbers;
mod progress;
mod serve;
mod size;
mod table;
mod total;
mod upgrade;
mod verify;

use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;
use weightstream::error::Error;

/// Inspects, verifies, converts, extracts and serves files of model weights.
#[derive(Parser)]
#[command(name = "weightstream", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
    Convert(convert::Arguments),
    Extract(extract::Arguments),
    Upgrade(upgrade::Arguments),
    Serve(serve::Arguments),
    Completions(manual::CompletionsArguments),
    Man(manual::ManArguments),
}

/// The reason for the failure of a command.
enum Failure {
    /// An error of the library.
    Model(Error),
    /// Standard output cannot be written.
    Output(io::Error),
    /// The process received a signal.
    Interrupted,
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

/// Runs the command of the process arguments. Exit codes: 0 for success, 1 for a failure, 2 for wrong usage, 130 after
/// a signal.
pub(crate) fn run() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Extract(arguments) => extract::run(arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => manual::man(&arguments, Arguments::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe stopped, as in `weightstream inspect … | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            report("error[IO]", &format!("the output cannot be written: {error}"));
            ExitCode::FAILURE
        }
        Err(Failure::Model(error)) => {
            report(&format!("error[{}]", error.code()), &error.to_string());
            ExitCode::FAILURE
        }
        Err(Failure::Interrupted) => {
            report("interrupted", "nothing was written");
            ExitCode::from(130)
        }
    }
}

fn warn(message: &str) {
    report("warning", message);
}

/// Writes one line to standard error. Ignores errors, such as a closed standard error.
fn report(kind: &str, message: &str) {
    writeln!(io::stderr(), "weightstream: {kind}: {}", one_line(message)).ok();
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
