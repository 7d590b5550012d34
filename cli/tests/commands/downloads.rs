//! `download` of models that `publish` has not published: of a hub, and of web servers.

use super::bytes::{noise, safetensors};
use super::command::{fail, run};
use super::hub_server::{Api, MockHub, hex};
use super::server::{Reply, Server, answer};
use super::{FILE, Folder};
use serde_json::json;
use std::fs;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PARTIAL: &str = "copy/m.safetensors.weightstream.partial";

fn download(mock: &MockHub, folder: &Folder, address: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.env("HF_ENDPOINT", mock.hub.url("")).args(["download", address, "copy"]);
    command.current_dir(folder.0.path()).output().unwrap()
}

#[track_caller]
fn assert_reports(output: &Output, part: &str) {
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains(part), "{output:?}");
}

/// Two files of tensors, their index, and files of a tokenizer, of another model and of a program.
fn repository() -> Vec<(&'static str, Vec<u8>)> {
    let shard = |name: &str, seed| safetensors(None, &[(name, "U8", &[90_000][..], noise(seed, 90_000))]);
    let first = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let index = json!({ "metadata": {}, "weight_map": { "a": first[0], "b": first[1] } }).to_string();
    let mut files = vec![(first[0], shard("a", 1)), (first[1], shard("b", 2))];
    files.extend([("model.safetensors.index.json", index.into_bytes())]);
    for name in ["config.json", "tokenizer.json", "1_Pooling/config.json"] {
        files.push((name, format!("{{\"name\":\"{name}\"}}").into_bytes()));
    }
    files.extend([("pytorch_model.bin", b"x".to_vec()), ("run.sh", b"x".to_vec()), (".gitattributes", b"x".to_vec())]);
    files
}

#[test]
fn a_repository_is_downloaded_with_its_configuration_and_a_second_run_receives_little() {
    let files = repository();
    let served: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    let (mock, folder) = (MockHub::new(Api::Full, &served), Folder::new());
    let output = download(&mock, &folder, "hf:owner/name");
    assert_reports(&output, "copy/model.safetensors.index.json: 5 files");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "the hub states all digests");
    for (name, bytes) in &files[..6] {
        assert_eq!(&fs::read(folder.path("copy").join(name)).unwrap(), bytes, "{name}");
    }
    for (name, _) in &files[6..] {
        assert!(!folder.path("copy").join(name).exists(), "{name}");
    }
    let again = download(&mock, &folder, "hf:owner/name");
    assert_reports(&again, "5 existed");
}

#[test]
fn a_file_of_a_repository_is_downloaded_alone() {
    let (mock, folder) = (MockHub::new(Api::Full, &[("m.safetensors", &FILE), ("config.json", b"{}")]), Folder::new());
    assert_reports(&download(&mock, &folder, "hf:owner/name/m.safetensors"), "copy/m.safetensors: 1 file, 2.55 MB");
    assert_eq!(fs::read(folder.path("copy/m.safetensors")).unwrap(), *FILE);
    assert!(!folder.path("copy/config.json").exists());
}

#[test]
fn an_interrupted_file_with_a_digest_is_continued() {
    let (mock, folder) = (MockHub::new(Api::Full, &[("m.safetensors", &FILE)]), Folder::new());
    fs::create_dir(folder.path("copy")).unwrap();
    fs::write(folder.path(PARTIAL), &FILE[..2_000_000]).unwrap();
    assert_reports(&download(&mock, &folder, "hf:owner/name"), "2.00 MB received before");
    assert_eq!(fs::read(folder.path("copy/m.safetensors")).unwrap(), *FILE);
    assert!(mock.storage.sent() < 900_000, "{}", mock.storage.sent());
    assert!(!folder.path(PARTIAL).exists());
}

#[test]
fn what_another_file_left_is_not_continued() {
    for left in [noise(9, 1_000_000), noise(9, FILE.len()), noise(9, FILE.len() + 1)] {
        let (mock, folder) = (MockHub::new(Api::Full, &[("m.safetensors", &FILE)]), Folder::new());
        fs::create_dir(folder.path("copy")).unwrap();
        fs::write(folder.path(PARTIAL), left).unwrap();
        let output = download(&mock, &folder, "hf:owner/name");
        assert_reports(&output, "copy/m.safetensors: 1 file");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("before"), "{output:?}");
        assert_eq!(fs::read(folder.path("copy/m.safetensors")).unwrap(), *FILE);
    }
}

