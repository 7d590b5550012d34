//! `weightstream completions` and `weightstream man`: generated from the definitions of the commands.

use super::Failure;
use clap::Command;
use clap_complete::Shell;
use std::io::{self, Write};

/// Prints the script that completes the command in a shell.
///
/// For bash: `weightstream completions bash > ~/.local/share/bash-completion/completions/weightstream`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 for success, 1 if the output cannot be written, 2 for wrong usage.")]
pub(super) struct CompletionsArguments {
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the manual page of weightstream, or of one of its commands.
///
/// `weightstream man | man -l -` shows it.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 for success, 1 if the output cannot be written, 2 for wrong usage.")]
pub(super) struct ManArguments {
    /// A command, such as convert.
    command: Option<String>,
}

pub(super) fn completions(arguments: &CompletionsArguments, mut definition: Command) -> Result<(), Failure> {
    // Generated in memory, because `generate` panics if the output cannot be written.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut definition, "weightstream", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

pub(super) fn man(arguments: &ManArguments, mut definition: Command) -> Result<(), Failure> {
    definition.build();
    let page = match &arguments.command {
        None => definition,
        Some(name) => match definition.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                let what = format!("no command is named '{name}'");
                definition.error(clap::error::ErrorKind::InvalidSubcommand, what).exit();
            }
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    // clap has no place for exit codes of its own; manual pages have this section.
    let text = String::from_utf8_lossy(&text).replace(".SH EXTRA", ".SH \"EXIT STATUS\"");
    Ok(io::stdout().write_all(text.as_bytes())?)
}
