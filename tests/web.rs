//! The loader in a real browser, over Blobs and over a scripted `fetch`.
//! Run in headless Chromium by `cargo xtask test web`.

#![cfg(target_arch = "wasm32")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "web/model.rs"]
mod model;

use futures::StreamExt;
use js_sys::{Array, Function, Uint8Array};
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_test::*;
use weightstream::internals::loader::{Loaded, Loader, Options, TensorRequest};
use weightstream::internals::source::fetch::Client;
use weightstream::internals::source::js_buffer::JsBuffer;
use weightstream::internals::source::web::WebSource;
use weightstream::internals::source::{ModelSource, Source};
use weightstream::{ErrorKind, OpenOptions, Result, RetryPolicy, StreamRequest};

wasm_bindgen_test_configure!(run_in_browser);

#[wasm_bindgen(module = "/tests/web/server.js")]
extern "C" {
    type Server;
    fn server(bytes: &Uint8Array, behaviour: &str) -> Server;
    #[wasm_bindgen(method, getter)]
    fn fetch(this: &Server) -> Function;
    #[wasm_bindgen(method)]
    fn requests(this: &Server) -> u32;
    #[wasm_bindgen(method)]
    fn ranges(this: &Server) -> Array;
    #[wasm_bindgen(method)]
    fn aborted(this: &Server) -> u32;
    /// The path, the Authorization header and the credentials mode of each request.
    #[wasm_bindgen(method)]
    fn credentials(this: &Server) -> Array;
}

type WebLoader = Rc<Loader<WebSource>>;

const URL: &str = "https://models.test/folder/model.apr";

async fn open(server: &Server) -> Result<WebLoader> {
    let mut client = Client::default();
    client.fetch = Some(server.fetch());
    let source = WebSource::new(&URL.into(), Rc::new(client))?;
    let retry = RetryPolicy::default().base_delay_ms(1).stall_ms(100);
    Loader::open(source, Options::default().with_retry(retry)).await.map(Rc::new)
}

fn serve(behaviour: &str) -> Server {
    server(&Uint8Array::from(&model::file()[..]), behaviour)
}

async fn load(loader: &WebLoader, name: &str) -> Result<Vec<u8>> {
    loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await.map(|loaded| bytes(&loaded))
}

fn bytes(loaded: &Loaded<JsBuffer>) -> Vec<u8> {
    loaded.components[0].buffer.bytes().to_vec()
}

async fn check_everything(loader: &WebLoader) {
    for tensor in model::TENSORS {
        assert_eq!(load(loader, tensor.name).await.unwrap(), model::data(tensor), "{}", tensor.name);
    }
    let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
    for tensor in model::TENSORS {
        let loaded = tensors.next().await.unwrap().unwrap();
        assert_eq!(loaded.tensor.name, tensor.name);
        assert_eq!(bytes(&loaded), model::data(tensor), "{}", tensor.name);
    }
    assert!(tensors.next().await.is_none());
}

#[wasm_bindgen_test]
async fn range_requests_load_every_tensor_and_verify_the_checksum() {
    let server = serve("");
    let loader = open(&server).await.unwrap();
    assert_eq!(server.requests(), 1, "a small header needs one request");
    check_everything(&loader).await;
    assert_eq!(loader.verify(Rc::new(())).await.unwrap(), Some(weightstream::internals::index::Algorithm::Crc32));
}

#[wasm_bindgen_test]
async fn streams_that_are_not_byte_streams_give_the_same_tensors() {
    check_everything(&open(&serve("no-byte-stream")).await.unwrap()).await;
}

#[wasm_bindgen_test]
async fn response_headers_hidden_by_cors_are_not_required() {
    check_everything(&open(&serve("hides-headers")).await.unwrap()).await;
}

#[wasm_bindgen_test]
async fn a_server_that_ignores_ranges_sends_the_body_once() {
    let server = serve("ignores-ranges");
    let loader = open(&server).await.unwrap();
    let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
    for tensor in model::TENSORS {
        assert_eq!(bytes(&tensors.next().await.unwrap().unwrap()), model::data(tensor));
    }
    assert!(tensors.next().await.is_none());
    assert_eq!(server.requests(), 1);
}

