//! Tests of updating a downloaded model to a new revision, natively.

use super::Folder;
use super::bytes::{noise, safetensors};
use super::command::{fail, succeed};
use serde_json::json;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use weightstream::internals::native::Reader;
use weightstream::internals::progress::Progress;
use weightstream::internals::source::http::HttpSource;
use weightstream_cli::serve::{Running, Server};
use weightstream_publish::{DownloadOptions, Downloaded, download_from};

const LAYER_BYTES: usize = 4 << 20;
const LAYERS: usize = 4;
const ROW_BYTES: usize = 1024;
const ROWS: usize = 8 << 10;
const MODEL_BYTES: u64 = (LAYERS * LAYER_BYTES + ROWS * ROW_BYTES) as u64;

/// A model of 24 MiB: an embedding of 8 MiB and four layers of 4 MiB.
struct Model(Vec<(String, [u64; 2], Vec<u8>)>);

impl Model {
    fn new() -> Model {
        let embedding = ("embedding".to_owned(), [ROWS as u64, 256], noise(9, ROWS * ROW_BYTES));
        let layer = |n: usize| (format!("layers.{n}.weight"), [1024, 1024], noise(n as u64, LAYER_BYTES));
        Model([embedding].into_iter().chain((0..LAYERS).map(layer)).collect())
    }

    fn write(&self, folder: &Folder, name: &str) {
        let tensors: Vec<_> =
            self.0.iter().map(|(name, shape, bytes)| (&**name, "F32", &shape[..], bytes.clone())).collect();
        folder.write(name, &safetensors(Some(json!({ "format": "pt" })), &tensors));
    }
}

/// A published model, its server, and a folder with the downloaded first revision.
fn published(folder: &Folder) -> Running {
    Model::new().write(folder, "one.safetensors");
    succeed(folder, &["publish", "one.safetensors", "site/model.apr"]);
    let server = Server::new().mount("/", folder.path("site")).bind("127.0.0.1:0").unwrap().spawn();
    let first = update(folder, &server);
    assert_eq!((first.existing_files, first.copied_bytes), (0, 0));
    assert!(first.received_bytes > MODEL_BYTES);
    server
}

fn publish_next(folder: &Folder, change: impl FnOnce(&mut Model)) {
    let mut model = Model::new();
    change(&mut model);
    model.write(folder, "two.safetensors");
    succeed(folder, &["publish", "two.safetensors", "site/", "--from", "site/model.apr"]);
}

fn update(folder: &Folder, server: &Running) -> Downloaded {
    let entry = HttpSource::new(&format!("{}/model.apr", server.url()), &[]).unwrap();
    let downloaded = download_from(entry, &folder.path("copy"), &DownloadOptions::default(), &()).unwrap();
    let content = |path| {
        let reader = Reader::open(path).unwrap();
        let bytes = |name: &str| {
            let mut bytes = Vec::new();
            let mut take = |piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok(())
            };
            reader.read_pieces(name, "data", &mut take).unwrap();
            bytes
        };
        reader.tensors().iter().map(|tensor| (tensor.name.clone(), bytes(&tensor.name))).collect::<Vec<_>>()
    };
    assert!(content(folder.path("copy/model.apr")) == content(folder.path("site/model.apr")));
    downloaded
}

#[test]
fn a_changed_layer_costs_its_bytes() {
    let folder = Folder::new();
    let server = published(&folder);
    publish_next(&folder, |Model(tensors)| tensors[2].2 = noise(77, LAYER_BYTES));
    let Downloaded { received_bytes, .. } = update(&folder, &server);
    println!("one layer of {LAYER_BYTES}: {received_bytes} of {MODEL_BYTES}");
    // The chunks at its ends, the heads of files and the entry are received, too.
    assert!(received_bytes < LAYER_BYTES as u64 + (1 << 20), "{received_bytes}");
}

#[test]
fn changed_rows_of_an_embedding_cost_the_chunks_around_them() {
    let folder = Folder::new();
    let server = published(&folder);
    publish_next(&folder, |Model(tensors)| {
        for row in [5, 3000, 3001, 8000] {
            tensors[0].2[row * ROW_BYTES..(row + 1) * ROW_BYTES].fill(0x3f);
        }
    });
    let Downloaded { received_bytes, .. } = update(&folder, &server);
    println!("four rows of {ROW_BYTES}: {received_bytes} of {MODEL_BYTES}");
    assert!(received_bytes < 1 << 20, "{received_bytes}");
}

