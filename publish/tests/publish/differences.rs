//! Revisions in which every weight has changed a little: clients with the previous revision download differences.

use crate::entry::hex;
use crate::model::{Folder, noise, safetensors_file};
use crate::published::{files, options, publish};
use crate::server::Server;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use weightstream::blocking::Model;
use weightstream::internals::format::ztensor;
use weightstream::internals::native::Reader;
use weightstream::internals::write::Compression;
use weightstream::{Dtype, ErrorKind, LoadRequest, OpenOptions, StreamRequest};
use weightstream_publish::PublishOptions;

const ELEMENTS: usize = 256 << 10;

/// Weights of about 0.05, as in trained models.
fn weights() -> Vec<f32> {
    let noise = noise(3, 8 * ELEMENTS);
    let uniform = noise.chunks_exact(2).map(|pair| f32::from(u16::from_le_bytes([pair[0], pair[1]])) / 65_536.0 - 0.5);
    let uniform: Vec<_> = uniform.collect();
    uniform.chunks_exact(4).map(|four| four.iter().sum::<f32>() * 0.1).collect()
}

/// The weights, each changed by up to `relative` of its value.
fn changed(weights: &[f32], relative: f32) -> Vec<f32> {
    let noise = noise(4, 2 * weights.len());
    let change = |(weight, pair): (&f32, &[u8])| {
        weight * (1.0 + relative * (f32::from(u16::from_le_bytes([pair[0], pair[1]])) / 32_768.0 - 1.0))
    };
    weights.iter().zip(noise.chunks_exact(2)).map(change).collect()
}

/// A model of a BF16 and an F32 tensor with these weights, and one that never changes.
fn model(folder: &Folder, name: &str, weights: &[f32]) -> Reader {
    let bf16 = weights.iter().flat_map(|weight| ((weight.to_bits() + 0x8000) >> 16).to_le_bytes()[..2].to_vec());
    let f32 = weights.iter().flat_map(|weight| weight.to_le_bytes());
    let shape = [ELEMENTS as u64 / 128, 128];
    let tensors = [
        ("a.bf16", "BF16", &shape[..], bf16.collect()),
        ("b.f32", "F32", &shape, f32.collect::<Vec<u8>>()),
        ("c.fixed", "F32", &[1000], noise(9, 4000)),
    ];
    folder.write(name, &safetensors_file(json!({}), &tensors));
    folder.open(name)
}

fn smallest() -> PublishOptions {
    in_shards(2 << 20)
}

fn in_shards(max_bytes: u64) -> PublishOptions {
    let convert = options().convert.format(Some(&ztensor::FORMAT)).compression(Compression::Auto);
    options().with_convert(convert.max_shard_bytes(Some(max_bytes)))
}

/// Publishes two revisions. Returns the entry's key of the second one.
fn two_revisions(folder: &Folder, first: &[f32], second: &[f32], options: &PublishOptions) -> Value {
    let out = folder.path("out");
    let entry = publish(&model(folder, "v1.safetensors", first), &out, options).unwrap().entry.unwrap();
    let second = model(folder, "v2.safetensors", second);
    let entry = publish(&second, &out, &options.clone().with_previous(Some(entry))).unwrap().entry.unwrap();
    let model = Model::open(&entry).unwrap();
    model.verify().unwrap();
    crate::published::stated(Path::new(&entry))
}

/// A server of the published files that `serves` accepts, which it may change.
fn serve(folder: &Folder, serves: impl Fn(&str, &mut Vec<u8>) -> bool) -> Server {
    let server = Server::start();
    for (name, mut bytes) in files(&folder.path("out")) {
        if serves(&name, &mut bytes) {
            server.put(&format!("/m/{name}"), &bytes);
        }
    }
    server
}

/// Loads all tensors from such a server, with another model as the previous revision. Returns the number of bytes that
/// were sent.
fn load(folder: &Folder, previous: Option<&str>, serves: impl Fn(&str, &mut Vec<u8>) -> bool) -> u64 {
    let server = serve(folder, serves);
    let options = OpenOptions::new();
    let options = match previous {
        Some(previous) => options.previous(folder.path(previous)).unwrap(),
        None => options,
    };
    let model = options.open_blocking(server.url("/m/model.zt.index.json")).unwrap();
    let expected = folder.open("v2.safetensors");
    let mut names = Vec::new();
    for tensor in model.stream(StreamRequest::new()) {
        let tensor = tensor.unwrap();
        assert!(tensor.bytes().unwrap() == expected.tensor_slice(tensor.name()).unwrap(), "{}", tensor.name());
        names.push(tensor.name().to_owned());
    }
    names.sort();
    assert_eq!(names, ["a.bf16", "b.f32", "c.fixed"]);
    let sent_bytes = server.sent_bytes();
    let one = model.load("b.f32").unwrap();
    assert!(one.bytes().unwrap() == expected.tensor_slice("b.f32").unwrap());
    sent_bytes
}

