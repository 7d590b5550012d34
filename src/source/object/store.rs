//! Opens the store of a URL, with the credentials that its users know.

use super::connector::Connector;
use super::credentials::aws_profile;
use super::error::object_error;
use crate::error::{Error, ErrorKind, Result};
use crate::source::http::checked_headers;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreScheme};
use reqwest::Url;
use std::path::Path;
use std::sync::Arc;

/// A bucket, a container, a WebDAV server or a folder.
#[derive(Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    uploads: Uploads,
    /// Whether the store keeps headers such as `Cache-Control` with an object.
    keeps_headers: bool,
    /// What precedes the path of an object in its URL, or in its path on disk.
    base: String,
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
        let refuse = |what: &str| Error::new(ErrorKind::InvalidArgument, what).in_file(url);
        let parsed = Url::parse(url).map_err(|_| refuse("this is not a URL"))?;
        if parsed.query().is_some() || parsed.fragment().is_some() {
            let error = refuse("the URL has a query or a fragment, and each file of a model needs a URL of its own");
            return Err(error.advise("Remove it; credentials can be sent as a header."));
        }
        if parsed.password().is_some() {
            // Error messages contain the URL, so it must not contain secrets.
            let error = Error::new(ErrorKind::InvalidArgument, "the URL contains a password");
            return Err(error.advise("Remove it from the URL and send it as a header."));
        }
        let known = "It must begin with s3://, gs://, az://, https:// or http://.";
        let (scheme, path) =
            ObjectStoreScheme::parse(&parsed).map_err(|_| refuse("this URL is not of a store").advise(known))?;
        if scheme != ObjectStoreScheme::Http && !headers.is_empty() {
            return Err(refuse("headers can be added only to requests of http and https URLs"));
        }
        let connector = Connector { headers: checked_headers(headers)? };
        let prefix = url.get(..url.len() - parsed.path().len()).unwrap_or(url);
        let base = format!("{}/", prefix.trim_end_matches('/'));
        let incomplete = |error| object_error(error).in_file(url);
        let store = match scheme {
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::from_env();
                let builder = aws_profile().into_iter().fold(builder, |b, (key, value)| b.with_config(key, value));
                let store = builder.with_url(url).with_http_connector(connector).build().map_err(incomplete)?;
                Store::with_parts(base, Arc::new(store))
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let store = GoogleCloudStorageBuilder::from_env().with_url(url).with_http_connector(connector);
                Store::with_parts(base, Arc::new(store.build().map_err(incomplete)?))
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let store = MicrosoftAzureBuilder::from_env().with_url(url).with_http_connector(connector);
                let objects = Arc::new(store.build().map_err(incomplete)?);
                // With `MultipartStore`, the objects would have no headers.
                Store { objects, uploads: Uploads::Parts, keeps_headers: true, base }
            }
            ObjectStoreScheme::Http => {
                let store = HttpBuilder::new().with_url(base.as_str()).with_http_connector(connector);
                let objects = Arc::new(store.build().map_err(incomplete)?);
                Store { objects, uploads: Uploads::Whole, keeps_headers: true, base }
            }
            _ => return Err(refuse("this URL is not of a store").advise(known)),
        };
        Ok((store, path))
    }

    /// Opens a folder, which must exist.
    ///
    /// # Errors
    /// `IO` if it does not exist.
    pub fn folder(path: &Path) -> Result<Store> {
        let path = path.canonicalize().map_err(|error| Error::from(error).in_file(&path.display().to_string()))?;
        let place = |error| object_error(error).in_file(&path.display().to_string());
        let objects = Arc::new(LocalFileSystem::new_with_prefix(&path).map_err(place)?);
        let base = format!("{}/", path.display().to_string().trim_end_matches('/'));
        Ok(Store { objects, uploads: Uploads::Parts, keeps_headers: false, base })
    }

    fn with_parts<T: ObjectStore + MultipartStore>(base: String, store: Arc<T>) -> Store {
        let objects = Arc::clone(&store) as _;
        Store { objects, uploads: Uploads::ContinuedParts(store), keeps_headers: true, base }
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

    /// The URL of an object, or the path of a file.
    pub(crate) fn url_of(&self, path: &ObjectPath) -> String {
        format!("{}{path}", self.base)
    }
}
