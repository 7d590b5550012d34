//! `download` of files without a stated digest: only bytes of the same file are continued, kept and joined.

use super::command::{fail, run};
use super::model::FILE;
use super::server::{Reply, Server, answer, whole};
use super::{Folder, bytes};
use serde_json::json;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

const FINAL: &str = "copy/m.safetensors";
const PARTIAL: &str = "copy/m.safetensors.weightstream.partial";
const RECORD: &str = "copy/m.safetensors.weightstream.json";

/// Another model of the same length as [`FILE`].
static OTHER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut other = FILE.clone();
    let start = other.len() - 2_500_000;
    other[start..].copy_from_slice(&bytes::noise(77, 2_500_000));
    other
});

/// A server of [`FILE`] at `/a/`, and of [`OTHER`] at `/b/`, with the same ETag. It sends 1 MB until the flag is set.
fn server_of_two() -> (Server, Arc<AtomicBool>) {
    let is_whole = Arc::new(AtomicBool::new(false));
    let may_send = Arc::clone(&is_whole);
    let server = Server::new(move |request| {
        let reply = answer(if request.path.starts_with("/a/") { &FILE } else { &OTHER }, request);
        match request.range.as_ref().is_some_and(|range| range.start > 600_000) {
            _ if may_send.load(Ordering::Relaxed) => reply,
            true => Reply::new(403, b""),
            false => reply.cut_after(1_000_000),
        }
    });
    (server, is_whole)
}

fn printed(folder: &Folder, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_another_url_left_is_not_continued() {
    for (path, is_continued) in [("/b/m.safetensors", false), ("/a/m.safetensors?signature=2", true)] {
        let ((server, is_whole), folder) = (server_of_two(), Folder::new());
        let first = server.url("/a/m.safetensors?signature=1");
        assert_eq!(run(&folder, &["download", &first, "copy"]).status.code(), Some(1));
        assert!(fs::read(folder.path(PARTIAL)).unwrap().len() > 100_000);
        assert!(!fs::read_to_string(folder.path(RECORD)).unwrap().contains("signature"), "queries may be secrets");
        is_whole.store(true, Ordering::Relaxed);
        let report = printed(&folder, &["download", &server.url(path), "copy"]);
        assert_eq!(report.contains("received before"), is_continued, "{report}");
        let expected = if is_continued { &*FILE } else { &*OTHER };
        assert!(fs::read(folder.path(FINAL)).unwrap() == *expected, "{path}");
    }
}

#[test]
fn a_record_does_not_outlive_what_it_describes() {
    let ((server, _), folder) = (server_of_two(), Folder::new());
    let url = server.url("/a/m.safetensors");
    assert_eq!(run(&folder, &["download", &url, "copy"]).status.code(), Some(1));
    assert!(folder.path(RECORD).exists());
    // With a stated digest, the partial file is continued without a record, and then has other bytes.
    let files = json!({ "m.safetensors": { "size": OTHER.len(), "sha256": super::hub_server::hex(&OTHER) } });
    let entry = json!({ "weightstream": { "version": 1, "files": files } }).to_string().into_bytes();
    let published = Server::new(move |request| match request.path.ends_with(".json") {
        true => answer(&entry, request),
        false if request.range.as_ref().is_some_and(|range| range.start > 600_000) => Reply::new(403, b""),
        false => answer(&OTHER, request).cut_after(1_000_000),
    });
    let entry = published.url("/model.safetensors.index.json");
    assert_eq!(run(&folder, &["download", &entry, "copy"]).status.code(), Some(1));
    assert!(folder.path(PARTIAL).exists() && !folder.path(RECORD).exists());
}

#[test]
fn another_file_of_the_same_length_is_not_the_downloaded_one() {
    let ((server, is_whole), folder) = (server_of_two(), Folder::new());
    is_whole.store(true, Ordering::Relaxed);
    let urls = ["/a/m.safetensors", "/b/m.safetensors"].map(|path| server.url(path));
    printed(&folder, &["download", &urls[0], "copy"]);
    let message = fail(&folder, &["download", &urls[1], "copy"]);
    assert!(message.contains("already exists") && message.contains("`--force`"), "{message}");
    assert!(fs::read(folder.path(FINAL)).unwrap() == *FILE);
    printed(&folder, &["download", &urls[1], "copy", "--force"]);
    assert!(fs::read(folder.path(FINAL)).unwrap() == *OTHER);
    // The record says which file was downloaded, but not what others have written since.
    fs::write(folder.path(FINAL), &*FILE).unwrap();
    let message = fail(&folder, &["download", &urls[1], "copy"]);
    assert!(message.contains("already exists"), "{message}");
}

#[test]
fn a_second_run_receives_only_what_is_missing_and_compares_what_nothing_else_confirms() {
    let ((server, is_whole), folder) = (server_of_two(), Folder::new());
    is_whole.store(true, Ordering::Relaxed);
    let url = server.url("/a/m.safetensors");
    printed(&folder, &["download", &url, "copy"]);
    let sent = server.sent();
    assert!(printed(&folder, &["download", &url, "copy"]).contains("1 existed"));
    assert!(server.sent() - sent < 1_500_000, "{}", server.sent() - sent);
    printed(&folder, &["inspect", "copy"]);
    // A copy of the same file has no record.
    fs::remove_file(folder.path(RECORD)).unwrap();
    assert!(printed(&folder, &["download", &url, "copy"]).contains("1 existed"));
}

#[test]
fn a_file_whose_server_states_no_version_or_length_is_compared() {
    let short = bytes::safetensors(None, &[("a", "U8", &[100][..], bytes::noise(1, 100))]);
    let other = bytes::safetensors(None, &[("a", "U8", &[100][..], bytes::noise(2, 100))]);
    let files = [short.clone(), other];
    let server = Server::new(move |request| {
        whole(&files[usize::from(request.path.starts_with("/other/"))]).without("ETag").chunked()
    });
    let folder = Folder::new();
    let url = server.url("/short/m.safetensors");
    printed(&folder, &["download", &url, "copy"]);
    assert!(printed(&folder, &["download", &url, "copy"]).contains("1 existed"));
    let message = fail(&folder, &["download", &server.url("/other/m.safetensors"), "copy"]);
    assert!(message.contains("already exists"), "{message}");
    assert_eq!(fs::read(folder.path(FINAL)).unwrap(), short);
}

#[test]
fn a_file_must_have_the_length_that_the_manifest_states() {
    for (length, is_chunked) in [(400, false), (3000, false), (400, true), (3000, true)] {
        let manifest = json!({ "apr_version": "2.0", "shards": [{ "file": "p.apr", "size": 1000 }] }).to_string();
        let server = Server::new(move |request| match (request.path.ends_with(".json"), is_chunked) {
            (true, _) => answer(manifest.as_bytes(), request),
            (false, true) => whole(&bytes::noise(3, length)).without("ETag").chunked(),
            (false, false) => answer(&bytes::noise(3, length), request),
        });
        let folder = Folder::new();
        let message = fail(&folder, &["download", &server.url("/m.json"), "copy"]);
        assert!(message.contains("1000 bytes") && message.contains("p.apr"), "{message}");
        assert!(!folder.path("copy").exists(), "nothing is left: {length}, {is_chunked}");
    }
}