#[wasm_bindgen_test]
async fn the_right_range_is_extracted_from_a_200() {
    let server = serve("ignores-ranges");
    let loader = open(&server).await.unwrap();
    for tensor in model::TENSORS.iter().rev() {
        assert_eq!(load(&loader, tensor.name).await.unwrap(), model::data(tensor));
    }
}

#[wasm_bindgen_test]
async fn a_range_with_a_content_encoding_is_replaced_by_the_whole_file() {
    let server = serve("encoded-ranges");
    let loader = open(&server).await.unwrap();
    assert_eq!(load(&loader, "raw.weight").await.unwrap(), model::data(&model::TENSORS[2]));
    assert!(server.ranges().iter().any(|range| range.is_null()));
}

#[wasm_bindgen_test]
async fn a_range_other_than_the_requested_one_is_rejected() {
    for behaviour in ["sends-another-range", "one-byte-more"] {
        let error = open(&serve(behaviour)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::RangeUnsupported, "{error}");
        assert_eq!(error.context.url.as_deref(), Some(URL));
    }
}

#[wasm_bindgen_test]
async fn a_truncated_body_is_never_returned() {
    let loader = open(&serve("cuts-bodies")).await.unwrap();
    let error = load(&loader, "raw.weight").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Truncated, "{error}");
    assert_eq!(error.context.tensor.as_deref(), Some("raw.weight"));
}

#[wasm_bindgen_test]
async fn a_broken_load_is_resumed() {
    for behaviour in ["cuts-now-and-then", "breaks-now-and-then"] {
        let server = serve(behaviour);
        check_everything(&open(&server).await.unwrap()).await;
        let starts: Vec<_> = server.ranges().iter().map(|range| range.as_string().unwrap()).collect();
        assert!(starts.len() > 5, "{behaviour}: {starts:?}");
    }
}

#[wasm_bindgen_test]
async fn a_503_is_retried() {
    let server = serve("is-busy-at-first");
    check_everything(&open(&server).await.unwrap()).await;
}

#[wasm_bindgen_test]
async fn a_stalled_connection_is_replaced() {
    let loader = open(&serve("stalls-once")).await.unwrap();
    assert_eq!(load(&loader, "raw.weight").await.unwrap(), model::data(&model::TENSORS[2]));
}

#[wasm_bindgen_test]
async fn a_file_that_changes_during_a_load_is_an_error() {
    let loader = open(&serve("changes")).await.unwrap();
    assert_eq!(load(&loader, "raw.weight").await.unwrap_err().kind, ErrorKind::Changed);
}

#[wasm_bindgen_test]
async fn http_and_network_errors_state_their_causes() {
    let error = open(&serve("forbids")).await.unwrap_err();
    assert_eq!((error.kind, error.context.status), (ErrorKind::Http, Some(403)));
    let error = open(&serve("fails")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network);
    assert!(error.to_string().contains("Failed to fetch"), "{error}");
    assert!(error.context.cause.is_some());
}

#[wasm_bindgen_test]
async fn headers_and_credentials_are_not_sent_to_absolute_urls_of_a_manifest() {
    let server = serve("");
    let mut client = Client::default();
    client.fetch = Some(server.fetch());
    client.headers = vec![("Authorization".to_owned(), "secret".to_owned())];
    client.credentials = Some(web_sys::RequestCredentials::Include);
    client.origin = "https://models.test".to_owned();
    let source = WebSource::new(&URL.into(), Rc::new(client)).unwrap();
    let same_origin = source.part_at_url("https://models.test/other/part.aero", "").unwrap();
    let beside_it = same_origin.part("beside.aero").unwrap();
    let other_origin = source.part_at_url("https://other.test/part.aero", "").unwrap();
    for source in [&source, &source.part("b.apr").unwrap(), &same_origin, &beside_it, &other_origin] {
        source.read(0..4).await.unwrap();
    }
    let expected = [
        "/folder/model.apr secret include",
        "/folder/b.apr secret include",
        "/other/part.aero undefined omit",
        "/other/beside.aero undefined omit",
        "/part.aero undefined omit",
    ];
    assert_eq!(server.credentials().iter().map(|sent| sent.as_string().unwrap()).collect::<Vec<_>>(), expected);
}