#[test]
fn clients_with_the_previous_revision_download_what_changed() {
    let first = weights();
    let mut rows = first.clone();
    let other = changed(&first, 1.0);
    for row in (0..ELEMENTS / 128).step_by(10) {
        rows[row * 128..(row + 1) * 128].copy_from_slice(&other[row * 128..(row + 1) * 128]);
    }
    let kinds = [("1e-4", changed(&first, 1e-4), 0.5), ("1e-2", changed(&first, 1e-2), 0.72), ("rows", rows, 0.32)];
    for (name, second, at_most) in kinds {
        let folder = Folder::new();
        let stated = two_revisions(&folder, &first, &second, &smallest());
        assert!(stated["differences"]["tensors"].as_object().unwrap().len() >= 2, "{name}: {stated}");
        let full = load(&folder, None, |_, _| true);
        let changes = load(&folder, Some("v1.safetensors"), |_, _| true);
        let ratio = changes as f64 / full as f64;
        println!("{name}: {ratio:.3}");
        assert!(ratio < at_most, "{name}: {changes} of {full} bytes");
    }
}

#[test]
fn another_encoding_costs_clients_with_the_previous_revision_nothing() {
    let raw = smallest().convert.compression(Compression::None).max_shard_bytes(None);
    let small = raw.clone().compression(Compression::Auto);
    for (first, second) in [(&raw, &small), (&small, &raw)] {
        let folder = Folder::new();
        let (out, input) = (folder.path("out"), model(&folder, "v2.safetensors", &weights()));
        let first = publish(&input, &out, &smallest().with_convert(first.clone())).unwrap().entry;
        publish(&input, &out, &smallest().with_convert(second.clone()).with_previous(first)).unwrap();
        let sent = load(&folder, Some("v2.safetensors"), |_, _| true);
        assert!(sent < 200_000, "{sent} bytes: the heads of the files are 64 KiB each");
    }
}

#[test]
fn an_entry_states_the_digests_of_dense_bytes() {
    let folder = Folder::new();
    let input = model(&folder, "v1.safetensors", &weights());
    let entry = publish(&input, &folder.path("out"), &smallest()).unwrap().entry.unwrap();
    let stated = crate::published::stated(Path::new(&entry));
    for name in ["a.bf16", "b.f32"] {
        let expected = format!("sha256:{}", hex(input.tensor_slice(name).unwrap()));
        assert_eq!(stated["dense"][name], json!(expected), "{stated}");
    }
}

