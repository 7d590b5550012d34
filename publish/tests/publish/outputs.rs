//! What is never replaced, and what a failed run leaves.

use crate::model::{Folder, content};
use crate::published::{files, layers, options, publish, seven_layers, tensor_files};
use crate::server::Server;
use std::fs;
use weightstream::internals::loader::Options;
use weightstream::internals::native::{Reader, RemoteReader};
use weightstream::{Error, ErrorKind};

fn assert_refused(error: &Error, name: &str) {
    assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(name), "{error}");
}

#[test]
fn an_entry_of_others_is_replaced_only_on_request() {
    let folder = Folder::new();
    let (input, out) = (seven_layers(&folder), folder.path("out"));
    fs::create_dir(&out).unwrap();
    for foreign in [&b"{\"weights\": 1}"[..], b"", b"APR2 and so on"] {
        fs::write(out.join("model.apr"), foreign).unwrap();
        let error = publish(&input, &out, &options()).unwrap_err();
        assert_refused(&error, "model.apr");
        assert_eq!(files(&out).into_iter().collect::<Vec<_>>(), [("model.apr".to_owned(), foreign.to_vec())]);
    }
    publish(&input, &out, &options().with_replace_foreign(true)).unwrap();
    assert_eq!(content(&Reader::open(out.join("model.apr")).unwrap()), content(&input));
    publish(&input, &out, &options()).unwrap();
}

#[test]
fn files_and_records_of_others_are_replaced_only_on_request() {
    let folder = Folder::new();
    let (input, whole) = (seven_layers(&folder), folder.path("whole"));
    publish(&input, &whole, &options()).unwrap();
    let (file, record) = (tensor_files(&whole).remove(2), "model.apr.00002-of-00004.json".to_owned());
    for (number, name) in [file, record].into_iter().enumerate() {
        let out = folder.path(&format!("out{number}"));
        fs::create_dir(&out).unwrap();
        fs::write(out.join(&name), b"{\"mine\": true}").unwrap();
        let error = publish(&input, &out, &options()).unwrap_err();
        assert_refused(&error, &name);
        assert_eq!(files(&out)[&name], b"{\"mine\": true}");
        publish(&input, &out, &options().with_replace_foreign(true)).unwrap();
        assert_eq!(files(&out), files(&whole));
    }
}

#[test]
fn a_file_of_others_with_the_same_length_is_not_deleted() {
    let folder = Folder::new();
    let (input, whole, out) = (seven_layers(&folder), folder.path("whole"), folder.path("out"));
    publish(&input, &whole, &options()).unwrap();
    fs::create_dir(&out).unwrap();
    let name = tensor_files(&whole).remove(0);
    let foreign = vec![7; files(&whole)[&name].len()];
    fs::write(out.join(&name), &foreign).unwrap();
    let error = publish(&input, &out, &options()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Checksum, "{error}");
    assert_eq!(files(&out)[&name], foreign);
    assert!(!out.join("model.apr").exists());
}

#[test]
fn a_failed_run_leaves_no_folder_that_it_created() {
    let folder = Folder::new();
    let (input, out) = (seven_layers(&folder), folder.path("out/a/b"));
    publish(&input, &out, &options().with_previous(Some("missing.apr".to_owned()))).unwrap_err();
    assert!(!folder.path("out").exists());
    fs::create_dir(folder.path("out")).unwrap();
    publish(&input, &out, &options().with_previous(Some("missing.apr".to_owned()))).unwrap_err();
    assert_eq!(fs::read_dir(folder.path("out")).unwrap().count(), 0);
    publish(&input, &out, &options()).unwrap();
}