#[test]
fn a_failed_download_leaves_what_can_be_continued() {
    let folder = Folder::new();
    let stated = json!({ "m.safetensors": { "size": FILE.len(), "sha256": hex(&FILE) } });
    let entry = json!({ "weightstream": { "version": 1, "files": stated } }).to_string().into_bytes();
    // The server sends 1 MB of the file, and refuses the rest.
    let documents = Server::new(move |request| match (&*request.path, &request.range) {
        ("/m.safetensors", Some(range)) if range.start > 600_000 => Reply::new(403, b""),
        ("/m.safetensors", _) => answer(&FILE, request).cut_after(1_000_000),
        _ => answer(&entry, request),
    });
    let url = documents.url("/model.safetensors.index.json");
    let output = run(&folder, &["download", &url, "copy"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let left = fs::read(folder.path(PARTIAL)).unwrap();
    assert!(!left.is_empty() && FILE.starts_with(&left), "{}", left.len());
}

#[test]
fn a_file_at_a_url_without_a_digest_is_downloaded_with_a_warning() {
    let (server, folder) = (Server::new(|request| answer(&FILE, request)), Folder::new());
    let url = server.url("/x/m.safetensors?key=1");
    let output = run(&folder, &["download", &url, "copy"]);
    assert_reports(&output, "copy/m.safetensors: 1 file, 2.55 MB");
    let warning = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warning.contains("not compared, because no digest is stated: m.safetensors"), "{warning}");
    assert_eq!(fs::read(folder.path("copy/m.safetensors")).unwrap(), *FILE);
    assert_reports(&run(&folder, &["download", &url, "copy"]), "1 existed");
    // Another file of this name is not replaced.
    fs::write(folder.path("copy/m.safetensors"), b"mine").unwrap();
    let message = fail(&folder, &["download", &url, "copy"]);
    assert!(message.contains("already exists") && message.contains("with `--force`"), "{message}");
    let forced = run(&folder, &["download", &url, "copy", "--force"]);
    assert_reports(&forced, "copy/m.safetensors: 1 file");
    assert_eq!(fs::read(folder.path("copy/m.safetensors")).unwrap(), *FILE);
}

#[test]
fn damaged_bytes_are_not_kept() {
    let digest_of = |_: &[u8]| "ab".repeat(32);
    let (mock, folder) = (MockHub::stating(Api::Full, &[("m.safetensors", &FILE)], digest_of), Folder::new());
    let output = download(&mock, &folder, "hf:owner/name");
    assert!(String::from_utf8_lossy(&output.stderr).contains("error[CHECKSUM]"), "{output:?}");
    assert!(!folder.path("copy").exists(), "nothing is left");
}

#[test]
fn an_interrupted_file_without_a_digest_is_continued_if_it_has_the_same_version() {
    for version in ["\"v1\"", "\"v2\""] {
        let is_whole = Arc::new(AtomicBool::new(false));
        let may_send = Arc::clone(&is_whole);
        let server = Server::new(move |request| {
            let is_whole = may_send.load(Ordering::Relaxed);
            let etag = if is_whole { version } else { "\"v1\"" };
            let answer = answer(&FILE, request).without("ETag").with("ETag", etag);
            match request.range.as_ref().is_some_and(|range| range.start > 600_000) {
                _ if is_whole => answer,
                true => Reply::new(403, b""),
                false => answer.cut_after(1_000_000),
            }
        });
        let (folder, url) = (Folder::new(), server.url("/m.safetensors"));
        assert_eq!(run(&folder, &["download", &url, "copy"]).status.code(), Some(1));
        let left = fs::read(folder.path(PARTIAL)).unwrap();
        assert!(!left.is_empty() && FILE.starts_with(&left), "{}", left.len());
        is_whole.store(true, Ordering::Relaxed);
        let output = run(&folder, &["download", &url, "copy"]);
        assert_reports(&output, "copy/m.safetensors: 1 file");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).contains("received before"),
            version == "\"v1\"",
            "{output:?}"
        );
        assert_eq!(fs::read(folder.path("copy/m.safetensors")).unwrap(), *FILE);
        let record = "copy/m.safetensors.weightstream.json";
        assert!(folder.path(record).exists(), "its version confirms the file later");
        assert_eq!(fs::read_dir(folder.path("copy")).unwrap().count(), 2, "nothing else is left");
    }
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_what_was_left_is_not_followed() {
    use std::os::unix::fs::symlink;

    let (mock, folder) = (MockHub::new(Api::Full, &[("m.safetensors", &FILE)]), Folder::new());
    fs::create_dir(folder.path("copy")).unwrap();
    fs::write(folder.path("other"), &FILE[..100]).unwrap();
    for link in [symlink, |from, to| fs::hard_link(from, to)] as [fn(_, _) -> _; 2] {
        link(folder.path("other"), folder.path(PARTIAL)).unwrap();
        assert_reports(&download(&mock, &folder, "hf:owner/name"), "copy/m.safetensors: 1 file");
        assert_eq!(fs::read(folder.path("other")).unwrap(), FILE[..100]);
        assert_eq!(fs::read(folder.path("copy/m.safetensors")).unwrap(), *FILE);
        fs::remove_file(folder.path("copy/m.safetensors")).unwrap();
        fs::remove_file(folder.path(PARTIAL)).unwrap();
    }
}

#[test]
fn a_split_gguf_file_is_downloaded_whole() {
    let folder = Folder::new();
    let tensors =
        [("a", "F32", &[64, 64][..], noise(1, 64 * 64 * 4)), ("b", "F32", &[64, 64][..], noise(2, 64 * 64 * 4))];
    folder.write("m.safetensors", &safetensors(None, &tensors));
    folder.write("m.json", br#"{"general.architecture":"llama"}"#);
    run(&folder, &["convert", "m.safetensors", "m.gguf", "--shard-size", "20kB", "--metadata", "m.json"]);
    let names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    let files = names.map(|name| fs::read(folder.path(name)).unwrap());
    let served = files.clone();
    let server = Server::new(move |request| match names.iter().position(|name| request.path.ends_with(name)) {
        Some(number) => answer(&served[number], request),
        None => Reply::new(404, b""),
    });
    let output = run(&folder, &["download", &server.url(&format!("/{}", names[0])), "copy"]);
    assert_reports(&output, "2 files");
    for (name, bytes) in names.iter().zip(&files) {
        assert_eq!(&fs::read(folder.path("copy").join(name)).unwrap(), bytes, "{name}");
    }
}
