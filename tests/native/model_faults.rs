//! What `Model` and `blocking::Model` must both refuse or report.

use futures::executor::block_on;
use minicbor::Encoder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, thread};
use twox_hash::XxHash3_64;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::source::memory::MemorySource;
use weightstream::write::{ConvertOptions, convert};
use weightstream::{Error, ErrorKind, LoadRequest, Model, Result, StreamRequest, blocking};

fn safetensors(name: &str, dtype: &str, shape: &[u64], data: &[u8]) -> Vec<u8> {
    let header = json!({ name: { "dtype": dtype, "shape": shape, "data_offsets": [0, data.len()] } }).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn cbor(value: &Value, out: &mut Encoder<Vec<u8>>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| (key.len(), (*key).clone()));
            out.map(entries.len() as u64).unwrap();
            for (key, value) in entries {
                out.str(key).unwrap();
                cbor(value, out);
            }
        }
        Value::Array(items) => {
            out.array(items.len() as u64).unwrap();
            items.iter().for_each(|item| cbor(item, out));
        }
        Value::String(text) => _ = out.str(text).unwrap(),
        Value::Number(number) => _ = out.u64(number.as_u64().unwrap()).unwrap(),
        other => panic!("{other}"),
    }
}

/// A zTensor 2 file. The blobs are at 4096, 8192 …
fn zt2(blobs: &[&[u8]], objects: Value) -> Vec<u8> {
    let magic = *b"\x89ZT2\r\n\x1a\n";
    let mut file = magic.to_vec();
    for blob in blobs {
        file.resize(file.len().next_multiple_of(4096), 0);
        file.extend(*blob);
    }
    file.resize(file.len().next_multiple_of(4096), 0);
    let start = file.len() as u64;
    let mut out = Encoder::new(Vec::new());
    cbor(&json!({ "objects": objects }), &mut out);
    let manifest = out.into_writer();
    file.extend(&manifest);
    let hash = XxHash3_64::oneshot(&manifest);
    file.extend([start, manifest.len() as u64, hash, 2].map(u64::to_le_bytes).concat());
    file.extend(magic);
    file
}

fn dense(shape: &[u64], part: Value) -> Value {
    json!({ "layout": "dense", "shape": shape, "parts": { "data": part } })
}