#[wasm_bindgen_test]
async fn loading_rows_requests_only_their_bytes() {
    let server = serve("");
    let loader = open(&server).await.unwrap();
    for (at, rows) in [(2, 10..12), (2, 0..200), (1, 100..101), (1, 299..300), (1, 5..5)] {
        let tensor = &model::TENSORS[at];
        let request = TensorRequest::default().with_rows(Some(rows.clone()));
        let loaded = loader.load_tensor(tensor.name, request, Rc::new(())).await.unwrap();
        let row_bytes = tensor.columns as usize * 4;
        assert_eq!(loaded.shape, [rows.end - rows.start, tensor.columns]);
        let expected = &model::data(tensor)[rows.start as usize * row_bytes..rows.end as usize * row_bytes];
        assert_eq!(bytes(&loaded), expected, "{} {rows:?}", tensor.name);
    }
    let before = loader.stats().bytes_received();
    let request = TensorRequest::default().with_rows(Some(150..152));
    loader.load_tensor("raw.weight", request, Rc::new(())).await.unwrap();
    assert_eq!(loader.stats().bytes_received() - before, 2 * 256 * 4);
}

#[wasm_bindgen_test]
async fn bytes_are_written_into_the_memory_of_the_caller() {
    let loader = open(&serve("")).await.unwrap();
    for tensor in model::TENSORS {
        let expected = model::data(tensor);
        let memory = Uint8Array::new_with_length(expected.len() as u32);
        let request = TensorRequest::default().with_into(Some(JsBuffer::borrowed(memory.clone())));
        loader.load_tensor(tensor.name, request, Rc::new(())).await.unwrap();
        assert_eq!(memory.to_vec(), expected, "the memory has other bytes");
    }
    let request = TensorRequest::default().with_into(Some(JsBuffer::borrowed(Uint8Array::new_with_length(3))));
    let error = loader.load_tensor("first", request, Rc::new(())).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[wasm_bindgen_test]
async fn concurrent_loads_of_a_tensor_share_its_request_but_not_its_memory() {
    let server = serve("");
    let loader = open(&server).await.unwrap();
    let before = server.requests();
    let (one, other) = futures::join!(
        loader.load_tensor("raw.weight", TensorRequest::default(), Rc::new(())),
        loader.load_tensor("raw.weight", TensorRequest::default(), Rc::new(())),
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(server.requests() - before, 1);
    assert_eq!(bytes(&one), bytes(&other));
    let memory = |loaded: &Loaded<JsBuffer>| JsValue::from(loaded.components[0].buffer.bytes().buffer());
    assert_ne!(memory(&one), memory(&other));
}

#[wasm_bindgen_test]
async fn prefetched_tensors_are_not_requested_again() {
    let server = serve("");
    let loader = open(&server).await.unwrap();
    loader.prefetch(vec!["raw.weight".into(), "große.weight".into(), "no such".into()], Rc::new(())).await;
    let after = server.requests();
    assert_eq!(load(&loader, "raw.weight").await.unwrap(), model::data(&model::TENSORS[2]));
    assert_eq!(load(&loader, "große.weight").await.unwrap(), model::data(&model::TENSORS[1]));
    assert_eq!(server.requests(), after);
    assert_eq!(load(&loader, "no such").await.unwrap_err().kind, ErrorKind::NotFound);
}

#[wasm_bindgen_test]
async fn dropping_a_load_aborts_its_request() {
    assert_drop_aborts_request("never-ends").await;
}

#[wasm_bindgen_test]
async fn dropping_a_load_before_the_response_aborts_its_request() {
    assert_drop_aborts_request("responds-once").await;
}

async fn assert_drop_aborts_request(behaviour: &str) {
    let server = serve(behaviour);
    let loader = open(&server).await.unwrap();
    let before = server.aborted();
    {
        let load = std::pin::pin!(load(&loader, "raw.weight"));
        let timeout = std::pin::pin!(wasm_bindgen_futures::JsFuture::from(pause(50)));
        assert!(matches!(futures::future::select(load, timeout).await, futures::future::Either::Right(_)));
    }
    assert_eq!(server.aborted(), before + 1);
}

#[wasm_bindgen_test]
async fn corruption_is_detected_when_the_whole_file_is_read() {
    let mut file = model::file();
    let at = file.len() - 200;
    file[at] ^= 1;
    let server = server(&Uint8Array::from(&file[..]), "");
    let loader = open(&server).await.unwrap();
    assert_eq!(loader.verify(Rc::new(())).await.unwrap_err().kind, ErrorKind::Checksum);
    let tensors = loader.tensors(None, Rc::new(())).await.unwrap();
    let last = tensors.collect::<Vec<_>>().await.pop().unwrap();
    assert_eq!(last.unwrap_err().kind, ErrorKind::Checksum);
}

#[wasm_bindgen_test]
async fn invalid_files_are_errors_and_not_panics() {
    let good = model::file();
    let patched = |at: usize, with: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + with.len()].copy_from_slice(with);
        bad
    };
    let cases = [
        (good[..good.len() / 2].to_vec(), ErrorKind::Truncated),
        (patched(0, b"APRX"), ErrorKind::Unsupported),
        (patched(4, &[9]), ErrorKind::Unsupported),
        (patched(16, &u32::MAX.to_le_bytes()), ErrorKind::Format),
        (Vec::new(), ErrorKind::Truncated),
    ];
    for (bad, kind) in cases {
        let blob = web_sys::Blob::new_with_u8_array_sequence(&Array::of1(&Uint8Array::from(&bad[..])).into()).unwrap();
        let source = WebSource::new(&blob, Rc::default()).unwrap();
        let error = Loader::open(source, Options::default()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[wasm_bindgen_test]
async fn a_blob_is_a_source() {
    let file = Uint8Array::from(&model::file()[..]);
    let blob = web_sys::Blob::new_with_u8_array_sequence(&Array::of1(&file).into()).unwrap();
    let source = WebSource::new(&blob, Rc::default()).unwrap();
    check_everything(&Rc::new(Loader::open(source, Options::default()).await.unwrap())).await;
}

#[wasm_bindgen_test]
async fn an_array_buffer_is_a_source() {
    let buffer = Uint8Array::from(&model::file()[..]).buffer();
    let source = WebSource::new(&buffer, Rc::default()).unwrap();
    check_everything(&Rc::new(Loader::open(source, Options::default()).await.unwrap())).await;
}

#[wasm_bindgen(inline_js = "export function pause(ms) { return new Promise(resolve => setTimeout(resolve, ms)); }")]
extern "C" {
    fn pause(delay_ms: u32) -> js_sys::Promise;
}

#[wasm_bindgen_test]
async fn a_model_has_bytes_arrays_rows_and_streams() {
    let server = serve("");
    let model = OpenOptions::new().fetch(server.fetch()).open(URL).await.unwrap();
    assert_eq!(model.tensors().len(), model::TENSORS.len());
    for tensor in model::TENSORS {
        let loaded = model.load(tensor.name).await.unwrap();
        assert_eq!(*loaded.bytes().unwrap(), model::data(tensor), "{}", tensor.name);
        assert_eq!(loaded.array().unwrap().to_vec(), model::data(tensor), "{}", tensor.name);
    }
    let name = model::TENSORS[2].name;
    let row_bytes = model::data(&model::TENSORS[2]).len() / model.tensor(name).unwrap().shape[0] as usize;
    let row = model.rows(name, 1..2).await.unwrap();
    assert_eq!(*row.bytes().unwrap(), model::data(&model::TENSORS[2])[row_bytes..2 * row_bytes]);

    let mut stream = model.stream(StreamRequest::new());
    for tensor in model::TENSORS {
        assert_eq!(stream.next().await.unwrap().unwrap().into_bytes().unwrap(), model::data(tensor));
    }
    assert!(stream.next().await.is_none());
    assert_eq!(model.verify().await.unwrap().tensors, model::TENSORS.len());
    assert!(model.stats().bytes_received() > 0);
    assert_eq!(model.load("nothing").await.unwrap_err().kind, ErrorKind::NotFound);
}
