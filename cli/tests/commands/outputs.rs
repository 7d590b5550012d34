//! Tests of which existing files `convert` and `upgrade` replace.
#![cfg(unix)]

use super::bytes::{noise, safetensors};
use super::{Folder, content_of};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::ErrorKind;
use weightstream::internals::progress::Progress;
use weightstream::internals::write::{ConvertOptions, convert};

const BEFORE: &[u8] = b"what was here before";

fn folder() -> Folder {
    let folder = Folder::new();
    let tensor = |name, seed| (name, "U8", &[50_000][..], noise(seed, 50_000));
    folder.write("m.safetensors", &safetensors(None, &[tensor("a", 1), tensor("b", 2)]));
    folder
}

/// Runs the command. Returns its standard error if it fails.
fn run(folder: &Folder, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    let output = command.args(arguments).current_dir(folder.0.path()).output().unwrap();
    match output.status.code() {
        Some(0) => Ok(()),
        code => {
            assert_eq!(code, Some(1));
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }
}

#[track_caller]
fn assert_refuses(outcome: Result<(), String>, parts: &[&str]) {
    let error = outcome.unwrap_err();
    assert!(error.starts_with("weightstream: error[INVALID_ARGUMENT]: "), "{error}");
    assert_eq!(error.matches('\n').count(), 1, "{error}");
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn existing_outputs_are_replaced_only_with_force() {
    let folder = folder();
    run(&folder, &["convert", "m.safetensors", "old.apr"]).unwrap();
    for command in [&["convert", "m.safetensors", "out.apr"][..], &["upgrade", "old.apr", "out.apr"]] {
        folder.write("out.apr", BEFORE);
        assert_refuses(run(&folder, command), &["out.apr: this file already exists", "--force"]);
        assert_eq!(fs::read(folder.path("out.apr")).unwrap(), BEFORE);
        assert_eq!(folder.names(), ["m.safetensors", "old.apr", "out.apr"]);
        run(&folder, &[command, &["--force"]].concat()).unwrap();
        assert_eq!(content_of(&folder.path("out.apr")), content_of(&folder.path("m.safetensors")));
        assert_eq!(folder.names(), ["m.safetensors", "old.apr", "out.apr"]);
    }
}

#[test]
fn every_file_of_a_sharded_output_is_kept_without_force() {
    for (out, extension) in [("s.apr", "apr"), ("s.safetensors.index.json", "safetensors"), ("s.aeroset.json", "aero")]
    {
        let (fresh, folder) = (self::folder(), self::folder());
        let convert = |folder: &Folder, more: &[&str]| {
            let arguments = ["convert", "m.safetensors", out, "--format", extension, "--shard-size", "60kB"];
            run(folder, &[&arguments[..], more].concat())
        };
        convert(&fresh, &[]).unwrap();
        let written: Vec<_> = fresh.names().into_iter().filter(|name| name != "m.safetensors").collect();
        assert!(written.len() >= 3, "{written:?}");
        for name in &written {
            folder.write(name, BEFORE);
            assert_refuses(convert(&folder, &[]), &[name, "already exists", "--force"]);
            assert_eq!(folder.names().len(), 2, "{name}");
            convert(&folder, &["--force"]).unwrap();
            assert_eq!(content_of(&folder.path(out)), content_of(&folder.path("m.safetensors")));
            written.iter().for_each(|name| fs::remove_file(folder.path(name)).unwrap());
        }
    }
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = folder();
    fs::create_dir(folder.path("folder.apr")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.path("pipe.apr")).status().unwrap().success());
    let _socket = UnixListener::bind(folder.path("socket.apr")).unwrap();
    let mut cases = vec![("folder.apr", "folder"), ("pipe.apr", "pipe"), ("socket.apr", "socket")];
    // As another name of /dev/null, which only root can make.
    let device = Command::new("mknod").arg(folder.path("device.apr")).args(["c", "1", "3"]).output();
    if device.is_ok_and(|made| made.status.success()) {
        symlink("device.apr", folder.path("to-device.apr")).unwrap();
        cases.extend([("device.apr", "device"), ("to-device.apr", "device")]);
    }
    let before: Vec<_> =
        cases.iter().map(|(name, _)| fs::symlink_metadata(folder.path(name)).unwrap().file_type()).collect();
    for force in [&[][..], &["--force"]] {
        for ((name, kind), before) in cases.iter().zip(&before) {
            let arguments = [&["convert", "m.safetensors", name][..], force].concat();
            assert_refuses(run(&folder, &arguments), &[name, &format!("this is a {kind}")]);
            assert_eq!(fs::symlink_metadata(folder.path(name)).unwrap().file_type(), *before, "{name}");
        }
    }
    let error = folder.convert("m.safetensors", "pipe.apr", &ConvertOptions::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(fs::metadata(folder.path("pipe.apr")).unwrap().file_type().is_fifo());
    assert!(!folder.names().iter().any(|name| name.contains("partial")), "{:?}", folder.names());
}

#[test]
fn a_symbolic_link_is_neither_followed_nor_replaced() {
    let folder = folder();
    folder.write("target", BEFORE);
    symlink("target", folder.path("link.apr")).unwrap();
    symlink("nowhere", folder.path("dangling.apr")).unwrap();
    for name in ["link.apr", "dangling.apr"] {
        for force in [&[][..], &["--force"]] {
            let arguments = [&["convert", "m.safetensors", name][..], force].concat();
            assert_refuses(run(&folder, &arguments), &[name, "symbolic link"]);
            assert!(fs::symlink_metadata(folder.path(name)).unwrap().is_symlink());
        }
    }
    assert_eq!(fs::read(folder.path("target")).unwrap(), BEFORE);
    assert_eq!(folder.names(), ["dangling.apr", "link.apr", "m.safetensors", "target"]);
}

#[test]
fn existing_files_at_the_temporary_name_are_not_written() {
    type Plant = fn(&Path, &Path);
    let plants: [(&str, Plant); 4] = [
        ("a link", |victim, at| symlink(victim, at).unwrap()),
        ("a dangling link", |victim, at| symlink(victim.with_extension("new"), at).unwrap()),
        ("another name of a file", |victim, at| fs::hard_link(victim, at).unwrap()),
        ("a pipe", |_, at| assert!(Command::new("mkfifo").arg(at).status().unwrap().success())),
    ];
    for (what, plant) in plants {
        let folder = folder();
        let (victim, planted) = (folder.write("victim", BEFORE), folder.path("out.apr.weightstream.partial"));
        plant(&victim, &planted);
        let kind = fs::symlink_metadata(&planted).unwrap().file_type();
        run(&folder, &["convert", "m.safetensors", "out.apr"]).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), BEFORE, "{what}");
        assert_eq!(fs::symlink_metadata(&planted).unwrap().file_type(), kind, "{what}");
        assert!(fs::symlink_metadata(folder.path("out.apr")).unwrap().is_file(), "{what}");
        assert_eq!(content_of(&folder.path("out.apr")), content_of(&folder.path("m.safetensors")));
        assert_eq!(folder.names(), ["m.safetensors", "out.apr", "out.apr.weightstream.partial", "victim"], "{what}");
    }
}

