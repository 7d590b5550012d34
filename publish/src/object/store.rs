//! Opens the store of a URL, with the credentials that its users know.

use super::address::Address;
use super::connector::Connector;
use super::credentials::aws_profile;
use super::error::object_error;
use super::public_url;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weightstream::internals::http::checked_headers;
use weightstream::internals::names;
use weightstream::{Error, ErrorKind, Result};

/// A bucket, a container, a WebDAV server or a folder.
#[derive(Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    uploads: Uploads,
    /// Whether the store keeps headers such as `Cache-Control` with an object.
    keeps_headers: bool,
    base: Base,
    /// What precedes the key in the http(s) URL of an object, if it is another one, without a slash at its end.
    public_base: Option<String>,
}

/// What precedes the key of an object.
#[derive(Debug)]
enum Base {
    /// In its URL, without a slash at its end.
    Url(String),
    /// In its path on disk.
    Folder(PathBuf),
}

/// How large files are sent to a store.
#[derive(Debug)]
pub(crate) enum Uploads {
    /// With one request.
    Whole,
    /// In parts.
    Parts,
    /// In parts, of which a later run can send those that are missing.
    ContinuedParts(Arc<dyn MultipartObjects>),
    /// As files of a folder.
    Files,
}

/// A store with multipart uploads.
pub(crate) trait MultipartObjects: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> MultipartObjects for T {}

impl Store {
    /// Opens the store of `url`, and returns the path of the object:
    ///
    /// - `s3://bucket/path`, with the variables of the AWS command line (`AWS_ACCESS_KEY_ID`, `AWS_PROFILE`,
    ///   `AWS_REGION`, `AWS_ENDPOINT_URL` …), its files `~/.aws/credentials` and `~/.aws/config`, web identities, and
    ///   the roles of containers and instances;
    /// - `gs://bucket/path`, with `GOOGLE_APPLICATION_CREDENTIALS`, the login of gcloud, or the instance's account;
    /// - `az://container/path`, with `AZURE_STORAGE_ACCOUNT_NAME` and `AZURE_STORAGE_ACCOUNT_KEY`,
    ///   `AZURE_STORAGE_SAS_KEY`, `AZURE_CLIENT_ID` … or a managed identity;
    /// - `http://host/path` and `https://host/path`, written with PUT and read with GET. `headers` (name and value) are
    ///   sent with every request.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for another URL or one with a query or a password, for headers of another store, and if the
    /// store's settings are incomplete.
    pub fn open(url: &str, headers: &[(String, String)]) -> Result<(Store, ObjectPath)> {
        let Address { scheme, url, base, key } = Address::parse(url)?;
        let refuse = |what: &str| Error::new(ErrorKind::InvalidArgument, what).in_file(url.as_str());
        if scheme != ObjectStoreScheme::Http && !headers.is_empty() {
            return Err(refuse("headers can be added only to requests of http and https URLs"));
        }
        let base_url = base.to_string();
        let base = if base.path() == "/" { base_url.trim_end_matches('/') } else { &base_url }.to_owned();
        let web_server = (scheme == ObjectStoreScheme::Http).then(|| base.clone());
        let connector = Connector { headers: checked_headers(headers)?, web_server };
        let bucket = url.host_str().unwrap_or_default().to_owned();
        let has_bucket = matches!(url.scheme(), "s3" | "s3a" | "gs" | "az");
        let base = Base::Url(base);
        let incomplete = |error| object_error(error).in_file(url.as_str());
        let store = match scheme {
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::from_env();
                let builder = aws_profile().into_iter().fold(builder, |b, (key, value)| b.with_config(key, value));
                let public_base = public_url::of_s3(&builder, &bucket).filter(|_| has_bucket);
                let store =
                    builder.with_url(url.as_str()).with_http_connector(connector).build().map_err(incomplete)?;
                Store { public_base, ..Store::with_parts(base, Arc::new(store)) }
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let builder = GoogleCloudStorageBuilder::from_env();
                let public_base = public_url::of_gcs(&builder, &bucket).filter(|_| has_bucket);
                let store = builder.with_url(url.as_str()).with_http_connector(connector);
                Store { public_base, ..Store::with_parts(base, Arc::new(store.build().map_err(incomplete)?)) }
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let builder = MicrosoftAzureBuilder::from_env();
                let public_base = public_url::of_azure(&builder, &bucket).filter(|_| has_bucket);
                let store = builder.with_url(url.as_str()).with_http_connector(connector);
                let objects = Arc::new(store.build().map_err(incomplete)?);
                // With `MultipartStore`, the objects would have no headers.
                Store { objects, uploads: Uploads::Parts, keeps_headers: true, base, public_base }
            }
            ObjectStoreScheme::Http => {
                let store = HttpBuilder::new().with_url(base_url).with_http_connector(connector);
                let objects = Arc::new(store.build().map_err(incomplete)?);
                Store { objects, uploads: Uploads::Whole, keeps_headers: true, base, public_base: None }
            }
            _ => return Err(refuse("this URL is not of a store")),
        };
        Ok((store, key))
    }

    /// Opens a folder, which must exist.
    ///
    /// # Errors
    /// `IO` if it does not exist.
    pub fn folder(path: &Path) -> Result<Store> {
        let path = path.canonicalize().map_err(|error| Error::from(error).in_file(&path.display().to_string()))?;
        let place = |error| object_error(error).in_file(&path.display().to_string());
        let objects = Arc::new(LocalFileSystem::new_with_prefix(&path).map_err(place)?);
        Ok(Store {
            objects,
            uploads: Uploads::Files,
            keeps_headers: false,
            base: Base::Folder(path),
            public_base: None,
        })
    }

    fn with_parts<T: ObjectStore + MultipartStore>(base: Base, store: Arc<T>) -> Store {
        let objects = Arc::clone(&store) as _;
        Store { objects, uploads: Uploads::ContinuedParts(store), keeps_headers: true, base, public_base: None }
    }

    pub(crate) fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    pub(crate) fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    pub(crate) fn keeps_headers(&self) -> bool {
        self.keeps_headers
    }

    /// The path of an object on disk, if the store is a folder.
    pub(crate) fn path_of(&self, key: &ObjectPath) -> Option<PathBuf> {
        match &self.base {
            Base::Folder(folder) => Some(folder.join(key.as_ref())),
            Base::Url(_) => None,
        }
    }

    /// The URL of an object, with which it can be opened, or the path of a file.
    pub(crate) fn url_of(&self, key: &ObjectPath) -> String {
        match &self.base {
            Base::Url(base) => format!("{base}/{}", names::encoded(key.as_ref())),
            Base::Folder(folder) => folder.join(key.as_ref()).display().to_string(),
        }
    }
    /// The http(s) URL of an object, if it has one. Clients can read it there if the bucket is public.
    pub(crate) fn http_url_of(&self, key: &ObjectPath) -> Option<String> {
        match (&self.public_base, &self.base) {
            (Some(base), _) => Some(format!("{base}/{}", names::encoded(key.as_ref()))),
            (None, Base::Url(base)) if base.starts_with("http") => Some(self.url_of(key)),
            (None, _) => None,
        }
    }
}
