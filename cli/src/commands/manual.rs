//! `weightstream completions` and `weightstream man`: generated from the definitions of the commands.

use super::Failure;
use super::examples::{Example, examples_of};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::{self, Write};

/// Prints the script that completes the command in a shell.
///
/// Write it to where the shell finds completions.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 for success, 1 if the output cannot be written, 2 for wrong usage.")]
pub(super) struct CompletionsArguments {
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the manual page of weightstream, or of one of its commands.
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
    // clap has no place for exit codes and examples of its own; manual pages have sections for them.
    let examples = section_of_examples(examples_of(page.get_name()));
    let exit_codes = page.get_after_help().cloned().unwrap_or_default();
    let mut text = Vec::new();
    clap_mangen::Man::new(page.after_long_help(exit_codes)).render(&mut text)?;
    let mut text = String::from_utf8_lossy(&text).replace(".SH EXTRA", ".SH \"EXIT STATUS\"");
    text.push_str(&examples);
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// The last section of a manual page.
fn section_of_examples(examples: &[Example]) -> String {
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]);
    for Example { purpose, line } in examples {
        section.control("TP", []).text([roman(*purpose)]);
        section.control("nf", []).text([bold(*line)]).control("fi", []); // a command line is not filled
    }
    section.to_roff()
}