#[test]
fn a_partial_file_of_another_tool_is_kept() {
    let folder = folder();
    folder.write("out.apr.partial", b"a download of the user");
    run(&folder, &["convert", "m.safetensors", "out.apr"]).unwrap();
    assert_eq!(fs::read(folder.path("out.apr.partial")).unwrap(), b"a download of the user");
    assert_eq!(folder.names(), ["m.safetensors", "out.apr", "out.apr.partial"]);
}

#[test]
fn replacing_a_file_keeps_its_permissions() {
    let folder = folder();
    let usual = mode(&folder.path("m.safetensors"));
    run(&folder, &["convert", "m.safetensors", "out.apr"]).unwrap();
    assert_eq!(mode(&folder.path("out.apr")), usual);
    for wanted in [0o600, 0o664, 0o444, 0o640] {
        fs::set_permissions(folder.path("out.apr"), fs::Permissions::from_mode(wanted)).unwrap();
        run(&folder, &["convert", "m.safetensors", "out.apr", "--force"]).unwrap();
        assert_eq!(mode(&folder.path("out.apr")), wanted, "{wanted:o}");
    }
}

/// Runs a closure once, during the conversion.
struct Meanwhile<F: Fn()>(AtomicBool, F);

impl<F: Fn()> Meanwhile<F> {
    fn new(act: F) -> Self {
        Meanwhile(AtomicBool::new(false), act)
    }
}