#[test]
fn a_missing_or_wrong_base_and_a_damaged_difference_fall_back_to_the_tensor() {
    let folder = Folder::new();
    let first = weights();
    let stated = two_revisions(&folder, &first, &changed(&first, 1e-3), &smallest());
    let name = stated["differences"]["file"].as_str().unwrap().to_owned();
    let full = load(&folder, None, |_, _| true);
    model(&folder, "wrong.safetensors", &changed(&first, 0.5));
    let with_wrong_base = load(&folder, Some("wrong.safetensors"), |_, _| true);
    // Only the tensor that never changes has its base, so that the file of differences is opened.
    assert!(with_wrong_base < full + 150_000, "other differences are not requested: {with_wrong_base} of {full}");
    let damage = |file: &str, bytes: &mut Vec<u8>| {
        if file == name {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        true
    };
    assert!(load(&folder, Some("v1.safetensors"), damage) > full);
    load(&folder, Some("v1.safetensors"), |file, _| file != name);
}

#[test]
fn what_was_prefetched_is_not_downloaded_as_a_difference_too() {
    let folder = Folder::new();
    let first = weights();
    let stated = two_revisions(&folder, &first, &changed(&first, 1e-3), &smallest());
    let name = stated["differences"]["file"].as_str().unwrap();
    let server = serve(&folder, |_, _| true);
    let options = OpenOptions::new().previous(folder.path("v1.safetensors")).unwrap();
    let model = options.open_blocking(server.url("/m/model.zt.index.json")).unwrap();
    let requested = || server.requests().iter().any(|request| request.path.contains(name));
    model.prefetch(["b.f32"]);
    model.load("b.f32").unwrap();
    assert!(!requested());
    model.load("a.bf16").unwrap();
    assert!(requested());
}

#[test]
fn a_tensor_that_does_not_become_smaller_has_no_difference() {
    let folder = Folder::new();
    let first = weights();
    let mut second = weights();
    second.reverse();
    let stated = two_revisions(&folder, &first, &second, &smallest());
    let differences = stated["differences"]["tensors"].as_object().map(|tensors| tensors.keys().collect::<Vec<_>>());
    assert!(differences.clone().is_none_or(|names| names == ["c.fixed"]), "{differences:?}");
}

/// Publishes two revisions with small changes, and serves them with another entry. Returns the server, the folder and
/// the name of the file of differences.
fn with_document(change: impl Fn(&mut Value)) -> (Folder, Server, String) {
    let folder = Folder::new();
    let first = weights();
    let stated = two_revisions(&folder, &first, &changed(&first, 1e-3), &in_shards(1 << 20));
    let server = serve(&folder, |name, bytes| {
        if name == "model.zt.index.json" {
            let mut document: Value = serde_json::from_slice(bytes).unwrap();
            change(&mut document);
            *bytes = document.to_string().into_bytes();
        }
        true
    });
    (folder, server, stated["differences"]["file"].as_str().unwrap().to_owned())
}

/// Like [`with_document`], for the key of weightstream.
fn with_entry(change: impl Fn(&mut Value)) -> (Folder, Server, String) {
    with_document(|document| change(&mut document["weightstream"]))
}

fn open_with_previous(folder: &Folder, server: &Server, options: OpenOptions) -> Model {
    let options = options.previous(folder.path("v1.safetensors")).unwrap();
    options.open_blocking(server.url("/m/model.zt.index.json")).unwrap()
}

/// The names of the tensors in the order in which they arrive. Their bytes must be those of the second revision.
fn names_of(folder: &Folder, model: &Model, request: StreamRequest) -> Vec<String> {
    let expected = folder.open("v2.safetensors");
    let tensors = model.stream(request).map(|tensor| {
        let tensor = tensor.unwrap();
        assert!(tensor.bytes().unwrap() == expected.tensor_slice(tensor.name()).unwrap(), "{}", tensor.name());
        tensor.name().to_owned()
    });
    tensors.collect()
}

#[test]
fn an_entry_that_names_itself_as_the_differences_falls_back_to_the_tensors() {
    let (folder, server, _) = with_entry(|stated| stated["differences"]["file"] = json!("model.zt.index.json"));
    let model = open_with_previous(&folder, &server, OpenOptions::new());
    let mut names = names_of(&folder, &model, StreamRequest::new());
    names.sort();
    assert_eq!(names, ["a.bf16", "b.f32", "c.fixed"]);
}

#[test]
fn an_entry_without_digests_of_tensors_still_loads_with_a_checksum() {
    let (folder, server, _) = with_entry(|stated| stated["tensors"] = json!({}));
    let model = open_with_previous(&folder, &server, OpenOptions::new());
    assert_eq!(names_of(&folder, &model, StreamRequest::new()).len(), 3);
}

#[test]
fn tensors_arrive_in_the_given_order_with_or_without_differences() {
    let (folder, server, name) = with_entry(|stated| {
        stated["differences"]["tensors"].as_object_mut().unwrap().remove("b.f32");
    });
    let model = open_with_previous(&folder, &server, OpenOptions::new());
    for order in [["c.fixed", "b.f32", "a.bf16"], ["a.bf16", "c.fixed", "b.f32"], ["b.f32", "a.bf16", "c.fixed"]] {
        assert_eq!(names_of(&folder, &model, StreamRequest::new().names(order).in_given_order()), order);
    }
    assert!(server.requests().iter().any(|request| request.path.contains(&name)));
}

#[test]
fn sums_are_converted_like_tensors() {
    let (folder, server, name) = with_entry(|_| {});
    let model = open_with_previous(&folder, &server, OpenOptions::new());
    let load = |model: &Model| model.load(LoadRequest::new("a.bf16").dtype(Dtype::F32)).unwrap();
    let converted = load(&model);
    assert!(converted.bytes().unwrap() == load(&Model::open(folder.path("v2.safetensors")).unwrap()).bytes().unwrap());
    assert!(server.requests().iter().any(|request| request.path.contains(&name)));
}

#[test]
fn progress_reports_one_total_and_reaches_it() {
    for max_memory_bytes in [1, 1 << 30] {
        let (folder, server, _) = with_entry(|_| {});
        let options = OpenOptions::new().max_memory_bytes(max_memory_bytes);
        let model = open_with_previous(&folder, &server, options);
        let reports = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&reports);
        let request = StreamRequest::new().on_progress(move |progress| {
            kept.lock().unwrap().push((progress.loaded, progress.total));
        });
        assert_eq!(names_of(&folder, &model, request).len(), 3);
        let reports = reports.lock().unwrap();
        let (_, total) = *reports.last().unwrap();
        assert!(reports.iter().all(|(bytes, of)| *of == total && Some(*bytes) <= total), "{reports:?}");
        assert_eq!(Some(reports.last().unwrap().0), total);
    }
}

