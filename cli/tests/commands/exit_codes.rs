//! The documented exit codes of every command.

use super::Folder;
use super::bytes::{noise, safetensors};
use super::command::run;
use std::net::TcpListener;

fn folder() -> Folder {
    let folder = Folder::new();
    let model = |seed| safetensors(None, &[("a", "U8", &[4][..], noise(seed, 4))]);
    folder.write("m.safetensors", &model(1));
    folder.write("other.safetensors", &model(2));
    folder.write("damaged.safetensors", &model(1)[..20]);
    folder
}

/// Arguments, and the exit code. They run in this order.
const CASES: [(&str, i32); 40] = [
    ("inspect m.safetensors", 0),
    ("inspect damaged.safetensors", 1),
    ("inspect m.safetensors --tensor none", 1),
    ("inspect m.safetensors --filter none", 1),
    ("inspect m.safetensors --sort weight", 2),
    ("inspect", 2),
    ("verify m.safetensors", 0),
    ("verify --quiet m.safetensors", 0),
    ("verify damaged.safetensors", 1),
    ("verify none", 1),
    ("verify --lenient m.safetensors", 2),
    ("diff m.safetensors m.safetensors", 0),
    ("diff m.safetensors other.safetensors", 1),
    ("diff -q m.safetensors other.safetensors", 1),
    ("diff m.safetensors damaged.safetensors", 2),
    ("diff m.safetensors", 2),
    ("convert m.safetensors m.apr", 0),
    ("convert m.safetensors m.apr", 1), // it exists
    ("convert m.safetensors m.unknown", 1),
    ("convert damaged.safetensors n.apr", 1),
    ("convert m.safetensors n.apr --shard-size 24", 2),
    ("convert m.safetensors n.apr --dtype F12", 2),
    ("extract m.safetensors a a.npy", 0),
    ("extract m.safetensors none b.npy", 1),
    ("extract m.safetensors a a.txt", 1),
    ("extract m.safetensors a", 2),
    ("upgrade m.apr n.apr", 0),
    ("upgrade m.safetensors o.apr", 1),
    ("upgrade m.apr", 2),
    ("verify m.safetensors --signature none", 1),
    ("verify m.safetensors --public-key none", 2),
    ("sign m.safetensors --key none", 1),
    ("sign m.safetensors", 2),
    ("serve none", 1),
    ("serve . --port 70000", 2),
    ("completions bash", 0),
    ("completions cmd", 2),
    ("man convert", 0),
    ("man fly", 2),
    ("fly", 2),
];

#[test]
fn every_command_has_the_documented_exit_codes() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (arguments, code) in CASES {
        let output = run(&folder, &arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
        // Only errors print to standard error, and `diff` reports differences on standard output.
        let is_error = code > 0 && !arguments.ends_with("m.safetensors other.safetensors");
        assert_eq!(!output.stderr.is_empty(), is_error, "{arguments}: {output:?}");
    }
    assert_eq!(run(&folder, &["serve", ".", "--port", &port]).status.code(), Some(1));
}