impl<F: Fn() + Sync> Progress for Meanwhile<F> {
    fn advanced(&self, _: u64) {
        if !self.0.swap(true, Ordering::Relaxed) {
            (self.1)();
        }
    }
}

#[test]
fn private_files_are_private_while_they_are_written() {
    let folder = folder();
    let out = folder.write("out.apr", BEFORE);
    fs::set_permissions(&out, fs::Permissions::from_mode(0o600)).unwrap();
    let progress = Meanwhile::new(|| assert_eq!(mode(&folder.path("out.apr.weightstream.partial")) & 0o077, 0));
    convert(&folder.open("m.safetensors"), &out, &ConvertOptions::default(), &progress).unwrap();
    assert!(progress.0.into_inner());
}

#[test]
fn files_created_during_the_conversion_are_kept() {
    let options = ConvertOptions::default().keep_existing(true);
    for shard_size in [None, Some(60_000)] {
        let folder = folder();
        let progress = Meanwhile::new(|| drop(folder.write("out.apr", BEFORE)));
        let options = options.clone().max_shard_bytes(shard_size);
        let outcome = convert(&folder.open("m.safetensors"), &folder.path("out.apr"), &options, &progress);
        assert!(outcome.unwrap_err().what.contains("already exists"));
        assert_eq!(fs::read(folder.path("out.apr")).unwrap(), BEFORE);
        assert_eq!(folder.names(), ["m.safetensors", "out.apr"]);
    }
}

#[test]
fn links_and_folders_created_during_the_conversion_are_not_replaced() {
    let folder = folder();
    let progress = Meanwhile::new(|| symlink("m.safetensors", folder.path("out.apr")).unwrap());
    let outcome =
        convert(&folder.open("m.safetensors"), &folder.path("out.apr"), &ConvertOptions::default(), &progress);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::InvalidArgument);
    assert_eq!(folder.names(), ["m.safetensors", "out.apr"]);
}

#[test]
fn a_replaced_temporary_file_is_not_published() {
    let folder = folder();
    let progress = Meanwhile::new(|| {
        fs::remove_file(folder.path("out.apr.weightstream.partial")).unwrap();
        folder.write("out.apr.weightstream.partial", b"of somebody else");
    });
    let outcome =
        convert(&folder.open("m.safetensors"), &folder.path("out.apr"), &ConvertOptions::default(), &progress);
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Io);
    assert_eq!(folder.names(), ["m.safetensors", "out.apr.weightstream.partial"]);
    assert_eq!(fs::read(folder.path("out.apr.weightstream.partial")).unwrap(), b"of somebody else");
}

#[test]
fn inputs_are_not_overwritten_under_any_name() {
    let folder = folder();
    run(&folder, &["convert", "m.safetensors", "s.apr", "--shard-size", "60kB"]).unwrap();
    for (from, of) in [("m.safetensors", "m.safetensors"), ("s.apr", "s.apr"), ("s.apr", "s-00002-of-00002.apr")] {
        fs::hard_link(folder.path(of), folder.path("other.apr")).unwrap();
        for out in
            [of, "other.apr", &format!("../{}/other.apr", folder.0.path().file_name().unwrap().to_string_lossy())]
        {
            let outcome = run(&folder, &["convert", from, out, "--force", "--format", "apr"]);
            assert_refuses(outcome, &["overwritten while it is read"]);
        }
        fs::remove_file(folder.path("other.apr")).unwrap();
    }
    assert!(folder.open("s.apr").verify(&()).is_ok());
}

#[test]
fn more_files_than_the_limit_are_refused_with_a_size_that_works() {
    let folder = Folder::new();
    let names: Vec<_> = (0..1100).map(|at| at.to_string()).collect();
    let tensors: Vec<_> = names.iter().map(|name| (name.as_str(), "I8", &[100][..], noise(1, 100))).collect();
    folder.write("m.safetensors", &safetensors(None, &tensors));
    for out in ["s.safetensors", "s.apr", "s.gguf", "s.aero"] {
        let convert = |size: &str| {
            run(&folder, &["convert", "m.safetensors", out, "--allow-loss", "--shard-size", size]) // GGUF lacks a key
        };
        let error = convert("50B").unwrap_err();
        assert!(error.contains("error[INVALID_ARGUMENT]: the model would have 1100 files"), "{error}");
        assert!(error.contains("reads at most 1024"), "{error}");
        assert_eq!(folder.names(), ["m.safetensors"], "{out}");
        let advice = error.split("Use a `--shard-size` of ").nth(1).unwrap();
        let (size, count) = advice.split_once(" or more, which makes ").unwrap();
        convert(size).unwrap();
        let count: usize = count.strip_suffix(" files.\n").unwrap().parse().unwrap();
        let written: Vec<_> = folder.names().into_iter().filter(|name| name != "m.safetensors").collect();
        assert_eq!(written.iter().filter(|name| name.contains("-of-")).count(), count, "{out}");
        written.iter().for_each(|name| fs::remove_file(folder.path(name)).unwrap());
    }
}

