//! Progress bars, colors and `--quiet`, on a terminal and in pipes.
#![cfg(unix)]

use super::bytes::{noise, safetensors};
use super::command::{run, succeed};
use super::server::{Link, Server, answer};
use super::{FILE, Folder};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

const ESCAPE: char = '\u{1b}';

/// Runs a command whose three streams are a terminal of 100 columns. Returns its exit code and all that it printed.
fn on_terminal(folder: &Folder, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut screen = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    tcsetwinsize(&screen, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let terminal =
        OpenOptions::new().read(true).write(true).open(std::ffi::OsStr::from_bytes(name.as_bytes())).unwrap();
    let stream = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = plain(folder, arguments);
    command.env("TERM", "xterm-256color").envs(variables.iter().copied());
    let mut child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
    drop((terminal, command)); // so that the process has the last handles
    let mut printed = Vec::new();
    let mut buffer = [0; 4096];
    // At the end, Linux returns EIO, other systems 0.
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        printed.extend_from_slice(&buffer[..count]);
    }
    (child.wait().unwrap().code(), String::from_utf8_lossy(&printed).into_owned())
}

/// A command without the environment variables of the tests that concern colors.
fn plain(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(arguments).current_dir(folder.0.path());
    // `CI` counts as a terminal with colors, whatever `TERM` says.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[40][..], noise(1, 40))]));
    folder
}

/// A server that takes at least two seconds for a model, longer than the delay of progress bars.
fn slow_server() -> Server {
    let link = Link::new(2000 / (FILE.len() as u64 >> 14) + 1);
    Server::new(move |request| answer(&FILE, request).over(&link))
}

#[test]
fn a_progress_bar_and_colors_appear_on_a_terminal() {
    let (folder, server) = (folder(), slow_server());
    let (code, printed) = on_terminal(&folder, &["verify", &server.url("/m.safetensors")], &[]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("verifying") && printed.contains('█') && printed.contains("left"), "{printed}");
    assert!(printed.contains("\u{1b}[36m"), "the bar is cyan: {printed:?}");
    assert!(printed.contains("\u{1b}[32mok\u{1b}[0m: 1 file"), "{printed:?}");
    let (code, printed) = on_terminal(&folder, &["inspect", "none.apr"], &[]);
    assert!(code == Some(1) && printed.contains("\u{1b}[31merror[NOT_FOUND]\u{1b}[0m: none.apr"), "{printed:?}");
}

#[test]
fn pipes_get_neither_progress_bars_nor_colors() {
    let (folder, server) = (folder(), slow_server());
    let output = plain(&folder, &["verify", &server.url("/m.safetensors")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.stdout.starts_with(b"ok: 1 file"), "{output:?}");
    for arguments in [&["inspect", "m.safetensors"][..], &["inspect", "none"], &["--help"], &["fly"]] {
        let output = plain(&folder, arguments).env("TERM", "xterm-256color").output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        assert!(!printed.is_empty() && !printed.contains(&(ESCAPE as u8)), "{arguments:?}");
    }
}

#[test]
fn colors_follow_the_option_and_the_environment() {
    let folder = folder();
    let inspect = ["inspect", "m.safetensors"];
    let with = |options: &[&str], variables: &[(&str, &str)]| {
        let (code, printed) = on_terminal(&folder, &[&inspect[..], options].concat(), variables);
        assert_eq!(code, Some(0), "{printed}");
        printed.contains(ESCAPE)
    };
    assert!(with(&[], &[]));
    assert!(!with(&[], &[("NO_COLOR", "1")]));
    assert!(!with(&[], &[("CLICOLOR", "0")]));
    assert!(!with(&[], &[("TERM", "dumb")]));
    assert!(!with(&["--color", "never"], &[]));
    assert!(with(&["--color=always"], &[("NO_COLOR", "1")]));

    let piped = |options: &[&str], (name, value): (&str, &str)| {
        let output = plain(&folder, &[&inspect[..], options].concat()).env(name, value).output().unwrap();
        output.stdout.contains(&(ESCAPE as u8))
    };
    assert!(piped(&[], ("CLICOLOR_FORCE", "1")));
    assert!(piped(&["--color", "always"], ("NO_COLOR", "1")));
    assert!(!piped(&["--color", "never"], ("CLICOLOR_FORCE", "1")));
    assert!(!piped(&["--json", "--color", "always"], ("CLICOLOR_FORCE", "1")), "JSON has no colors");
}

#[test]
fn quiet_commands_print_results_warnings_and_errors_only() {
    let (folder, server) = (folder(), slow_server());
    let (code, printed) = on_terminal(&folder, &["verify", "--quiet", &server.url("/m.safetensors")], &[]);
    assert_eq!((code, printed.as_str()), (Some(0), ""));
    for arguments in [
        &["convert", "m.safetensors", "m.apr", "--compress", "auto", "--quiet"][..],
        &["-q", "upgrade", "m.apr", "n.apr"],
        &["extract", "-q", "m.apr", "a", "a.npy"],
        &["verify", "m.apr", "-q"],
    ] {
        assert_eq!(succeed(&folder, arguments), "", "{arguments:?}");
    }
    assert!(folder.path("n.apr").exists() && folder.path("a.npy").exists());
    assert_eq!(succeed(&folder, &["-q", "inspect", "m.apr"]), succeed(&folder, &["inspect", "m.apr"]));
    let output = run(&folder, &["convert", "-q", "m.safetensors", "s.apr", "--shard-size", "1B"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(output.stderr.starts_with(b"weightstream: warning: "), "{output:?}");
    let output = run(&folder, &["-q", "verify", "none.apr"]);
    assert!(output.stderr.starts_with(b"weightstream: error[NOT_FOUND]"), "{output:?}");
}
