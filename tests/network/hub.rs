//! Models on a hub: a mock of the Hugging Face Hub with its list of files, its redirects to signed URLs, and its errors.

use super::server::{Reply, Request, Server, answer, whole};
use super::{FILE, HttpLoader, TENSORS, assert_loads, load, options, run};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weightstream::Result;
use weightstream::hub::Hub;
use weightstream::loader::Loader;
use weightstream::progress::Progress;
use weightstream::source::http::HttpSource;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const TOKEN: &str = "hf_s3cret";

/// A hub with one repository, `owner/name`, and the storage that it redirects to.
struct MockHub {
    hub: Server,
    storage: Server,
    /// The number of times each signed URL works.
    uses: Arc<AtomicU64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Api {
    /// Lists the files with their digests.
    Full,
    /// Describes single files in response to `resolve`.
    FileInfo,
    /// Has only pointers of large files.
    Pointers,
    None,
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl MockHub {
    fn new(api: Api, files: &[(&str, &[u8])]) -> Self {
        MockHub::stating(api, files, hex)
    }

    /// `digest_of` is what the hub states.
    fn stating(api: Api, files: &[(&str, &[u8])], digest_of: fn(&[u8]) -> String) -> Self {
        let files: Arc<HashMap<String, Vec<u8>>> =
            Arc::new(files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect());
        let uses = Arc::new(AtomicU64::new(u64::MAX));
        let (stored, left, used) = (Arc::clone(&files), Arc::clone(&uses), Mutex::new(HashMap::<String, u64>::new()));
        let storage = Server::new(move |request| {
            let (path, signature) = request.path.split_once('?').unwrap();
            let mut used = used.lock().unwrap();
            let count = used.entry(signature.to_owned()).or_default();
            *count += 1;
            match stored.get(path.trim_start_matches('/')) {
                Some(_) if *count > left.load(Ordering::Relaxed) => Reply::new(403, b"expired"),
                Some(bytes) => answer(bytes, request),
                None => Reply::new(404, b""),
            }
        });
        let signed = AtomicU64::new(0);
        let (storage_url, listing) = (storage.url("/"), listing(api, &files, digest_of));
        let hub = Server::new(move |request| {
            let describe = |bytes: &[u8]| (hex(bytes), digest_of(bytes));
            match request.path.split("/resolve/").collect::<Vec<_>>().as_slice() {
                ["/api/models/owner/name/revision/main?blobs=true"] if api == Api::Full => json(&listing),
                ["/api/models/owner/gated/revision/main?blobs=true"] => {
                    Reply::new(403, b"").with("X-Error-Code", "GatedRepo")
                }
                ["/owner/name", file] => {
                    let (revision, path) = file.split_once('/').unwrap();
                    assert!(revision == COMMIT || revision == "main", "{revision}");
                    let Some(bytes) = files.get(path) else {
                        return Reply::new(404, b"").with("X-Error-Code", "EntryNotFound");
                    };
                    let wants_info = request.header("accept").is_some_and(|accept| accept.contains("xet-fileinfo"));
                    if wants_info && api == Api::FileInfo {
                        let (_, digest) = describe(bytes);
                        return json("{}")
                            .with("X-Repo-Commit", COMMIT)
                            .with("X-Linked-ETag", &format!("\"{digest}\""));
                    }
                    let number = signed.fetch_add(1, Ordering::Relaxed);
                    let reply = Reply::new(302, b"").with("Location", &format!("{storage_url}{path}?sig={number}"));
                    if api == Api::None { reply } else { reply.with("X-Repo-Commit", COMMIT) }
                }
                [path] if api == Api::Pointers && path.starts_with("/owner/name/raw/") => {
                    let bytes = files.get(path.rsplit('/').next().unwrap()).unwrap();
                    let (_, digest) = describe(bytes);
                    let text = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 1\n");
                    whole(text.as_bytes()).with("Content-Type", "text/plain; charset=utf-8")
                }
                _ if request.path.starts_with("/api/models/owner/name") => Reply::new(404, b""),
                _ => Reply::new(401, b"").with("X-Error-Code", "RepoNotFound"),
            }
        });
        MockHub { hub, storage, uses }
    }

    async fn open(&self, address: &str) -> Result<HttpLoader> {
        let hub = Hub::default().with_endpoint(self.hub.url("")).with_token(Some(TOKEN.to_owned()));
        Loader::open(HttpSource::with_hub(address, &[], hub)?, options()).await.map(HttpLoader::new)
    }

    /// How often the hub was asked where a file is.
    fn resolved(&self) -> usize {
        let is_resolve = |request: &Request| {
            let wants_file = request.header("accept").is_none_or(|accept| accept == "*/*");
            request.path.contains("/resolve/") && wants_file
        };
        self.hub.requests().iter().filter(|request| is_resolve(request)).count()
    }
}

fn listing(api: Api, files: &HashMap<String, Vec<u8>>, digest_of: fn(&[u8]) -> String) -> String {
    let file = |(path, bytes): (&String, &Vec<u8>)| {
        let length = bytes.len();
        let digest = digest_of(bytes);
        format!(r#"{{"rfilename":"{path}","size":{length},"lfs":{{"sha256":"{digest}","size":{length}}}}}"#)
    };
    let files: Vec<_> = files.iter().filter(|_| api == Api::Full).map(file).collect();
    format!(r#"{{"id":"owner/name","sha":"{COMMIT}","siblings":[{}]}}"#, files.join(","))
}

fn json(text: &str) -> Reply {
    whole(text.as_bytes()).with("Content-Type", "application/json; charset=utf-8")
}

async fn verified(loader: &HttpLoader) -> Result<Option<&'static str>> {
    loader.verify(std::rc::Rc::new(()) as std::rc::Rc<dyn Progress>).await
}

#[test]
fn a_model_is_pinned_to_a_commit_and_verified_by_the_digest_of_the_hub() {
    for api in [Api::Full, Api::FileInfo, Api::Pointers] {
        let mock = MockHub::new(api, &[("m.apr", &FILE)]);
        run(async {
            let loader = mock.open("hf:owner/name/m.apr").await.unwrap();
            let url = mock.hub.url(&format!("/owner/name/resolve/{COMMIT}/m.apr"));
            assert_eq!(loader.files().next().unwrap().0, url);
            assert_loads(load(&loader, "second").await, "second");
            assert_eq!(verified(&loader).await.unwrap(), Some("sha256"));
        });
        let requests = mock.hub.requests();
        assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer hf_s3cret")));
        assert!(mock.storage.requests().iter().all(|request| request.header("authorization").is_none()));
    }
}

#[test]
fn a_file_with_another_digest_is_refused() {
    let mock = MockHub::stating(Api::Full, &[("m.apr", &FILE)], |_| "ab".repeat(32));
    let error = run(async { verified(&mock.open("hf:owner/name/m.apr").await.unwrap()).await.unwrap_err() });
    assert_eq!(error.code(), "CHECKSUM");
    assert!(error.to_string().contains("says the hub"), "{error}");
}

#[test]
fn the_url_of_a_file_is_pinned_too() {
    let mock = MockHub::new(Api::Full, &[("m.apr", &FILE)]);
    run(async {
        let loader = mock.open(&mock.hub.url("/owner/name/resolve/main/m.apr?download=true")).await.unwrap();
        assert!(loader.files().next().unwrap().0.contains(COMMIT));
        assert_eq!(verified(&loader).await.unwrap(), Some("sha256"));
    });
}

#[test]
fn the_hub_is_asked_once_per_file_while_the_signature_is_valid() {
    let mock = MockHub::new(Api::Full, &[("m.apr", &FILE)]);
    run(async {
        let loader = mock.open("hf:owner/name/m.apr").await.unwrap();
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
        let loader = mock.open("hf:owner/name/m.apr").await.unwrap();
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
        let loader = mock.open("hf:owner/name").await.unwrap();
        assert!(loader.file_count() > 1);
        assert_eq!(verified(&loader).await.unwrap(), Some("sha256"));
    });
    assert_eq!(mock.resolved(), files.len());
}

#[test]
fn several_models_are_a_choice() {
    let mock = MockHub::new(Api::Full, &[("q4.gguf", b"x"), ("q8.gguf", b"y")]);
    let error = run(async { mock.open("hf:owner/name").await.unwrap_err() });
    assert_eq!(error.code(), "NOT_FOUND");
    assert!(error.to_string().contains("q4.gguf, q8.gguf"), "{error}");
    let error = run(async { mock.open("hf:owner/name/q5.gguf").await.unwrap_err() });
    assert!(error.to_string().contains("Did you mean \"q4.gguf\" or \"q8.gguf\"?"), "{error}");
}

#[test]
fn gated_and_missing_repositories_have_messages_of_their_own() {
    let mock = MockHub::new(Api::Full, &[]);
    let message = |address: &str| run(async { mock.open(address).await.unwrap_err().to_string() });
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
        let error = mock.open("hf:owner/name/m.apr").await.unwrap_err();
        assert_eq!(error.code(), "UNSUPPORTED", "{error}");
        assert!(error.to_string().contains("does not state the commit of \"main\""), "{error}");
        let loader = mock.open(&mock.hub.url("/owner/name/resolve/main/m.apr")).await.unwrap();
        assert_loads(load(&loader, "second").await, "second");
        mock.open(&format!("hf:owner/name@{COMMIT}/m.apr")).await.unwrap();
    });
}

#[test]
fn an_exhausted_rate_limit_is_waited_for() {
    let count = AtomicU64::new(0);
    let listing = listing(Api::Full, &HashMap::new(), hex);
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
