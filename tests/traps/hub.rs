//! A mock of the Hugging Face Hub with its list of files, its redirects to signed URLs, and its errors.

use super::server::{Reply, Request, Server, answer, whole};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const TOKEN: &str = "hf_s3cret";

/// A hub with two repositories that have the same files, `owner/name` and `other/copy`, and the storage that it
/// redirects to. The first one was renamed from `old/name`.
pub(crate) struct MockHub {
    pub(crate) hub: Server,
    pub(crate) storage: Server,
    /// The number of times each signed URL works.
    pub(crate) uses: Arc<AtomicU64>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Api {
    /// Lists the files with their digests.
    Full,
    /// Describes single files in response to `resolve`.
    FileInfo,
    /// Has only pointers of large files.
    Pointers,
    None,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The storage that the hub redirects to. Each signed URL can be used `uses` times.
fn storage(files: Arc<BTreeMap<String, Vec<u8>>>, uses: Arc<AtomicU64>) -> Server {
    let used = Mutex::new(HashMap::<String, u64>::new());
    Server::new(move |request| {
        if request.method == "OPTIONS" {
            return readable(Reply::new(204, b""));
        }
        let (path, signature) = request.path.split_once('?').unwrap();
        let mut used = used.lock().unwrap();
        let count = used.entry(signature.to_owned()).or_default();
        *count += 1;
        readable(match files.get(path.trim_start_matches('/')) {
            // Without CORS headers, as many hosts answer.
            Some(_) if *count > uses.load(Ordering::Relaxed) => return Reply::new(403, b"expired"),
            Some(bytes) => answer(bytes, request).with("ETag", "\"v1\""),
            None => Reply::new(404, b""),
        })
    })
}

impl MockHub {
    pub(crate) fn new(api: Api, files: &[(&str, &[u8])]) -> Self {
        MockHub::stating(api, files, hex)
    }

    /// `digest_of` is what the hub states.
    pub(crate) fn stating(api: Api, files: &[(&str, &[u8])], digest_of: fn(&[u8]) -> String) -> Self {
        let files: Arc<BTreeMap<String, Vec<u8>>> =
            Arc::new(files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect());
        let uses = Arc::new(AtomicU64::new(u64::MAX));
        let storage = storage(Arc::clone(&files), Arc::clone(&uses));
        let signed = AtomicU64::new(0);
        let (storage_url, listing) = (storage.url("/"), listing(api, &files, digest_of));
        let hub = Server::new(move |request| {
            if request.method == "OPTIONS" {
                return readable(Reply::new(204, b""));
            }
            if request.path.contains("/old/name/") {
                let renamed = request.path.replacen("/old/name/", "/owner/name/", 1);
                return readable(Reply::new(307, b"").with("Location", &renamed));
            }
            readable(match split(&request.path) {
                Some(("api", "main?blobs=true")) if api == Api::Full => json(&listing),
                Some(("api", _)) => Reply::new(404, b""),
                Some(("resolve", file)) => {
                    let (revision, path) = file.split_once('/').unwrap();
                    assert!(revision == COMMIT || revision == "main", "{revision}");
                    let Some(bytes) = files.get(path.split('?').next().unwrap()) else {
                        return readable(Reply::new(404, b"").with("X-Error-Code", "EntryNotFound"));
                    };
                    let wants_info = request.header("accept").is_some_and(|accept| accept.contains("xet-fileinfo"));
                    if wants_info && api == Api::FileInfo {
                        let etag = format!("\"{}\"", digest_of(bytes));
                        return readable(json("{}").with("X-Repo-Commit", COMMIT).with("X-Linked-ETag", &etag));
                    }
                    let number = signed.fetch_add(1, Ordering::Relaxed);
                    let reply = Reply::new(302, b"").with("Location", &format!("{storage_url}{path}?sig={number}"));
                    if api == Api::None { reply } else { reply.with("X-Repo-Commit", COMMIT) }
                }
                Some(("raw", file)) if api == Api::Pointers => {
                    let digest = digest_of(files.get(file.rsplit('/').next().unwrap()).unwrap());
                    let text = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 1\n");
                    whole(text.as_bytes()).with("Content-Type", "text/plain; charset=utf-8")
                }
                _ if request.path.contains("/owner/gated/") => Reply::new(403, b"").with("X-Error-Code", "GatedRepo"),
                _ => Reply::new(401, b"").with("X-Error-Code", "RepoNotFound"),
            })
        });
        MockHub { hub, storage, uses }
    }

    /// How often the hub was asked where a file is.
    pub(crate) fn resolved(&self) -> usize {
        let is_resolve = |request: &Request| {
            let wants_file = request.header("accept").is_none_or(|accept| accept == "*/*");
            request.method == "GET" && request.path.contains("/resolve/") && wants_file
        };
        self.hub.requests().iter().filter(|request| is_resolve(request)).count()
    }
}

pub(crate) fn listing(api: Api, files: &BTreeMap<String, Vec<u8>>, digest_of: fn(&[u8]) -> String) -> String {
    let file = |(path, bytes): (&String, &Vec<u8>)| {
        let length = bytes.len();
        let digest = digest_of(bytes);
        format!(r#"{{"rfilename":"{path}","size":{length},"lfs":{{"sha256":"{digest}","size":{length}}}}}"#)
    };
    let files: Vec<_> = files.iter().filter(|_| api == Api::Full).map(file).collect();
    format!(r#"{{"id":"owner/name","sha":"{COMMIT}","siblings":[{}]}}"#, files.join(","))
}

pub(crate) fn json(text: &str) -> Reply {
    whole(text.as_bytes()).with("Content-Type", "application/json; charset=utf-8")
}

/// The kind of a request for one of the repositories, and what follows the name.
fn split(path: &str) -> Option<(&str, &str)> {
    let (api, rest) = match path.strip_prefix("/api/models/") {
        Some(rest) => (true, rest),
        None => (false, path.strip_prefix('/')?),
    };
    let rest = rest.strip_prefix("owner/name/").or_else(|| rest.strip_prefix("other/copy/"))?;
    let (kind, rest) = rest.split_once('/')?;
    Some((if api { "api" } else { kind }, rest))
}

/// Lets pages of other origins read a reply, as the hub does.
fn readable(reply: Reply) -> Reply {
    let names = "Accept-Ranges, Content-Range, ETag, Link, RateLimit, X-Error-Code, X-Error-Message, X-Linked-ETag, \
                 X-Linked-Size, X-Repo-Commit, X-Xet-Hash";
    let reply = reply.with("Access-Control-Allow-Origin", "*").with("Access-Control-Expose-Headers", names);
    reply.with("Access-Control-Allow-Headers", "Authorization, Range")
}
