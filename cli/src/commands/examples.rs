//! The examples at the end of `--help` and of the manual page of each command.

use clap::Command;
use std::fmt::Write;

/// A command line, and what it does.
pub(super) struct Example {
    pub(super) purpose: &'static str,
    pub(super) line: &'static str,
}

const fn example(purpose: &'static str, line: &'static str) -> Example {
    Example { purpose, line }
}

const TOP: &[Example] = &[
    example("List the tensors of a model on the Hugging Face Hub", "weightstream inspect hf:openai-community/gpt2"),
    example("Convert a model to 8 bits", "weightstream convert model.safetensors model.apr --dtype Q8_0"),
    example("Publish a model for web apps", "weightstream publish model.safetensors s3://bucket/minilm/"),
    example("Show the help of a command, with examples", "weightstream publish --help"),
];

const INSPECT: &[Example] = &[
    example("List the metadata and the tensors of a file", "weightstream inspect model.gguf"),
    example("The largest biases first", "weightstream inspect model.safetensors --filter '*.bias' --sort size"),
    example("Statistics of one tensor on the hub", "weightstream inspect hf:openai-community/gpt2 --tensor wte.weight"),
    example("All of it as JSON, with a SHA-256 of each tensor", "weightstream inspect model.apr --json --sha256"),
];

const VERIFY: &[Example] = &[
    example("Compare all checksums of a model", "weightstream verify model.apr"),
    example("Also compare the SHA-256 that the hub states", "weightstream verify hf:openai-community/gpt2"),
    example(
        "Check who signed a folder",
        "weightstream verify model/ --signature model/model.sig --public-key public.pem",
    ),
];

const DIFF: &[Example] = &[
    example("Check a conversion", "weightstream diff model.safetensors model.apr --no-metadata"),
    example("Compare a folder with a URL, as JSON", "weightstream diff old/ https://example.org/model.gguf --json"),
];

const CONVERT: &[Example] = &[
    example("Convert to the format of the output's name", "weightstream convert model.safetensors model.gguf"),
    example(
        "8 bits, in files of at most 24 MB",
        "weightstream convert model/ model.apr --dtype Q8_0 --shard-size 24MB",
    ),
    example(
        "A folder of Hugging Face, smaller without a loss",
        "weightstream convert all-MiniLM-L6-v2/ minilm.zt --compress auto",
    ),
    example("Graph and weights of an ONNX model", "weightstream convert model.onnx out/"),
];

const EXTRACT: &[Example] = &[
    example("One tensor as a NumPy array", "weightstream extract model.safetensors encoder.bias bias.npy"),
    example(
        "Read only this tensor of a model on the hub",
        "weightstream extract hf:openai-community/gpt2 wte.weight wte.npy",
    ),
    example("The bytes of a quantized tensor", "weightstream extract model.gguf output.weight output.npy --bytes"),
];

const PUBLISH: &[Example] = &[
    example(
        "To S3; R2 and MinIO need AWS_ENDPOINT_URL",
        "weightstream publish model/ s3://bucket/m/ --public-url https://cdn.example/m/",
    ),
    example("To a folder, which `weightstream serve` serves", "weightstream publish model.safetensors public/minilm/"),
    example(
        "A new revision: clients download what changed",
        "weightstream publish tuned/ s3://bucket/m/ --from s3://bucket/m/model.apr",
    ),
    example(
        "Check how a server delivers a model to a page",
        "weightstream publish --check https://cdn.example/m/model.apr",
    ),
];

const DOWNLOAD: &[Example] = &[
    example("A model of the Hugging Face Hub", "weightstream download hf:openai-community/gpt2 models/gpt2/"),
    example("One file of a revision", "weightstream download hf:owner/name@v1.0/model-Q4_K_M.gguf models/"),
    example(
        "A model in several files, by its index",
        "weightstream download https://example.org/m/model.safetensors.index.json m/",
    ),
    example(
        "A published model, or only what changed since",
        "weightstream download https://cdn.example/minilm/model.apr models/minilm/",
    ),
];