/// The kind of a chunk, the position of its name, its content, and whether it has a digest.
type Chunk = (&'static [u8; 4], (u32, u32), Vec<u8>, bool);

/// An AERO file.
fn aero(names: &[u8], chunks: &[Chunk]) -> Vec<u8> {
    let toc_bytes = 16 + 80 * chunks.len() as u64;
    let mut offset = (96 + toc_bytes + names.len() as u64).next_multiple_of(16);
    let mut file = b"AERO\0\0\x01\0\x60\0\0\0".to_vec();
    file.extend([96, toc_bytes, 96 + toc_bytes, names.len() as u64, 0].map(u64::to_le_bytes).concat());
    file.resize(96, 7);
    file.extend((chunks.len() as u32).to_le_bytes());
    file.extend([0; 12]);
    for (kind, name, stored, has_digest) in chunks {
        let length = stored.len() as u64;
        file.extend([&kind[..], &[0; 4], &[offset, length, length].map(u64::to_le_bytes).concat()].concat());
        file.extend([name.0, name.1].map(u32::to_le_bytes).concat());
        file.extend([0; 8]);
        file.extend(if *has_digest { *blake3::hash(stored).as_bytes() } else { [0; 32] });
        offset += length;
    }
    file.extend(names);
    file.resize(file.len().next_multiple_of(16), 0);
    chunks.iter().for_each(|chunk| file.extend(&chunk.2));
    file
}

/// The index of an AERO file with one tensor of four floats and no digest.
fn aero_index() -> Vec<u8> {
    let entry = json!({ "name": "t", "dtype": 1, "shape": [4, 1], "shard_id": 0, "data_off": 0, "data_len": 16 });
    rmp_serde::to_vec_named(&json!({ "tensors": [entry] })).unwrap()
}

/// An AERO file whose only digests of the tensor are those of its pages, of 4 bytes. A byte of the tensor is damaged.
fn damaged_pages() -> Vec<u8> {
    let mut data = vec![1u8; 16];
    let mut pages = vec![0x83];
    pages.extend(b"\xaashard_name\xaeweights.shard0\xa9page_size\x04\xa7digests\x94");
    data.chunks(4).for_each(|page| pages.extend([&[0xc4, 32], &blake3::hash(page).as_bytes()[..]].concat()));
    data[5] ^= 1;
    let names = b"indexweights.shard0weights.shard0.phsh";
    let chunks =
        [(b"TIDX", (0, 5), aero_index(), true), (b"WTSH", (5, 14), data, false), (b"PHSH", (19, 19), pages, true)];
    aero(names, &chunks)
}

/// An ONNX file with a tensor `t` of `length` U8 elements at `offset` of `data.bin`.
fn onnx(offset: u64, length: u64) -> Vec<u8> {
    fn varint(mut value: u64, out: &mut Vec<u8>) {
        while value >= 128 {
            out.push(value as u8 | 128);
            value >>= 7;
        }
        out.push(value as u8);
    }
    let number = |field: u8, value: u64| {
        let mut out = vec![field << 3];
        varint(value, &mut out);
        out
    };
    let bytes = |field: u8, bytes: &[u8]| {
        let mut out = vec![field << 3 | 2];
        varint(bytes.len() as u64, &mut out);
        [out, bytes.to_vec()].concat()
    };
    let entry = |key: &str, value: &str| bytes(13, &[bytes(1, key.as_bytes()), bytes(2, value.as_bytes())].concat());
    let place =
        [entry("location", "data.bin"), entry("offset", &offset.to_string()), entry("length", &length.to_string())];
    let tensor = [number(1, length), number(2, 2), bytes(8, b"t"), place.concat(), number(14, 1)].concat();
    [number(1, 8), bytes(7, &bytes(5, &tensor))].concat()
}

/// A server with range requests.
fn serve(files: Vec<(&'static str, Vec<u8>)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let files = files.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                loop {
                    let (mut line, mut range) = (String::new(), None);
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    let path = line.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
                    loop {
                        let mut header = String::new();
                        if reader.read_line(&mut header).unwrap_or(0) == 0 {
                            return;
                        }
                        let header = header.trim().to_ascii_lowercase();
                        if header.is_empty() {
                            break;
                        }
                        if let Some((start, end)) =
                            header.strip_prefix("range: bytes=").and_then(|it| it.split_once('-'))
                        {
                            range = Some((start.parse::<u64>().unwrap(), end.parse::<u64>().ok()));
                        }
                    }
                    let body =
                        files.iter().find(|(name, _)| *name == path).map(|(_, body)| &body[..]).unwrap_or_default();
                    let length = body.len() as u64;
                    let (status, start, end) = match range {
                        Some((start, _)) if start >= length => ("416 Range Not Satisfiable", 0, 0),
                        Some((start, end)) => {
                            ("206 Partial Content", start, end.map_or(length, |it| length.min(it + 1)))
                        }
                        None => ("200 OK", 0, length),
                    };
                    let place = if end > start { format!("{start}-{}", end - 1) } else { "*".to_owned() };
                    let head = format!("HTTP/1.1 {status}\r\netag: \"x\"\r\ncontent-length: {}\r\n", end - start);
                    let head = format!("{head}content-range: bytes {place}/{length}\r\n\r\n");
                    stream.write_all(head.as_bytes()).ok();
                    stream.write_all(&body[start as usize..end as usize]).ok();
                }
            });
        }
    });
    format!("http://{address}/")
}

fn in_memory(name: &str, file: &[u8]) -> (blocking::Model, Model) {
    let files = || [(name.to_owned(), file.to_vec())];
    (blocking::Model::from_bytes(files()).unwrap(), block_on(Model::from_bytes(files())).unwrap())
}

fn kind<T>(outcome: Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error: Error| error.kind)
}

/// Rows and streams come from another model than whole tensors.
#[test]
fn a_model_of_a_folder_stays_the_same_when_another_file_is_added() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.safetensors"), safetensors("t", "F32", &[2, 1], &floats(&[1.0, 1.0]))).unwrap();
    let model = blocking::Model::open(folder.path()).unwrap();
    fs::write(folder.path().join("model.safetensors"), safetensors("t", "F32", &[2, 1], &floats(&[2.0, 2.0]))).unwrap();
    assert_eq!(*model.load("t").unwrap().as_f32().unwrap(), [1.0, 1.0]);
    match model.rows("t", 0..2) {
        Ok(rows) => assert_eq!(*rows.as_f32().unwrap(), [1.0, 1.0], "rows of another model"),
        Err(error) => assert_eq!(error.kind, ErrorKind::Changed),
    }
}

/// `blocking::Model::verify` does not compare page digests.
#[test]
fn verify_compares_the_digests_of_pages() {
    let (blocking, asynchronous) = in_memory("m.aero", &damaged_pages());
    assert_eq!(kind(blocking.load("t")), Some(ErrorKind::Checksum));
    assert_eq!(kind(block_on(asynchronous.verify())), Some(ErrorKind::Checksum));
    assert_eq!(kind(blocking.verify()), Some(ErrorKind::Checksum), "{:?}", blocking.verify());
}

