//! Options for opening a model.

use crate::adapter::Adapter;
use crate::error::Result;
use crate::index::Digest;
use crate::loader;
use crate::on_progress::{OnProgress, Progress};
use crate::quantization::ModelConfig;
use crate::retry::RetryPolicy;
use crate::signature::SignedFiles;
#[cfg(remote)]
use crate::source::PartUrls;
use std::fmt;
#[cfg(remote)]
use std::rc::Rc;
use std::sync::Arc;

/// The URL of a file, from its path in the model and from the URL that it would otherwise have.
type MapPartUrl = Arc<dyn Fn(&str, &str) -> Result<Option<String>> + Send + Sync>;

/// How to open and load a model.
///
/// ```no_run
/// # #[cfg(not(target_arch = "wasm32"))]
/// # async fn example() -> weightstream::Result<()> {
/// use weightstream::OpenOptions;
///
/// let options = OpenOptions::new().header("authorization", "Bearer …").concurrency(2);
/// let model = options.open("https://example.org/model.gguf").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct OpenOptions {
    pub(super) loader: loader::Options,
    pub(super) adapters: Vec<Adapter>,
    pub(super) headers: Vec<(String, String)>,
    #[cfg_attr(not(remote), allow(dead_code, reason = "URLs are refused"))]
    pub(super) hub_endpoint: Option<String>,
    #[cfg_attr(not(remote), allow(dead_code, reason = "URLs are refused"))]
    pub(super) hub_token: Option<String>,
    #[cfg_attr(not(remote), allow(dead_code, reason = "URLs are refused"))]
    pub(super) mirrors: Vec<String>,
    pub(super) drops_query: bool,
    pub(super) part_urls: Option<MapPartUrl>,
    #[cfg(native)]
    pub(super) same_origin_only: bool,
    pub(super) on_progress: OnProgress,
    #[cfg(web)]
    pub(super) fetch: Option<js_sys::Function>,
    #[cfg(web)]
    pub(super) credentials: Option<web_sys::RequestCredentials>,
    #[cfg(workers)]
    pub(super) cache: Option<crate::web::Cache>,
    #[cfg(workers)]
    pub(super) workers: usize,
}

impl OpenOptions {
    /// The options of [`Model::open`](crate::Model::open).
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// Sends a header with requests to the origin of the opened URL, and only there: not to the targets of redirects to
    /// other origins, nor to URLs in a manifest. Can be repeated.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The access token for the model hub, which is sent only to the hub, not to the storage that it redirects to.
    #[must_use]
    pub fn hub_token(self, token: impl Into<String>) -> Self {
        OpenOptions { hub_token: Some(token.into()), ..self }
    }

    /// The URL of the model hub that addresses such as `hf:owner/name` refer to, in place of the Hugging Face Hub.
    #[must_use]
    pub fn hub_endpoint(self, url: impl Into<String>) -> Self {
        OpenOptions { hub_endpoint: Some(url.into()), ..self }
    }

    /// Adds a mirror: another URL of the opened file. The other files of the model are found relative to it. Can be
    /// repeated.
    ///
    /// A range is requested from the first address that works: the opened URL, and then the mirrors in their order. If
    /// it fails, or is late by 0.2 s and slower than half of its peers, the rest comes from another address; at most
    /// 3 % of the bytes are received twice for that. A mirror must have the length of the file, and bytes that are
    /// compared before others are used: this is a check, no proof, so give digests to a mirror that you do not trust.
    /// Headers go only to the origin of the opened URL. [`Model::mirrors`](crate::Model::mirrors) says what each
    /// address has sent, and why it is not used.
    #[must_use]
    pub fn mirror(mut self, url: impl Into<String>) -> Self {
        self.mirrors.push(url.into());
        self
    }

    /// Requests the other files of a model without the query of the opened URL. By default they have it, too, because a
    /// signature or a token of a folder is valid for all of its files.
    #[must_use]
    pub fn drop_query(self) -> Self {
        OpenOptions { drops_query: true, ..self }
    }

    /// Requests the other files of a model at the URLs that `map` returns for the path in the model, and for the URL
    /// that the file would otherwise have. A returned URL may be relative to the opened one; `None` keeps the URL.
    /// Takes precedence over [`OpenOptions::drop_query`].
    #[must_use]
    pub fn map_part_urls(self, map: impl Fn(&str, &str) -> Result<Option<String>> + Send + Sync + 'static) -> Self {
        OpenOptions { part_urls: Some(Arc::new(map)), ..self }
    }

    /// Rejects redirects to other origins (scheme, host and port) than that of the opened URL, and files of a manifest
    /// there. By default, they are followed, without the headers.
    #[must_use]
    #[cfg(native)]
    pub fn same_origin_only(self) -> Self {
        OpenOptions { same_origin_only: true, ..self }
    }

    /// Maximum number of concurrent connections of one call, at least 1; 4 by default. A call starts with one and adds
    /// more only while each addition increases the throughput.
    #[must_use]
    pub fn concurrency(mut self, connections: usize) -> Self {
        self.loader.concurrency = connections;
        self
    }