const UPGRADE: &[Example] = &[
    example("Write an old APR file again", "weightstream upgrade old.apr new.apr"),
    example("Replace an earlier result", "weightstream upgrade old.apr new.apr --force"),
];

const SIGN: &[Example] = &[
    example("Sign a folder with all its files", "weightstream sign model/ --key key.pem --signature model/model.sig"),
    example("Sign a single file", "weightstream sign model.gguf --key key.pem --signature model.gguf.sig"),
];

const SERVE: &[Example] = &[
    example("Serve the current folder at http://127.0.0.1:8080", "weightstream serve"),
    example("Serve another folder at a free port", "weightstream serve public/ --port 0"),
];

const COMPLETIONS: &[Example] = &[
    example("For bash", "weightstream completions bash >> ~/.bash_completion"),
    example("For fish", "weightstream completions fish > ~/.config/fish/completions/weightstream.fish"),
];

const MAN: &[Example] = &[
    example("Show the page of a command", "weightstream man convert | man -l -"),
    example("Install the page of weightstream", "weightstream man > ~/.local/share/man/man1/weightstream.1"),
];

/// The examples of a command.
pub(super) fn examples_of(command: &str) -> &'static [Example] {
    match command {
        "weightstream" => TOP,
        "inspect" => INSPECT,
        "verify" => VERIFY,
        "diff" => DIFF,
        "convert" => CONVERT,
        "extract" => EXTRACT,
        "publish" => PUBLISH,
        "download" => DOWNLOAD,
        "upgrade" => UPGRADE,
        "sign" => SIGN,
        "serve" => SERVE,
        "completions" => COMPLETIONS,
        "man" => MAN,
        _ => &[],
    }
}

/// Appends examples to the long help of the command line and of each of its commands.
pub(super) fn with_examples(interface: Command) -> Command {
    with_own_examples(interface).mut_subcommands(with_own_examples)
}

fn with_own_examples(command: Command) -> Command {
    let header = command.get_styles().get_header();
    let exit_codes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{exit_codes}\n\n{header}Examples:{header:#}");
    for Example { purpose, line } in examples_of(command.get_name()) {
        write!(text, "\n  # {purpose}\n  {line}").ok(); // a String takes all text
    }
    command.after_long_help(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::commands::interface;

    /// The words of a command line up to a pipe or a redirection, as a shell divides them.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (number, part) in line.split('\'').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        let end = words.iter().position(|word| matches!(&**word, "|" | ">" | ">>")).unwrap_or(words.len());
        words.truncate(end);
        words
    }

    #[test]
    fn every_command_has_two_to_four_examples_in_its_long_help() {
        let interface = interface();
        for mut command in interface.get_subcommands().chain([&interface]).cloned() {
            let (name, help) = (command.get_name().to_owned(), command.render_long_help().to_string());
            let examples = help.split_once("\nExamples:\n").unwrap().1;
            assert!((2..=4).contains(&examples_of(&name).len()), "{name}");
            for Example { purpose, line } in examples_of(&name) {
                assert!(examples.contains(purpose) && examples.contains(line), "{name}: {help}");
                let is_own = name == "weightstream" || words(line).get(1) == Some(&name);
                assert!(is_own, "{name}: {line}");
                assert!(line.len() <= 78, "it would be wrapped on a terminal of 80 columns: {line}");
            }
        }
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        let interface = interface();
        for command in interface.get_subcommands().chain([&interface]) {
            for Example { line, .. } in examples_of(command.get_name()) {
                let parsed = interface.clone().try_get_matches_from(words(line));
                let is_help = matches!(&parsed, Err(error) if error.kind() == clap::error::ErrorKind::DisplayHelp);
                assert!(parsed.is_ok() || is_help, "{line}: {}", parsed.unwrap_err());
            }
        }
    }
}
