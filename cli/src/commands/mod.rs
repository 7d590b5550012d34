//! What a shell sees. No logic of its own: arguments in, calls to the library, words out.

mod convert;
mod inspect;
mod model;
mod progress;
mod serve;
mod size;
mod table;
mod total;
mod upgrade;
mod verify;

use clap::{Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;
use weightstream::error::Error;

/// Looks at, checks, converts and serves files of model weights.
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
    Upgrade(upgrade::Arguments),
    Serve(serve::Arguments),
}

/// Why a command ended early.
enum Failure {
    /// The model, or what was asked of it.
    Model(Error),
    /// Standard output takes no more.
    Output(io::Error),
    /// A signal asked for it.
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

/// Runs the command that the process was started with. Exit codes: 0, 1 for a failure, 2 for wrong usage, 130
/// after a signal.
pub(crate) fn run() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // `weightstream inspect … | head` has all that it wanted.
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

/// Writes one line to standard error; if that is closed, there is nobody to tell.
fn report(kind: &str, message: &str) {
    writeln!(io::stderr(), "weightstream: {kind}: {}", one_line(message)).ok();
}

/// Names and paths may hold anything; what controls a terminal, or breaks the line, is shown as an escape.
fn one_line(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { String::from(c) };
    text.chars().map(escape).collect()
}

/// `1 file`, `2 files`.
fn count(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}
