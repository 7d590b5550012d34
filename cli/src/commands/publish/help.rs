//! The help of the options that `publish` shares with `convert`, but whose defaults are others.

use crate::commands::conversion::format_parser;
use clap::{Arg, Command};
use weightstream_publish::is_publishable;

/// The names of the options, and their help.
const HELP: [(&str, &str); 5] = [
    (
        "format",
        "The format to publish. By default, that of the name of DEST, else that of the previous revision, else \
         `ztensor` for a model of floats, and `apr` for other models",
    ),
    (
        "compress",
        "The compression of tensors. By default `auto` in zTensor, which compresses the exponents of floats without a \
         loss, and `none` in other formats. With `lz4`, a model of floats is published as APR",
    ),
    ("digest", "The digest of each tensor. By default `sha256` in zTensor; in other formats it depends on the format"),
    (
        "shard_size",
        "The maximum size of a file, such as 24MB or 2GiB. By default 24MiB, below the limit of static hosts, or more \
         if the model would have more than 1024 files. A larger tensor makes a larger file",
    ),
    (
        "order",
        "Write the tensors in the order in which a model computes with them (`layers`, the default), so that a page \
         receives the first layers first, in that of the input (`source`), or in that of a text file with a name on \
         each line",
    ),
];

/// Replaces the help that is only true for `convert`. What only GGUF has, which cannot be published, is not listed.
pub(in crate::commands) fn with_own_defaults(command: Command) -> Command {
    let replaced = |command: Command, (name, help): (&'static str, &'static str)| {
        command.mut_arg(name, |argument: Arg| argument.help(help).long_help(None))
    };
    let command = HELP.into_iter().fold(command, replaced);
    let command = command.mut_arg("format", |argument| argument.value_parser(format_parser(is_publishable)));
    command.mut_arg("metadata_first", |argument| argument.hide(true))
}
