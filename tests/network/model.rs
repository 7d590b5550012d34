//! `Model` at URLs, asynchronous and blocking, without a runtime of the caller.

use super::bytes::{noise, safetensors};
use super::run;
use super::server::{Reply, Server, answer};
use futures::executor::block_on;
use futures::future::{self, Either};
use std::pin::pin;
use std::sync::LazyLock;
use std::time::Duration;
use weightstream::write::{ConvertOptions, convert};
use weightstream::{Adapter, ErrorKind, Model, OpenOptions, RetryPolicy, StreamRequest, blocking};

const LENGTH: usize = 4_000_000;

static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    safetensors(None, &[("a", "U8", &[LENGTH as u64], noise(1, LENGTH)), ("b", "U8", &[4, 2], noise(2, 8))])
});

fn serve() -> Server {
    Server::new(|request| answer(&FILE, request))
}

#[test]
fn both_models_load_from_urls_under_any_executor() {
    let server = serve();
    let model = block_on(Model::open(server.url("/m.safetensors"))).unwrap();
    assert_eq!(*block_on(model.load("a")).unwrap().bytes().unwrap(), noise(1, LENGTH));
    let on_tokio = run(async { Model::open(server.url("/m.safetensors")).await.unwrap().rows("b", 1..3).await });
    assert_eq!(*on_tokio.unwrap().bytes().unwrap(), noise(2, 8)[2..6]);
    let blocking = blocking::Model::open(server.url("/m.safetensors")).unwrap();
    assert_eq!(*blocking.load("b").unwrap().bytes().unwrap(), noise(2, 8));
    assert_eq!(blocking.stream(StreamRequest::new()).map(Result::unwrap).count(), 2);
    assert_eq!(blocking.verify().unwrap(), block_on(model.verify()).unwrap());
    assert_eq!(blocking.tensor_slice("b").unwrap_err().kind, ErrorKind::Unsupported);
    // It blocks the task of an executor, but works.
    assert!(block_on(async { blocking.load("b").is_ok() }) && run(async { blocking.load("b").is_ok() }));
}

#[test]
fn options_reach_the_requests() {
    let server = Server::new(|request| match request.header("x-key") {
        Some("secret") => answer(&FILE, request),
        _ => Reply::new(403, b""),
    });
    let url = server.url("/m.safetensors");
    let error = blocking::Model::open(&url).unwrap_err();
    assert_eq!((error.kind, error.code()), (ErrorKind::Http, "HTTP"));
    let options = OpenOptions::new().header("x-key", "secret").concurrency(1);
    assert!(!format!("{options:?}").contains("secret"));
    let model = options.clone().open_blocking(&url).unwrap();
    assert_eq!(*model.load("b").unwrap().bytes().unwrap(), noise(2, 8));
    assert!(block_on(options.open(&url)).is_ok());
}

#[test]
fn errors_of_the_network_are_those_of_the_loader() {
    let options = OpenOptions::new().retry(RetryPolicy::default().max_attempts(0));
    let error = options.open_blocking("http://127.0.0.1:1/m.safetensors").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network);
    assert_eq!(blocking::Model::open("https://user:pass@host/m").unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[test]
fn dropping_a_future_or_the_model_stops_the_requests() {
    let server = Server::new(|request| match request.number {
        1 => answer(&FILE, request),
        _ => answer(&FILE, request).slowly(1),
    });
    let stopped = || {
        std::thread::sleep(Duration::from_millis(100));
        let sent = server.sent();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(server.sent(), sent, "the server is still sending");
    };
    let model = block_on(Model::open(server.url("/m.safetensors"))).unwrap();
    let begun = |before: usize| {
        while server.sent() < before + 100_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for _ in 0..2 {
        let before = server.sent();
        let load = pin!(model.load("a"));
        assert!(matches!(block_on(future::select(load, pin!(async { begun(before) }))), Either::Right(_)));
    }
    stopped();
    let before = server.sent();
    let stream = model.stream(StreamRequest::new());
    drop(model);
    begun(before);
    drop(stream);
    stopped();
    assert!(server.sent() < 3 * LENGTH);
}

#[test]
fn a_model_at_a_url_is_converted() {
    let server = serve();
    let folder = tempfile::tempdir().unwrap();
    let model = blocking::Model::open(server.url("/m.safetensors")).unwrap();
    convert(&model, folder.path().join("m.apr"), &ConvertOptions::new()).unwrap();
    let converted = blocking::Model::open(folder.path().join("m.apr")).unwrap();
    assert_eq!(converted.load("a").unwrap().into_bytes().unwrap(), noise(1, LENGTH));
}

#[test]
fn adapters_at_urls_are_in_loads_and_conversions_and_get_no_headers_of_another_origin() {
    let fixtures = |name: &str| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/adapters/peft");
        std::fs::read(folder.join(name)).unwrap()
    };
    let serve = |key: Option<&'static str>| {
        let names = ["model.safetensors", "adapter_model.safetensors", "adapter_config.json"];
        let files = names.map(|name| (format!("/{name}"), fixtures(name)));
        Server::new(move |request| match files.iter().find(|(path, _)| *path == request.path) {
            Some((_, file)) if request.header("x-key") == key => answer(file, request),
            _ => Reply::new(403, b""),
        })
    };
    let (models, adapters) = (serve(Some("secret")), serve(None));
    let open = |adapters: &Server| {
        let adapter = Adapter::new(adapters.url("/adapter_model.safetensors"));
        OpenOptions::new().header("x-key", "secret").adapter(adapter).open_blocking(models.url("/model.safetensors"))
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("merged.safetensors");
    for adapters in [&models, &adapters] {
        let model = open(adapters).unwrap();
        convert(&model, &out, &ConvertOptions::default().keep_existing(false)).unwrap();
        let merged = blocking::Model::open(&out).unwrap();
        for tensor in merged.tensors() {
            let [written, loaded] = [&merged, &model].map(|model| model.load(tensor.name.as_str()).unwrap());
            assert!(*written.bytes().unwrap() == *loaded.bytes().unwrap(), "{}", tensor.name);
        }
        assert_eq!(model.tensor("layers.0.q.weight").unwrap().layout.name(), "adapted");
    }
}
