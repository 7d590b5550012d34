//! The `weightstream` command.

mod commands;

fn main() -> std::process::ExitCode {
    commands::run()
}
