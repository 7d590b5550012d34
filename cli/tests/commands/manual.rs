//! `completions` and `man`.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weightstream")).args(arguments).output().unwrap()
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("--shard-size"), "{shell}: {script}");
    }
    assert_eq!(run(&["completions", "cmd"]).status.code(), Some(2));
}

#[test]
fn manual_pages_are_printed_for_every_command() {
    let output = run(&["man"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains(".TH weightstream 1") && page.contains("weightstream\\-convert"), "{page}");
    let output = run(&["man", "convert"]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains(".TH weightstream-convert 1") && page.contains("shard\\-size"), "{page}");
    let output = run(&["man", "fly"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no command is named 'fly'"));
}

/// The commands that are listed by `--help`.
const COMMANDS: [&str; 12] = [
    "inspect",
    "verify",
    "diff",
    "convert",
    "extract",
    "publish",
    "download",
    "upgrade",
    "sign",
    "serve",
    "completions",
    "man",
];

/// The long options that the help of a command lists.
fn options(command: &str) -> Vec<String> {
    let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let name = |line: &str| {
        Some(line.split("--").nth(1)?.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).next()?.into())
    };
    lines.filter_map(name).filter(|option: &String| !option.is_empty()).collect()
}

#[test]
fn completions_and_manual_pages_have_every_option_of_every_command() {
    let top = String::from_utf8(run(&["--help"]).stdout).unwrap();
    let listed = top.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let listed = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")); // others are wrapped
    let listed = listed.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    assert!(listed.eq(COMMANDS), "{top}");
    for command in COMMANDS {
        let options = options(command);
        assert!(
            options.contains(&"quiet".to_owned()) && options.contains(&"color".to_owned()),
            "{command}: {options:?}"
        );
        let page = String::from_utf8(run(&["man", command]).stdout).unwrap();
        for option in &options {
            assert!(page.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "{command} --{option}");
        }
        assert!(page.contains(".SH \"EXIT STATUS\"\nExit codes: "), "{page}");
        let bash = String::from_utf8(run(&["completions", "bash"]).stdout).unwrap();
        let section = bash.split(&format!("weightstream__subcmd__{command})\n")).nth(1).unwrap();
        let words = section.split('"').nth(1).unwrap(); // opts="…"
        for option in &options {
            assert!(words.split(' ').any(|word| word == format!("--{option}")), "{command} --{option}: {words}");
        }
        for shell in ["elvish", "fish", "powershell", "zsh"] {
            let script = String::from_utf8(run(&["completions", shell]).stdout).unwrap();
            for option in &options {
                let spelled = if shell == "fish" { format!("-l {option}") } else { format!("--{option}") };
                assert!(script.contains(&spelled), "{shell}: {command} --{option}");
            }
        }
    }
    assert!(options("inspect").contains(&"no-tensors".to_owned()));
}

#[test]
fn the_help_of_every_command_states_its_exit_codes() {
    for arguments in COMMANDS.map(|command| vec![command, "--help"]).into_iter().chain([vec!["--help"], vec!["-h"]]) {
        let help = String::from_utf8(run(&arguments).stdout).unwrap();
        assert_eq!(help.matches("Exit codes: ").count(), 1, "{arguments:?}: {help}");
    }
}
