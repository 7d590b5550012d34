//! What a download writes, whatever the entry lists.

use crate::model::{Folder, content};
use crate::published::{files, options, publish, seven_layers, tensor_files};
use crate::server::Server;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;
use weightstream::internals::native::Reader;
use weightstream::internals::source::http::HttpSource;
use weightstream::{ErrorKind, Result};
use weightstream_publish::{DownloadOptions, Downloaded, download, download_from};

fn from(server: &Server, entry: &str, folder: &Path) -> Result<Downloaded> {
    download(&server.url(entry), folder, &DownloadOptions::default())
}

/// An entry that lists files of three bytes.
fn entry_with(names: &[&str]) -> Vec<u8> {
    let sha256: String = Sha256::digest(b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
    let files = names.iter().map(|name| ((*name).to_owned(), json!({ "size": 3, "sha256": sha256 })));
    let files = Value::Object(files.collect::<Map<_, _>>());
    json!({ "weightstream": { "version": 1, "files": files } }).to_string().into_bytes()
}

/// A server with a published model.
fn with_model(folder: &Folder) -> Server {
    let (server, out) = (Server::start(), folder.path("published"));
    publish(&seven_layers(folder), &out, &options()).unwrap();
    for (name, bytes) in files(&out) {
        server.put(&format!("/{name}"), &bytes);
    }
    server
}

#[test]
fn only_files_of_models_in_the_folder_are_written() {
    for name in [
        ".git/hooks/pre-commit",
        "bashrc",
        ".bashrc",
        "a/.config/m.apr",
        ".m.apr",
        "run.sh",
        "package.json",
        "m\u{1b}.apr",
        "model.apr",
    ] {
        let (folder, server) = (Folder::new(), Server::start());
        server.put(&format!("/{name}"), b"abc");
        server.put("/model.apr", &entry_with(&["good.apr", name]));
        server.put("/good.apr", b"abc");
        let error = from(&server, "/model.apr", &folder.path("out")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{name:?}: {error}");
        assert!(!folder.path("out").exists(), "nothing is written: {name:?}");
    }
}

#[test]
fn the_name_of_the_entry_is_one_visible_name() {
    for path in ["/.model.apr", "/bashrc"] {
        let (folder, server) = (Folder::new(), Server::start());
        server.put(&weightstream::internals::names::decoded(path).unwrap(), &entry_with(&["good.apr"]));
        server.put("/good.apr", b"abc");
        server.put("/x/good.apr", b"abc");
        let error = from(&server, path, &folder.path("out")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{path}: {error}");
        assert!(!folder.path("out").exists());
    }
}

#[test]
fn a_failed_download_leaves_no_empty_folders() {
    let (folder, server) = (Folder::new(), Server::start());
    server.put("/model.apr", &entry_with(&["a/b/missing.apr"]));
    from(&server, "/model.apr", &folder.path("out/x")).unwrap_err();
    assert!(!folder.path("out").exists());
}

#[test]
fn files_of_others_are_replaced_only_on_request() {
    let folder = Folder::new();
    let server = with_model(&folder);
    let tensors = tensor_files(&folder.path("published")).remove(1);
    for name in ["model.apr", &tensors] {
        let out = folder.path(&format!("out of {name}"));
        fs::create_dir(&out).unwrap();
        fs::write(out.join(name), b"mine").unwrap();
        let error = from(&server, "/model.apr", &out).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
        assert_eq!(fs::read(out.join(name)).unwrap(), b"mine");
        let source = HttpSource::new(&server.url("/model.apr"), &[]).unwrap();
        download_from(source, &out, &DownloadOptions::default().with_replace_foreign(true), &()).unwrap();
        assert_eq!(files(&out), files(&folder.path("published")));
    }
}

#[test]
fn damaged_files_of_the_previous_revision_are_replaced() {
    let folder = Folder::new();
    let (server, out) = (with_model(&folder), folder.path("out"));
    from(&server, "/model.apr", &out).unwrap();
    let name = tensor_files(&out).remove(0);
    fs::write(out.join(&name), b"damaged").unwrap();
    let downloaded = from(&server, "/model.apr", &out).unwrap();
    assert_eq!((downloaded.file_count, downloaded.existing_files), (4, 3));
    assert_eq!(content(&Reader::open(downloaded.entry).unwrap()), content(&seven_layers(&folder)));
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_and_nothing_can_be_executed() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let (folder, server) = (Folder::new(), Server::start());
    let (out, other) = (folder.path("out"), folder.path("other"));
    fs::create_dir(&out).unwrap();
    fs::create_dir(&other).unwrap();
    server.put("/model.apr", &entry_with(&["sub/deep/m.apr"]));
    server.put("/sub/deep/m.apr", b"abc");
    symlink(&other, out.join("sub")).unwrap();
    let error = from(&server, "/model.apr", &out).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);

    fs::remove_file(out.join("sub")).unwrap();
    from(&server, "/model.apr", &out).unwrap();
    let file = out.join("sub/deep/m.apr");
    fs::write(&file, b"old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    from(&server, "/model.apr", &out).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"abc");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);

    fs::rename(&file, other.join("m.apr")).unwrap();
    fs::write(other.join("m.apr"), b"old").unwrap();
    symlink(other.join("m.apr"), &file).unwrap();
    let error = from(&server, "/model.apr", &out).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    assert_eq!(fs::read(other.join("m.apr")).unwrap(), b"old");
}

#[test]
fn headers_are_not_ignored_by_stores() {
    let folder = Folder::new();
    let options = DownloadOptions::default().with_headers(vec![("x-key".to_owned(), "1".to_owned())]);
    let error = download("s3://bucket/model.apr", folder.path("copy"), &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
}
