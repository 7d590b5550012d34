//! Options of the command line in messages of the library, which name its own options.

use clap::Command;
use std::collections::HashSet;
use std::sync::OnceLock;

/// What the library calls an option, the option of the command line, and a command that has it. The first of two that
/// match is replaced.
const OPTIONS: [(&str, &str, &str); 21] = [
    ("ConvertOptions::metadata_first", "--metadata-first", "convert"),
    ("ConvertOptions::max_shard_bytes", "--shard-size", "convert"),
    ("ConvertOptions::omit_metadata", "--no-metadata", "convert"),
    ("ConvertOptions::metadata", "--metadata", "convert"),
    ("ConvertOptions::format_version", "--format-version", "convert"),
    ("ConvertOptions::format", "--format", "convert"),
    ("ConvertOptions::alignment", "--align", "convert"),
    ("ConvertOptions::compression", "--compress", "convert"),
    ("ConvertOptions::digest", "--digest", "convert"),
    ("ConvertOptions::dtype", "--dtype", "convert"),
    ("ConvertOptions::allow_loss", "--allow-loss", "convert"),
    ("ConvertOptions::order", "--order", "convert"),
    ("ConvertOptions::by_layer", "--by-layer", "convert"),
    ("without `keep_existing`", "with `--force`", "convert"),
    ("ExtractOptions::component", "--component", "extract"),
    ("ExtractOptions::as_bytes", "--bytes", "extract"),
    ("PublishOptions::previous", "--from", "publish"),
    ("PublishOptions::replace_foreign", "--force", "publish"),
    ("Share::Part", "--part", "publish"),
    ("CheckOptions::same_origin_only", "--same-origin", "publish"),
    ("`ignored` of `sign_folder`", "`--ignore`", "sign"),
];

/// The options of the running command, such as `force`.
static RUNNING: OnceLock<HashSet<String>> = OnceLock::new();

/// Sets the command that prints messages from now on.
pub(super) fn set_command(command: &Command) {
    RUNNING.get_or_init(|| options_of(command));
}

/// Returns the message with the options of the command line. An option that the running command lacks is named with a
/// command that has it.
pub(super) fn in_options(message: &str) -> String {
    let running = RUNNING.get();
    translated(message, |option| running.is_none_or(|options| options.contains(option)))
}

fn translated(message: &str, has: impl Fn(&str) -> bool) -> String {
    OPTIONS.iter().fold(message.to_owned(), |message, (of_library, option, command)| match has(name_of(option)) {
        true => message.replace(of_library, option),
        false => message.replace(of_library, &option.replace("--", &format!("weightstream {command} --"))),
    })
}

fn options_of(command: &Command) -> HashSet<String> {
    command.get_opts().filter_map(|option| option.get_long()).map(str::to_owned).collect()
}

/// The name in the text of an option: `force` of ``with `--force` ``.
fn name_of(option: &str) -> &str {
    option.split_once("--").map_or(option, |(_, name)| name.trim_end_matches('`'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn an_option_whose_name_begins_with_that_of_another_is_replaced_first() {
        for (at, (name, ..)) in OPTIONS.iter().enumerate() {
            let mut earlier = OPTIONS.iter().take(at);
            assert!(!earlier.any(|(earlier, ..)| name.starts_with(earlier)), "{name}");
        }
        assert_eq!(in_options("leave `ConvertOptions::format_version` out"), "leave `--format-version` out");
    }

    #[test]
    fn every_advised_option_is_one_of_the_named_command() {
        let arguments = crate::commands::Arguments::command();
        for (of_library, option, command) in OPTIONS {
            let options = options_of(arguments.find_subcommand(command).unwrap());
            assert!(options.contains(name_of(option)), "{of_library}: {command} has no {option}");
        }
    }

    #[test]
    fn an_option_that_a_command_lacks_is_advised_with_a_command_that_has_it() {
        let arguments = crate::commands::Arguments::command();
        let advice = "`ConvertOptions::allow_loss` leaves it out; or replace it without `keep_existing`.";
        for (command, expected) in [
            ("convert", "`--allow-loss` leaves it out; or replace it with `--force`."),
            ("publish", "`--allow-loss` leaves it out; or replace it with `--force`."),
            ("upgrade", "`weightstream convert --allow-loss` leaves it out; or replace it with `--force`."),
        ] {
            let options = options_of(arguments.find_subcommand(command).unwrap());
            assert_eq!(translated(advice, |option| options.contains(option)), expected);
        }
    }
}