#[test]
fn an_output_in_an_invalid_folder_fails() {
    let folder = folder();
    File::create(folder.path("file")).unwrap();
    assert!(run(&folder, &["convert", "m.safetensors", "file/out.apr"]).unwrap_err().contains("error[IO]"));
    assert_eq!(folder.names(), ["file", "m.safetensors"]);
}

#[test]
fn publish_and_download_replace_files_of_others_only_with_force() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[3][..], b"abc".to_vec())]));
    folder.write("out/model.apr", b"mine");
    let publish = ["publish", "m.safetensors", "out"];
    let error = super::command::fail(&folder, &publish);
    assert!(error.contains("model.apr") && error.contains("`--force`"), "{error}");
    assert_eq!(fs::read(folder.path("out/model.apr")).unwrap(), b"mine");
    super::command::succeed(&folder, &[&publish[..], &["--force"]].concat());
    super::command::succeed(&folder, &publish);

    let server = weightstream_cli::serve::Server::new().mount("/", folder.0.path()).bind("127.0.0.1:0").unwrap();
    let server = server.spawn();
    let entry = format!("{}/out/model.apr", server.url());
    folder.write("copy/model.apr", b"mine");
    let error = super::command::fail(&folder, &["download", &entry, "copy"]);
    assert!(error.contains("model.apr") && error.contains("`--force`"), "{error}");
    super::command::succeed(&folder, &["download", &entry, "copy", "--force"]);
    super::command::succeed(&folder, &["verify", "copy/model.apr"]);
}

#[test]
fn odd_names_survive_publish_serve_and_download() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[3][..], b"abc".to_vec())]));
    let odd = "~a [1] {2} #3 %41 ? * + & = @ ; ' é";
    let entry = format!("{odd}/{odd}.apr");
    super::command::succeed(&folder, &["publish", "m.safetensors", &entry]);
    super::command::succeed(&folder, &["verify", &entry]);
    let server = weightstream_cli::serve::Server::new().mount("/", folder.0.path()).bind("127.0.0.1:0").unwrap();
    let server = server.spawn();
    let url = format!("{}/{}", server.url(), weightstream::internals::names::encoded(&entry));
    super::command::succeed(&folder, &["verify", &url]);
    super::command::succeed(&folder, &["download", &url, "copy"]);
    super::command::succeed(&folder, &["verify", &format!("copy/{odd}.apr")]);
}

#[test]
fn convert_adds_adapters_with_their_scales() {
    let folder = Folder::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/adapters/peft_rslora");
    let place = |name: &str| fixtures.join(name).display().to_string();
    let (model, adapter) = (place("model.safetensors"), place("adapter_model.safetensors"));
    let convert = |out: &str, options: &[&str]| run(&folder, &[&["convert", &model, out], options].concat());
    convert("merged.safetensors", &["--adapter", &adapter]).unwrap();
    convert("none.safetensors", &["--adapter", &adapter, "--adapter-scale", "0"]).unwrap();
    assert_ne!(content_of(&folder.path("merged.safetensors")), content_of(Path::new(&model)));
    assert_eq!(content_of(&folder.path("none.safetensors")), content_of(Path::new(&model)));
    let url = "https://example.org/adapter.safetensors?v=2";
    let error = convert("refused.safetensors", &["--adapter", url]).unwrap_err();
    assert!(error.contains(url), "{error}");
    let scales = ["--adapter-scale", "1", "--adapter-scale", "-0.5"];
    let error = convert("refused.safetensors", &[&["--adapter", &adapter], &scales[..]].concat()).unwrap_err();
    assert!(error.contains("--adapter-scale"), "{error}");
}