#[test]
fn other_loads_go_on_while_a_stream_waits() {
    let (folder, server, _) = with_entry(|_| {});
    let model = open_with_previous(&folder, &server, OpenOptions::new());
    for tensor in model.stream(StreamRequest::new()) {
        tensor.unwrap();
        for name in ["a.bf16", "b.f32", "c.fixed"] {
            model.load(name).unwrap();
        }
    }
}

#[test]
fn a_previous_revision_without_digests_of_files_has_no_differences() {
    let folder = Folder::new();
    let (first, out) = (weights(), folder.path("out"));
    let entry = publish(&model(&folder, "v1.safetensors", &first), &out, &smallest()).unwrap().entry.unwrap();
    let mut document: Value = serde_json::from_slice(&std::fs::read(&entry).unwrap()).unwrap();
    document["weightstream"]["files"] = json!({});
    std::fs::write(&entry, document.to_string()).unwrap();
    let second = model(&folder, "v2.safetensors", &changed(&first, 1e-3));
    let published = publish(&second, &out, &smallest().with_previous(Some(entry))).unwrap();
    assert_eq!(published.difference_bytes, None);
    let entry = published.entry.unwrap();
    assert_eq!(crate::published::stated(Path::new(&entry)).get("differences"), None);
    Model::open(&entry).unwrap().verify().unwrap();
}

#[test]
fn a_damaged_previous_revision_is_a_warning() {
    let folder = Folder::new();
    let (first, out) = (weights(), folder.path("out"));
    let entry = publish(&model(&folder, "v1.safetensors", &first), &out, &smallest()).unwrap().entry.unwrap();
    let document: Value = serde_json::from_slice(&std::fs::read(&entry).unwrap()).unwrap();
    let damaged = out.join(document["weight_map"]["b.f32"].as_str().unwrap());
    let mut bytes = std::fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(damaged, bytes).unwrap();
    let second = model(&folder, "v2.safetensors", &changed(&first, 1e-3));
    let published = publish(&second, &out, &smallest().with_previous(Some(entry))).unwrap();
    assert!(published.warnings.iter().any(|warning| warning.contains("differences")), "{:?}", published.warnings);
    Model::open(published.entry.unwrap()).unwrap().verify().unwrap();
}

#[test]
fn a_file_that_is_read_completely_is_still_compared_as_a_whole() {
    let wrong = |document: &mut Value, tensor: &str| {
        let file = document["weight_map"][tensor].as_str().unwrap().to_owned();
        document["weightstream"]["files"][file]["sha256"] = json!("0".repeat(64));
    };
    let (folder, server, name) = with_document(|document| {
        document["weightstream"]["differences"]["tensors"].as_object_mut().unwrap().remove("b.f32");
        wrong(document, "b.f32");
    });
    let model = open_with_previous(&folder, &server, OpenOptions::new());
    let error = model.stream(StreamRequest::new()).find_map(Result::err).expect("a digest is wrong");
    assert_eq!(error.kind, ErrorKind::Checksum, "{error}");
    assert!(server.requests().iter().any(|request| request.path.contains(&name)));
    // Of the file with `a.bf16`, nothing is read.
    let (folder, server, _) = with_document(|document| wrong(document, "a.bf16"));
    let model = open_with_previous(&folder, &server, OpenOptions::new());
    assert_eq!(names_of(&folder, &model, StreamRequest::new()).len(), 3);
}
