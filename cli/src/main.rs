//! The `weightstream` command.

#![warn(clippy::too_many_lines)]

mod commands;

fn main() -> std::process::ExitCode {
    commands::run()
}