/// Tied tensors of two dtypes: the rule of the second one is lost.
#[test]
fn rules_of_tied_tensors_are_checked() {
    let numbers = json!({ "dtype": "u8", "blob": [4096, 4] });
    let booleans = json!({ "dtype": "u8", "type": "bool", "blob": [4096, 4] });
    let file = zt2(&[&[0, 1, 2, 3]], json!({ "a": dense(&[4], numbers), "b": dense(&[4], booleans) }));
    let (blocking, asynchronous) = in_memory("m.zt", &file);
    assert_eq!(kind(blocking.load("b")), Some(ErrorKind::Format));
    assert_eq!(kind(blocking.verify()), Some(ErrorKind::Format));
    assert_eq!(kind(block_on(asynchronous.verify())), Some(ErrorKind::Format), "async verify");
    let streamed = blocking.stream(StreamRequest::new()).collect::<Result<Vec<_>>>();
    assert_eq!(kind(streamed), Some(ErrorKind::Format), "stream");
}

/// `blocking::Model::verify` skips components without stored bytes.
#[test]
fn verify_checks_components_without_bytes() {
    let wrong_digest = json!({ "dtype": "u8", "blob": [4096, 0], "digest": "xxh3:0000000000000001" });
    let no_frames = json!({ "dtype": "u8", "blob": [4096, 0], "encoding": "zt.zstd-seekable/1", "decoded_length": 4 });
    for (part, elements, expected) in [(wrong_digest, 0, ErrorKind::Checksum), (no_frames, 4, ErrorKind::Format)] {
        let (blocking, asynchronous) = in_memory("m.zt", &zt2(&[&[]], json!({ "a": dense(&[elements], part) })));
        assert_eq!(kind(blocking.load("a")), Some(expected));
        assert_eq!(kind(block_on(asynchronous.verify())), Some(expected));
        assert_eq!(kind(blocking.verify()), Some(expected), "{expected:?}");
    }
}

/// A checksum over other bytes of the file counts as one over all tensors.
#[test]
fn a_checksum_of_other_bytes_covers_no_tensor() {
    let chunks = [
        (b"TIDX", (0, 5), aero_index(), false),
        (b"WTSH", (5, 14), vec![1; 16], false),
        (b"XTRA", (19, 5), vec![1; 4], true),
    ];
    let (blocking, asynchronous) = in_memory("m.aero", &aero(b"indexweights.shard0other", &chunks));
    assert_eq!(blocking.load("t").unwrap().verified(), None);
    assert_eq!(blocking.verify().unwrap().tensors_without_checksum, 1);
    assert_eq!(block_on(asynchronous.verify()).unwrap().tensors_without_checksum, 1);
}

/// A stream goes on after its error, with an error that blames the library; and counts as verified.
#[test]
fn an_error_is_the_last_item_of_a_stream() {
    let (blocking, _) = in_memory("m.aero", &damaged_pages());
    let kinds: Vec<_> = blocking.stream(StreamRequest::new()).map(kind).collect();
    assert_eq!(kinds, [Some(ErrorKind::Checksum)]);
}

#[test]
fn a_failed_stream_has_verified_nothing() {
    use futures::StreamExt;
    let part = |at: u64, digested: &[u8]| {
        let digest = format!("xxh3:{:016x}", XxHash3_64::oneshot(digested));
        dense(&[4], json!({ "dtype": "u8", "blob": [at, 4], "digest": digest }))
    };
    let file = zt2(&[&[1; 4], &[2; 4]], json!({ "a": part(4096, &[1; 4]), "b": part(8192, &[3; 4]) }));
    block_on(async {
        let source = MemorySource::new(vec![("m.zt".to_owned(), file.into())]).unwrap();
        let loader = Rc::new(Loader::open(source, Options::default()).await.unwrap());
        let loads: Vec<_> = loader.tensors(None, Rc::new(())).await.unwrap().collect().await;
        assert!(loads[0].is_ok() && loads[1].is_err());
        assert_eq!(loader.verified_by(), None);
    });
}

/// The reader has a runtime of its own, also in a task of another one.
#[test]
fn a_remote_model_is_converted_in_a_task_of_tokio() {
    let url = serve(vec![("m.safetensors", safetensors("t", "F32", &[1], &floats(&[1.0])))]) + "m.safetensors";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let model = blocking::Model::open(&url).unwrap();
        model.load("t").unwrap();
        let out = folder.path().join("o.apr");
        assert_eq!(convert(&model, &out, &ConvertOptions::new()).map(drop), Ok(()));
        let again = tokio::task::spawn_blocking(move || convert(&model, out, &ConvertOptions::new()).map(drop));
        assert_eq!(again.await.unwrap(), Ok(()));
    });
}