#[test]
fn the_input_is_not_replaced() {
    let folder = Folder::new();
    seven_layers(&folder);
    fs::rename(folder.path("input.safetensors"), folder.path("model.apr")).unwrap();
    let before = fs::read(folder.path("model.apr")).unwrap();
    let input = folder.open("model.apr");
    for options in [options(), options().with_replace_foreign(true)] {
        let error = publish(&input, &folder.path("."), &options).unwrap_err();
        assert_refused(&error, "overwritten while it is read");
    }
    assert_eq!(fs::read(folder.path("model.apr")).unwrap(), before);

    let server = Server::start();
    server.put("/m/model.apr", &before);
    let url = server.url("/m/model.apr");
    let input = RemoteReader::open(&url, &[], Options::default()).unwrap();
    let options = options().with_replace_foreign(true);
    let error = weightstream_publish::publish_with(&input, &server.url("/m/"), &options, &()).unwrap_err();
    assert_refused(&error, "overwritten while it is read");
    assert_eq!(server.files()["/m/model.apr"], before);
}

#[cfg(unix)]
#[test]
fn links_are_not_replaced_and_modes_are_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = Folder::new();
    let (input, out) = (seven_layers(&folder), folder.path("out"));
    publish(&input, &out, &options()).unwrap();
    let (entry, file) = (out.join("model.apr"), out.join(tensor_files(&out).remove(0)));
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o640)).unwrap();
    folder.write("next.safetensors", &layers(&[(0, 1)]));
    publish(&folder.open("next.safetensors"), &out, &options()).unwrap();
    assert_eq!(fs::metadata(&entry).unwrap().permissions().mode() & 0o777, 0o640);

    let linked = [entry.clone(), file, out.join("model.apr.00003-of-00004.json")];
    for (number, link) in linked.iter().enumerate() {
        let target = folder.path(&format!("target{number}"));
        if link.exists() {
            fs::rename(link, &target).unwrap();
        }
        symlink(&target, link).unwrap();
        for options in [options(), options().with_replace_foreign(true)] {
            let error = publish(&input, &out, &options).unwrap_err();
            assert_refused(&error, link.file_name().unwrap().to_str().unwrap());
        }
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
        fs::remove_file(link).unwrap();
        if target.exists() {
            fs::rename(&target, link).unwrap();
        }
    }
}

/// A server with a revision of seven layers.
fn with_first_revision(folder: &Folder, change: crate::server::Change) -> Server {
    let (server, out) = (Server::with_change(change), folder.path("first"));
    publish(&seven_layers(folder), &out, &options()).unwrap();
    for (name, bytes) in files(&out) {
        server.put(&format!("/m/{name}"), &bytes);
    }
    server
}

#[test]
fn a_failed_run_leaves_the_previous_revision() {
    let damage_tensors: crate::server::Change = |path, bytes| {
        if path.starts_with("/m/model-") {
            bytes[100] ^= 1;
        }
    };
    let damage_entry: crate::server::Change = |path, bytes| {
        let is_new = !bytes.windows(8).any(|bytes| bytes == b"layers.6");
        if path == "/m/model.apr" && is_new {
            bytes.truncate(100);
        }
    };
    for change in [damage_tensors, damage_entry] {
        let folder = Folder::new();
        let server = with_first_revision(&folder, change);
        let before = server.files();
        folder.write("next.safetensors", &layers(&[(0, 1), (1, 1)]));
        let input = folder.open("next.safetensors");
        let published = weightstream_publish::publish_with(&input, &server.url("/m/"), &options(), &());
        assert_eq!(published.unwrap_err().kind, ErrorKind::Checksum);
        for (name, bytes) in before {
            assert_eq!(server.files()[&name], bytes, "{name}");
        }
        let reader = RemoteReader::open(&server.url("/m/model.apr"), &[], Options::default()).unwrap();
        assert_eq!(reader.tensors().len(), 7);
    }
}

#[test]
fn a_damaged_first_entry_is_removed() {
    let (folder, server) = (
        Folder::new(),
        Server::with_change(|path, bytes| {
            if path == "/m/model.apr" {
                bytes.truncate(100);
            }
        }),
    );
    let input = seven_layers(&folder);
    let published = weightstream_publish::publish_with(&input, &server.url("/m/"), &options(), &());
    assert_eq!(published.unwrap_err().kind, ErrorKind::Checksum);
    assert!(!server.files().contains_key("/m/model.apr"));
}
