//! Failed and interrupted conversions leave no incomplete model.

use super::bytes::{Apr, Entry, noise, ramp, safetensors};
use super::{Folder, content_of};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weightstream::ErrorKind;
use weightstream::internals::format::apr;
use weightstream::internals::native::Reader;
use weightstream::internals::progress::Progress;
use weightstream::internals::write::{ConvertOptions, convert};

fn two_shards() -> ConvertOptions {
    ConvertOptions::default().format(&apr::FORMAT).max_shard_bytes(60_000)
}

/// Builds a model whose second tensor cannot be decoded, which is detected only when it is read.
fn damaged() -> Vec<u8> {
    let mut second = Entry::lz4("damaged", 7, &[50_000], &ramp(50_000));
    second.raw_size -= 1;
    second.dims[0] -= 1;
    Apr::new(vec![Entry::raw("good", 7, &[50_000], noise(1, 50_000)), second]).build()
}

#[test]
fn a_failed_conversion_leaves_nothing_and_changes_nothing() {
    let folder = Folder::new();
    folder.write("bad.apr", &damaged());
    folder.write("out.apr", b"what was here before");
    for options in [ConvertOptions::default(), two_shards()] {
        let error = folder.convert("bad.apr", "out.apr", &options).unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("damaged")));
        assert_eq!(folder.names(), ["bad.apr", "out.apr"]);
        assert_eq!(fs::read(folder.path("out.apr")).unwrap(), b"what was here before");
    }
}

#[test]
fn a_cancelled_conversion_leaves_nothing() {
    /// Cancels after some pieces.
    struct Impatient(AtomicUsize);
    impl Progress for Impatient {
        fn is_cancelled(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 1
        }
    }
    let folder = Folder::new();
    let tensor = |name, seed| (name, "U8", &[50_000][..], noise(seed, 50_000));
    folder.write("m.safetensors", &safetensors(None, &[tensor("a", 1), tensor("b", 2), tensor("c", 3)]));
    let reader = folder.open("m.safetensors");
    let progress = Impatient(AtomicUsize::new(0));
    let error = convert(&reader, &folder.path("out.apr"), &two_shards(), &progress).unwrap_err();
    assert!(error.what.contains("interrupted"), "{error}");
    assert_eq!(folder.names(), ["m.safetensors"]);
}

#[test]
fn a_model_is_not_converted_onto_itself() {
    let folder = Folder::new();
    let tensor = |name, seed| (name, "U8", &[50_000][..], noise(seed, 50_000));
    folder.write("m.safetensors", &safetensors(None, &[tensor("a", 1), tensor("b", 2)]));
    folder.convert("m.safetensors", "s.apr", &two_shards()).unwrap();
    fs::copy(folder.path("s.apr"), folder.path("t.apr")).unwrap();
    fs::copy(folder.path("m.safetensors"), folder.path("p.apr.weightstream.partial")).unwrap();
    let mut onto_itself = vec![
        ("m.safetensors", "m.safetensors"),
        ("s.apr", "s.apr"),
        ("t.apr", "s.apr"), // another manifest of the shards that would be written
        ("p.apr.weightstream.partial", "p.apr"), // the temporary name
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path("m.safetensors"), folder.path("link.apr")).unwrap();
        onto_itself.push(("m.safetensors", "link.apr"));
    }
    let before = folder.names();
    for (from, to) in onto_itself {
        let error = folder.convert(from, to, &two_shards()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{from} to {to}: {error}");
        assert!(error.what.contains("overwritten while it is read"), "{error}");
        assert_eq!(folder.names(), before);
    }
    assert!(folder.open("s.apr").verify(&()).is_ok());
}

#[test]
fn concurrent_conversions_to_the_same_output_fail() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[1], vec![1])]));
    let other = File::create(folder.path("out.apr.weightstream.partial")).unwrap();
    other.lock().unwrap();
    let error = folder.convert("m.safetensors", "out.apr", &ConvertOptions::default()).unwrap_err();
    assert!(error.what.contains("another process is writing"), "{error}");
    drop(other);
    folder.convert("m.safetensors", "out.apr", &ConvertOptions::default()).unwrap();
    assert_eq!(folder.names(), ["m.safetensors", "out.apr"]);
}

#[test]
fn an_unwritable_output_fails_immediately() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[1], vec![1])]));
    fs::create_dir(folder.path("folder")).unwrap();
    for (to, kind) in [("folder", ErrorKind::InvalidArgument), ("none/out.apr", ErrorKind::Io)] {
        assert_eq!(folder.convert("m.safetensors", to, &ConvertOptions::default()).unwrap_err().kind, kind, "{to}");
    }
    assert_eq!(folder.names(), ["folder", "m.safetensors"]);
}

/// Writes a sparse file with a tensor of 4 GiB, which takes long to compress.
fn endless(folder: &Folder) {
    let (length, header) = (4u64 << 30, r#"{"a":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]}}"#);
    let mut file = File::create(folder.path("m.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(8 + header.len() as u64 + length).unwrap();
}

/// Starts a conversion and waits until it writes.
fn start(folder: &Folder) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(["convert", "m.safetensors", "out.apr", "--force", "--compress", "lz4"]).current_dir(folder.0.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let has_begun = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() > 0);
    while !has_begun(&folder.path("out.apr.weightstream.partial")) {
        assert!(child.try_wait().unwrap().is_none(), "the conversion ended before it was interrupted");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[cfg(unix)]
fn send(signal: &str, child: &Child) {
    let status = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
    assert!(status.success());
}

#[cfg(unix)]
#[test]
fn a_signal_removes_incomplete_files() {
    let folder = Folder::new();
    endless(&folder);
    folder.write("out.apr", b"what was here before");
    for signal in ["INT", "TERM"] {
        let child = start(&folder);
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "weightstream: interrupted: nothing was written\n");
        assert_eq!(folder.names(), ["m.safetensors", "out.apr"]);
        assert_eq!(fs::read(folder.path("out.apr")).unwrap(), b"what was here before");
    }
}

#[cfg(unix)]
#[test]
fn the_next_conversion_replaces_the_partial_file_of_a_killed_one() {
    let folder = Folder::new();
    endless(&folder);
    let mut child = start(&folder);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(folder.names(), ["m.safetensors", "out.apr.weightstream.partial"]);
    assert!(Reader::open(folder.path("out.apr.weightstream.partial")).is_err());
    folder.write("small.safetensors", &safetensors(None, &[("a", "U8", &[1], vec![1])]));
    folder.convert("small.safetensors", "out.apr", &ConvertOptions::default()).unwrap();
    assert_eq!(folder.names(), ["m.safetensors", "out.apr", "small.safetensors"]);
    assert_eq!(content_of(&folder.path("out.apr")), content_of(&folder.path("small.safetensors")));
}
