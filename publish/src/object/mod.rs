//! Objects in S3, Google Cloud Storage and Azure, and files on WebDAV servers, through the crate `object_store`.

mod address;
mod answer;
mod body;
mod connector;
mod credentials;
mod encoded_names;
mod error;
mod public_url;
mod store;

pub(crate) use address::{is_same_origin, key_of, split_name};
pub use body::ObjectBody;
pub(crate) use error::{is_absent, object_error, upload_error};
pub use store::Store;
pub(crate) use store::{MultipartObjects, Uploads};

use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange};
use std::ops::Range;
use std::sync::Arc;
use weightstream::internals::finder::{self, Content, Found};
use weightstream::internals::host::TokioHost;
use weightstream::internals::source::{CacheHints, Host, ModelSource, RangeResponse, Source};
use weightstream::{Error, ErrorKind, Result};

/// The number of objects that are listed. A folder with more is not that of a model.
const MAX_OBJECTS: usize = 100_000;

/// An object that is read by byte ranges. Its futures require a tokio runtime with I/O and time.
#[derive(Debug, Clone)]
pub struct ObjectSource {
    store: Arc<Store>,
    path: ObjectPath,
    /// The URL of the object.
    name: String,
    /// Start of the clock of [`Source::now_ms`].
    host: TokioHost,
    /// Whether the path is that of a folder, and the model in it is meant.
    is_folder: bool,
}

impl ObjectSource {
    /// The object at `url`, such as `s3://bucket/models/model.apr`. A URL that ends with `/` stands for the only model
    /// in this folder. Credentials are those of [`Store::open`].
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn new(url: &str) -> Result<Self> {
        let (store, path) = Store::open(url, &[])?;
        Ok(ObjectSource { is_folder: url.ends_with('/'), ..ObjectSource::in_store(Arc::new(store), path) })
    }

    pub(crate) fn in_store(store: Arc<Store>, path: ObjectPath) -> Self {
        let name = store.url_of(&path);
        ObjectSource { store, path, name, host: TokioHost::default(), is_folder: false }
    }

    /// The only model in the folder.
    async fn in_folder(self) -> Result<Self> {
        let mut objects = self.store.objects().list(Some(&self.path));
        let mut paths = Vec::new();
        while let Some(object) = objects.try_next().await.map_err(object_error)? {
            let below = object.location.prefix_match(&self.path).into_iter().flatten();
            paths.push(below.map(|segment| segment.as_ref().to_owned()).collect::<Vec<_>>().join("/"));
            if paths.len() > MAX_OBJECTS {
                let error = Error::new(ErrorKind::Limit, format!("the folder has more than {MAX_OBJECTS} objects"));
                return Err(error.advise("Specify the URL of the model's file."));
            }
        }
        drop(objects);
        let names: Vec<_> = paths.iter().map(String::as_str).collect();
        let found = finder::find(&names, &|_| Content::Unknown);
        let not_found = |what: String, advice: String| Err(Error::new(ErrorKind::NotFound, what).advise(advice));
        match &found {
            Found::One(path) => ObjectSource { is_folder: false, ..self }.part_below(path),
            Found::Several(models) => not_found(
                format!("{} models are in this folder", models.len()),
                format!("Specify the URL of one of {}.", finder::list(models)),
            ),
            Found::Part(_) | Found::Nothing => {
                let usual = || "Specify the URL of the model's file.".to_owned();
                let advice = finder::advice(&found, &names).unwrap_or_else(usual);
                not_found("no model is in this folder".to_owned(), advice)
            }
        }
    }

    /// The object at a path below this one.
    fn part_below(&self, path: &str) -> Result<Self> {
        let path = key_of(&self.path, path)?;
        Ok(ObjectSource { name: self.store.url_of(&path), path, ..self.clone() })
    }
}

impl CacheHints for ObjectSource {}

impl Source for ObjectSource {
    type Body = ObjectBody;

    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&self, range: Range<u64>) -> Result<RangeResponse<ObjectBody>> {
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
        let mut answer = RangeResponse::new(range.start, ObjectBody::new(got));
        answer.end = Some(end);
        answer.file_length = Some(length);
        answer.identity.length = Some(length);
        answer.identity.etag = etag;
        answer.identity.last_modified = last_modified;
        Ok(answer)
    }

    fn host(&self) -> &dyn Host {
        &self.host
    }
}

impl ModelSource for ObjectSource {
    fn file_name(&self) -> Option<String> {
        self.path.filename().map(str::to_owned)
    }

    async fn located(self) -> Result<Self> {
        let name = self.name.clone();
        if self.is_folder { self.in_folder().await.map_err(|error| error.in_file(&name)) } else { Ok(self) }
    }

    fn part(&self, path: &str) -> Result<Self> {
        let folder = self.path.parent().unwrap_or_default();
        ObjectSource { path: folder, ..self.clone() }.part_below(path)
    }
}