/// It would wait for itself.
#[test]
fn a_callback_makes_no_call_that_blocks() {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let (model, _) = in_memory("m.safetensors", &safetensors("t", "F32", &[2, 1], &floats(&[1.0, 1.0])));
        let model = Arc::new(model);
        let (same, reported) = (Arc::clone(&model), sender.clone());
        let loaded = model.load(LoadRequest::new("t").on_progress(move |_| {
            reported.send(kind(same.rows("t", 0..1))).ok();
            let streamed: Vec<_> = same.stream(StreamRequest::new()).take(9).map(kind).collect();
            assert_eq!(streamed, [Some(ErrorKind::InvalidArgument)], "the error is the last item");
        }));
        sender.send(kind(loaded)).ok();
    });
    let mut outcomes = Vec::new();
    while let Ok(outcome) = ended.recv_timeout(Duration::from_secs(20)) {
        outcomes.push(outcome);
    }
    assert_eq!(outcomes.pop(), Some(None), "the load itself");
    assert!(!outcomes.is_empty() && outcomes.iter().all(|it| *it == Some(ErrorKind::InvalidArgument)), "{outcomes:?}");
}

/// Two algorithms in one tensor.
#[test]
fn both_models_say_what_verified_a_tensor() {
    use sha2::Digest;
    let (values, coords) = (floats(&[1.0, 5.0]), [1u32, 2].map(u32::to_le_bytes).concat());
    let sha256: String = sha2::Sha256::digest(&coords).iter().map(|byte| format!("{byte:02x}")).collect();
    let xxh3 = format!("xxh3:{:016x}", XxHash3_64::oneshot(&values));
    let parts = json!({
        "values": { "dtype": "f32", "blob": [4096, 8], "digest": xxh3 },
        "coords": { "dtype": "u32", "blob": [8192, 8], "digest": format!("sha256:{sha256}") },
    });
    let object = json!({ "layout": "zt.sparse_coo/1", "shape": [4], "parts": parts });
    let (blocking, asynchronous) = in_memory("m.zt", &zt2(&[&values, &coords], json!({ "a": object })));
    let (one, other) = (blocking.load("a").unwrap(), block_on(asynchronous.load("a")).unwrap());
    assert_eq!(one.verified(), other.verified());
}

/// Two values of one element, the first of which is zero.
#[test]
fn two_values_of_one_element_are_refused_in_any_order() {
    for values in [[5.0, 0.0], [0.0, 5.0]] {
        let (values, coords) = (floats(&values), [1u32, 1].map(u32::to_le_bytes).concat());
        let parts = json!({
            "values": { "dtype": "f32", "blob": [4096, 8] }, "coords": { "dtype": "u32", "blob": [8192, 8] },
        });
        let object = json!({ "layout": "zt.sparse_coo/1", "shape": [4], "parts": parts });
        let (blocking, _) = in_memory("m.zt", &zt2(&[&values, &coords], json!({ "a": object })));
        assert_eq!(kind(blocking.load(LoadRequest::new("a").dense())), Some(ErrorKind::Unsupported));
    }
}

/// Advice that names functions which `Model` does not have.
#[test]
fn the_advice_of_slices_names_calls_of_the_model() {
    let (values, coords) = (floats(&[1.0]), 1u32.to_le_bytes());
    let parts = json!({
        "values": { "dtype": "f32", "blob": [4096, 4] }, "coords": { "dtype": "u32", "blob": [8192, 4] },
    });
    let object = json!({ "layout": "zt.sparse_coo/1", "shape": [4], "parts": parts });
    let (blocking, _) = in_memory("m.zt", &zt2(&[&values, &coords], json!({ "a": object })));
    let text = blocking.tensor_slice("a").unwrap_err().to_string();
    assert!(!text.contains("load_tensor") && !text.contains("read_pieces"), "{text}");
}

/// The length is compared with that of the file before memory is allocated.
#[test]
fn a_length_beyond_the_data_file_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.onnx"), onnx(0, 1 << 46)).unwrap();
    fs::write(folder.path().join("data.bin"), vec![0x81; 20_000]).unwrap();
    let path = folder.path().join("m.onnx");
    assert_eq!(kind(blocking::Model::open(&path)), Some(ErrorKind::Truncated));
    let outcome = block_on(async { Model::open(&path).await?.load("t").await });
    assert_eq!(kind(outcome), Some(ErrorKind::Truncated));
}