#[test]
fn inserted_rows_do_not_change_the_chunks_after_them() {
    let folder = Folder::new();
    let server = published(&folder);
    publish_next(&folder, |Model(tensors)| {
        let (_, shape, bytes) = &mut tensors[0];
        bytes.splice(500 * ROW_BYTES..500 * ROW_BYTES, noise(5, 3 * ROW_BYTES));
        shape[0] += 3;
    });
    let Downloaded { received_bytes, .. } = update(&folder, &server);
    println!("three inserted rows of {ROW_BYTES}: {received_bytes} of {MODEL_BYTES}");
    assert!(received_bytes < 1 << 20, "{received_bytes}");
}

#[test]
fn a_change_of_all_weights_costs_all_bytes() {
    let folder = Folder::new();
    let server = published(&folder);
    publish_next(&folder, |Model(tensors)| {
        let bytes = tensors.iter_mut().flat_map(|(.., bytes)| bytes.iter_mut().step_by(4));
        bytes.for_each(|low| *low ^= 1);
    });
    let Downloaded { received_bytes, copied_bytes, .. } = update(&folder, &server);
    println!("all weights: {received_bytes} of {MODEL_BYTES}");
    assert_eq!(copied_bytes, 0);
    assert!(received_bytes > MODEL_BYTES);
}

#[test]
fn a_damaged_previous_file_is_not_copied_from() {
    let folder = Folder::new();
    let server = published(&folder);
    publish_next(&folder, |Model(tensors)| tensors[2].2[0] ^= 1);
    for file in fs::read_dir(folder.path("copy")).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().unwrap() != "model.apr" {
            let mut bytes = fs::read(&file).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&file, bytes).unwrap();
        }
    }
    let Downloaded { copied_bytes, received_bytes, .. } = update(&folder, &server);
    assert_eq!(copied_bytes, 0);
    assert!(received_bytes > MODEL_BYTES, "{received_bytes}");
}

#[test]
fn a_previous_file_that_cannot_be_read_is_not_needed() {
    let folder = Folder::new();
    let server = published(&folder);
    publish_next(&folder, |Model(tensors)| tensors[2].2[0] ^= 1);
    let current = Reader::open(folder.path("site/model.apr")).unwrap();
    let is_current = |path: &Path| current.files().any(|(name, _)| Path::new(name).file_name() == path.file_name());
    let copied = fs::read_dir(folder.path("copy")).unwrap().map(|file| file.unwrap().path());
    let replaced: Vec<_> = copied.filter(|path| !path.ends_with("model.apr") && !is_current(path)).collect();
    assert!(!replaced.is_empty());
    for file in replaced {
        fs::remove_file(&file).unwrap();
        fs::create_dir(file).unwrap();
    }
    let Downloaded { copied_bytes, received_bytes, .. } = update(&folder, &server);
    assert_eq!(copied_bytes, 0);
    assert!(received_bytes > LAYER_BYTES as u64, "{received_bytes}");
}

#[test]
fn a_download_can_be_interrupted_while_no_bytes_arrive() {
    struct Cancelled;
    impl Progress for Cancelled {
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let folder = Folder::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // connections are accepted, and nothing is sent
    let url = format!("http://{}/model.apr", silent.local_addr().unwrap());
    let error = download_from(
        HttpSource::new(&url, &[]).unwrap(),
        &folder.path("copy"),
        &DownloadOptions::default(),
        &Cancelled,
    )
    .unwrap_err();
    assert!(error.to_string().contains("the download was interrupted"), "{error}");
}

#[test]
fn a_second_run_downloads_only_what_is_missing() {
    let folder = Folder::new();
    let server = published(&folder);
    let url = format!("{}/model.apr", server.url());
    let again = succeed(&folder, &["download", &url, "copy"]);
    assert!(again.contains("existed"), "{again}");
    assert!(update(&folder, &server).received_bytes < 64 << 10);
}

#[test]
fn refuses_what_is_not_a_model() {
    let folder = Folder::new();
    Model::new().write(&folder, "one.safetensors");
    folder.write("page.safetensors", b"<html>");
    folder.write("other.json", b"{}");
    let server = Server::new().mount("/", folder.path(".")).bind("127.0.0.1:0").unwrap().spawn();
    for name in ["page.safetensors", "other.json"] {
        let message = fail(&folder, &["download", &format!("{}/{name}", server.url()), "copy"]);
        assert!(message.contains("error[UNSUPPORTED]") && message.contains(name), "{message}");
        assert!(!folder.path("copy").exists());
    }
    let message = fail(&folder, &["download", "one.safetensors", "copy"]);
    assert!(message.contains("this is not a URL"), "{message}");
}
