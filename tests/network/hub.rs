//! Models on a hub.

use super::server::{Reply, Server, answer};
use super::traps::hub::{Api, COMMIT, MockHub, TOKEN, hex, json, listing};
use super::{FILE, HttpLoader, TENSORS, assert_loads, load, options, run};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use weightstream::Result;
use weightstream::internals::hub::Hub;
use weightstream::internals::index::Algorithm;
use weightstream::internals::loader::Loader;
use weightstream::internals::progress::Progress;
use weightstream::internals::source::http::HttpSource;

async fn open(mock: &MockHub, address: &str) -> Result<HttpLoader> {
    let hub = Hub::default().with_endpoint(mock.hub.url("")).with_token(Some(TOKEN.to_owned()));
    Loader::open(HttpSource::with_hub(address, &[], hub)?, options()).await.map(HttpLoader::new)
}

async fn verified(loader: &HttpLoader) -> Result<Option<Algorithm>> {
    loader.verify(std::rc::Rc::new(()) as std::rc::Rc<dyn Progress>).await
}

#[test]
fn a_model_is_pinned_to_a_commit_and_verified_by_the_digest_of_the_hub() {
    for api in [Api::Full, Api::FileInfo, Api::Pointers] {
        let mock = MockHub::new(api, &[("m.apr", &FILE)]);
        run(async {
            let loader = open(&mock, "hf:owner/name/m.apr").await.unwrap();
            let url = mock.hub.url(&format!("/owner/name/resolve/{COMMIT}/m.apr"));
            assert_eq!(loader.files().next().unwrap().0, url);
            assert_loads(load(&loader, "second").await, "second");
            assert_eq!(verified(&loader).await.unwrap(), Some(Algorithm::Sha256));
        });
        let requests = mock.hub.requests();
        assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer hf_s3cret")));
        assert!(mock.storage.requests().iter().all(|request| request.header("authorization").is_none()));
    }
}

#[test]
fn a_file_with_another_digest_is_refused() {
    let mock = MockHub::stating(Api::Full, &[("m.apr", &FILE)], |_| "ab".repeat(32));
    let error = run(async { verified(&open(&mock, "hf:owner/name/m.apr").await.unwrap()).await.unwrap_err() });
    assert_eq!(error.code(), "CHECKSUM");
    assert!(error.to_string().contains("says the hub"), "{error}");
}

