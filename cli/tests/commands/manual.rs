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