    /// When to retry after a failure.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.loader.retry = policy;
        self
    }

    /// Maximum number of bytes that one call holds of tensors that it has not returned yet; 256 MiB by default. All
    /// prefetched tensors together have one such budget. A single tensor may be larger, unless it is made dense.
    #[must_use]
    pub fn max_memory_bytes(mut self, bytes: u64) -> Self {
        self.loader.max_memory_bytes = bytes;
        self
    }

    /// What `config.json` states about quantized tensors. By default, the file beside the model is read if a tensor is
    /// ambiguous without it.
    #[must_use]
    pub fn config(mut self, config: ModelConfig) -> Self {
        self.loader.config = Some(config);
        self
    }

    /// Adds the updates of a LoRA adapter to the weights that it was trained for. Their layout is then `adapted`, and
    /// they load in their dtype, or in the one that is requested; only these tensors are read with the adapter. Can be
    /// repeated: updates are added in this order. The adapter is in a file if the model is, or at a URL; headers are
    /// sent to it only if it has the origin of the model.
    #[must_use]
    pub fn adapter(mut self, adapter: Adapter) -> Self {
        self.adapters.push(adapter);
        self
    }

    /// Whether loads verify the checksums that the model's files state; true by default.
    /// [`Model::verify`](crate::Model::verify) always does.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.loader.verify = verify;
        self
    }

    /// Compares a tensor with a digest, over its decoded bytes, whenever it is loaded as a whole. Can be repeated.
    #[must_use]
    pub fn tensor_digest(mut self, name: impl Into<String>, digest: Digest) -> Self {
        self.loader.digests.tensors.insert(name.into(), digest);
        self
    }

    /// Compares a file with a digest, over its stored bytes: a manifest when the model is opened, other files when all
    /// of their bytes are read. `name` is the file's path in the model, its name or its URL. Can be repeated.
    #[must_use]
    pub fn file_digest(mut self, name: impl Into<String>, digest: Digest) -> Self {
        self.loader.digests.files.insert(name.into(), digest);
        self
    }

    /// Compares all bytes with those that were signed, before any of them are returned: see
    /// [`signature`](crate::signature). The files of the model are those with the same names in the signed folder.
    #[must_use]
    pub fn signature(mut self, files: impl Into<Arc<SignedFiles>>) -> Self {
        let signature = self.loader.signature.take().unwrap_or_default();
        self.loader.signature = Some(signature.with_files(files.into()));
        self
    }

    /// The path of the opened file in the signed folder, if it is not its name. Those of other files are relative to
    /// it.
    #[must_use]
    pub fn signed_path(mut self, path: impl Into<String>) -> Self {
        let signature = self.loader.signature.take().unwrap_or_default();
        self.loader.signature = Some(signature.with_path(Some(path.into())));
        self
    }

    /// A model on disk that was an earlier revision of a published one: a path as for
    /// [`blocking::Model::open`](crate::blocking::Model::open), in any format. Of tensors whose difference to it is
    /// published, whole loads download that instead, and compare the result with its digest.
    ///
    /// # Errors
    /// Those of opening the model.
    #[cfg(native)]
    pub fn previous(mut self, path: impl AsRef<std::path::Path>) -> Result<Self> {
        self.loader.previous = Some(Arc::new(crate::native::Reader::open(path)?));
        Ok(self)
    }

    /// Calls `callback` with the progress of every call that reads tensors. It is called often, and on another thread.
    #[must_use]
    #[cfg(native)]
    pub fn on_progress(self, callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        OpenOptions { on_progress: OnProgress::new(callback), ..self }
    }

    /// Calls `callback` with the progress of every call that reads tensors. It is called often.
    #[must_use]
    #[cfg(web)]
    pub fn on_progress(self, callback: impl Fn(Progress) + 'static) -> Self {
        OpenOptions { on_progress: OnProgress::new(callback), ..self }
    }

    /// Whether an option is set that paths do not have. The token of the hub may be set for all models of an app.
    #[cfg(native)]
    pub(super) fn are_for_urls(&self) -> bool {
        let has_previous = self.loader.previous.is_some();
        !self.headers.is_empty()
            || !self.mirrors.is_empty()
            || self.same_origin_only
            || self.drops_query
            || self.part_urls.is_some()
            || has_previous
    }

    /// The hub of addresses.
    #[cfg(remote)]
    pub(super) fn hub(&self) -> crate::hub::Hub {
        let hub = crate::hub::Hub::default();
        let endpoint = self.hub_endpoint.clone().unwrap_or_else(|| hub.endpoint.clone());
        hub.with_endpoint(endpoint).with_token(self.hub_token.clone())
    }

    /// Which URLs the other files of the model have.
    #[cfg(remote)]
    pub(super) fn part_urls(&self) -> PartUrls {
        match &self.part_urls {
            Some(map) => {
                let map = Arc::clone(map);
                PartUrls::Map(Rc::new(move |path, url| map(path, url)))
            }
            None if self.drops_query => PartUrls::DropQuery,
            None => PartUrls::KeepQuery,
        }
    }
}

/// Options that only browsers have.
#[cfg(web)]
impl OpenOptions {
    /// Sends requests with this function in place of the global `fetch`.
    #[must_use]
    pub fn fetch(self, fetch: js_sys::Function) -> Self {
        OpenOptions { fetch: Some(fetch), ..self }
    }

    /// The credentials mode of requests to the origin of the opened URL.
    #[must_use]
    pub fn credentials(self, credentials: web_sys::RequestCredentials) -> Self {
        OpenOptions { credentials: Some(credentials), ..self }
    }

    /// Keeps the files of models that are opened by URL for the next visit. Every read from a cache is verified.
    #[must_use]
    #[cfg(feature = "web-workers")]
    pub fn cache(self, cache: crate::web::Cache) -> Self {
        OpenOptions { cache: Some(cache), ..self }
    }

    /// Decodes and verifies tensors in up to `count` workers beside the thread of the page; none by default. See
    /// [`web::default_workers`](crate::web::default_workers).
    #[must_use]
    #[cfg(feature = "web-workers")]
    pub fn workers(self, count: usize) -> Self {
        OpenOptions { workers: count, ..self }
    }
}

/// Headers and tokens are secrets, and left out.
impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("loader", &self.loader)
            .field("adapters", &self.adapters)
            .field("on_progress", &self.on_progress)
            .finish_non_exhaustive()
    }
}