#[test]
fn a_renamed_repository_is_found_under_its_old_name() {
    let mock = MockHub::new(Api::Full, &[("m.apr", &FILE)]);
    run(async {
        for address in ["hf:old/name", "hf:old/name/m.apr"] {
            let loader = open(&mock, address).await.unwrap();
            assert_loads(load(&loader, "second").await, "second");
            assert_eq!(verified(&loader).await.unwrap(), Some(Algorithm::Sha256));
        }
    });
    assert!(mock.storage.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn the_url_of_a_file_is_pinned_too() {
    let mock = MockHub::new(Api::Full, &[("m.apr", &FILE)]);
    run(async {
        let loader = open(&mock, &mock.hub.url("/owner/name/resolve/main/m.apr?download=true")).await.unwrap();
        assert!(loader.files().next().unwrap().0.contains(COMMIT));
        assert_eq!(verified(&loader).await.unwrap(), Some(Algorithm::Sha256));
    });
}

#[test]
fn the_hub_is_asked_once_per_file_while_the_signature_is_valid() {
    let mock = MockHub::new(Api::Full, &[("m.apr", &FILE)]);
    run(async {
        let loader = open(&mock, "hf:owner/name/m.apr").await.unwrap();
        for (name, _) in TENSORS.iter() {
            assert_loads(load(&loader, name).await, name);
        }
    });
    assert!(mock.storage.requests().len() > 2);
    assert_eq!(mock.resolved(), 1);
}

#[test]
fn an_expired_signature_is_renewed_without_an_error() {
    let mock = MockHub::new(Api::Full, &[("m.apr", &FILE)]);
    mock.uses.store(1, Ordering::Relaxed);
    run(async {
        let loader = open(&mock, "hf:owner/name/m.apr").await.unwrap();
        for (name, _) in TENSORS.iter() {
            assert_loads(load(&loader, name).await, name);
        }
    });
    let (served, refused) = (mock.resolved(), mock.storage.requests().len() - mock.resolved());
    assert!(served > 2 && refused < served, "{served} signatures, {refused} refusals");
}

#[test]
fn a_repository_finds_its_model_with_all_parts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/safetensors/sharded");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files: Vec<_> = files
        .iter()
        .map(|path| (path.file_name().unwrap().to_str().unwrap(), std::fs::read(path).unwrap()))
        .filter(|(name, _)| !name.ends_with("expected.json"))
        .collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let mock = MockHub::new(Api::Full, &files);
    run(async {
        let loader = open(&mock, "hf:owner/name").await.unwrap();
        assert!(loader.file_count() > 1);
        assert_eq!(verified(&loader).await.unwrap(), Some(Algorithm::Sha256));
    });
    assert_eq!(mock.resolved(), files.len());
}

#[test]
fn several_models_are_a_choice() {
    let mock = MockHub::new(Api::Full, &[("q4.gguf", b"x"), ("q8.gguf", b"y")]);
    let error = run(async { open(&mock, "hf:owner/name").await.unwrap_err() });
    assert_eq!(error.code(), "NOT_FOUND");
    assert!(error.to_string().contains("q4.gguf, q8.gguf"), "{error}");
    let error = run(async { open(&mock, "hf:owner/name/q5.gguf").await.unwrap_err() });
    assert!(error.to_string().contains("Did you mean \"q4.gguf\" or \"q8.gguf\"?"), "{error}");
}

#[test]
fn gated_and_missing_repositories_have_messages_of_their_own() {
    let mock = MockHub::new(Api::Full, &[]);
    let message = |address: &str| run(async { open(&mock, address).await.unwrap_err().to_string() });
    let gated = message("hf:owner/gated");
    assert!(gated.contains("owner/gated is gated") && gated.contains("Accept its conditions at"), "{gated}");
    let missing = message("hf:owner/missing");
    assert!(missing.contains("there is no repository owner/missing") && missing.contains("HF_TOKEN"), "{missing}");
    assert!(!gated.contains(TOKEN) && !missing.contains(TOKEN));
}

#[test]
fn without_the_commit_only_urls_open() {
    let mock = MockHub::new(Api::None, &[("m.apr", &FILE)]);
    run(async {
        let error = open(&mock, "hf:owner/name/m.apr").await.unwrap_err();
        assert_eq!(error.code(), "UNSUPPORTED", "{error}");
        assert!(error.to_string().contains("does not state the commit of \"main\""), "{error}");
        let loader = open(&mock, &mock.hub.url("/owner/name/resolve/main/m.apr")).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
        open(&mock, &format!("hf:owner/name@{COMMIT}/m.apr")).await.unwrap();
    });
}

#[test]
fn an_exhausted_rate_limit_is_waited_for() {
    let count = AtomicU64::new(0);
    let listing = listing(Api::Full, &BTreeMap::new(), hex);
    let server = Server::new(move |request| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            return Reply::new(429, b"").with("RateLimit", "\"api\";r=0;t=1");
        }
        if request.path.starts_with("/api/") { json(&listing) } else { answer(&FILE, request) }
    });
    let hub = Hub::default().with_endpoint(server.url(""));
    let start = std::time::Instant::now();
    run(async {
        let source = HttpSource::with_hub("hf:owner/name/m.apr", &[], hub).unwrap();
        Loader::open(source, options()).await.unwrap();
    });
    assert!(start.elapsed().as_millis() >= 1000, "the server asked for one second");
}
