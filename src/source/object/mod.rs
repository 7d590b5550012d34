//! Objects in S3, Google Cloud Storage and Azure, and files on WebDAV servers, through the crate `object_store`.

mod address;
mod body;
mod connector;
mod credentials;
mod error;
mod store;

pub(crate) use address::{is_same_origin, key_of, split_name};
pub use body::ObjectBody;
pub(crate) use error::object_error;
pub use store::Store;
pub(crate) use store::{MultipartObjects, Uploads};

use super::{Answer, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::Identity;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An object that is read by byte ranges. Its futures require a tokio runtime with I/O and time.
#[derive(Debug, Clone)]
pub struct ObjectSource {
    store: Arc<Store>,
    path: ObjectPath,
    /// The URL of the object.
    name: String,
    /// Start of the clock of [`Source::now_ms`].
    start: Instant,
}

impl ObjectSource {
    /// The object at `url`, such as `s3://bucket/models/model.apr`. Credentials are those of [`Store::open`].
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn new(url: &str) -> Result<Self> {
        let (store, path) = Store::open(url, &[])?;
        Ok(ObjectSource::in_store(Arc::new(store), path))
    }

    pub(crate) fn in_store(store: Arc<Store>, path: ObjectPath) -> Self {
        let name = store.url_of(&path);
        ObjectSource { store, path, name, start: Instant::now() }
    }
}

impl Source for ObjectSource {
    type Body = ObjectBody;

    fn name(&self) -> &str {
        &self.name
    }

    fn file_name(&self) -> Option<String> {
        self.path.filename().map(str::to_owned)
    }

    async fn read(&self, range: Range<u64>) -> Result<Answer<ObjectBody>> {
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
        let got = self.store.objects().get_opts(&self.path, options).await.map_err(object_error)?;
        if got.range.start != range.start || got.range.end > range.end {
            let what = format!("the store sent bytes {} to {} of the object", got.range.start, got.range.end);
            return Err(Error::new(ErrorKind::RangeUnsupported, what).at(range));
        }
        let (end, length) = (got.range.end, got.meta.size);
        // Stores have strong ETags; that of a WebDAV server may be weak.
        let etag = got.meta.e_tag.clone().filter(|etag| !etag.starts_with("W/"));
        let last_modified = Some(got.meta.last_modified.to_rfc2822());
        let mut answer = Answer::new(range.start, ObjectBody::new(got));
        answer.end = Some(end);
        answer.file_length = Some(length);
        answer.identity = Identity { length: Some(length), etag, last_modified };
        Ok(answer)
    }

    fn part(&self, path: &str) -> Result<Self> {
        let folder = self.path.parent().unwrap_or_default();
        let path = key_of(&folder, path)?;
        Ok(ObjectSource { name: self.store.url_of(&path), path, ..self.clone() })
    }

    async fn pause(&self, delay_ms: u64) {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn random(&self) -> f64 {
        RandomState::new().hash_one(0) as f64 / u64::MAX as f64
    }
}
