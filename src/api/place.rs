//! Where a model is, and what reads it.

use super::options::OpenOptions;
use super::source_model::SourceModel;
use super::thread::Served;
use crate::adapter::Adapter;
use crate::error::{Error, ErrorKind, Result};
use crate::location::{is_object, is_url};
use crate::native::{FileSource, ModelFiles};
#[cfg(feature = "http")]
use crate::source::http::HttpSource;
use futures::future::{FutureExt, LocalBoxFuture};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Where a model is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Path(PathBuf),
    Url(String),
}

impl Place {
    /// The place of a location.
    ///
    /// # Errors
    /// `UNSUPPORTED` for URLs of object stores, and for all URLs without the feature `http`; `INVALID_ARGUMENT` for a
    /// path with options of URLs.
    pub(super) fn of(location: &Path, options: &OpenOptions) -> Result<Self> {
        match location.to_str() {
            Some(url) if is_object(url) => {
                let what = "the library does not open URLs of object stores";
                let error = Error::new(ErrorKind::Unsupported, what).in_file(url);
                Err(error.advise("Open the https URL of the object, or use the command `weightstream`."))
            }
            Some(url) if is_url(url) && !cfg!(feature = "http") => {
                let error = Error::new(ErrorKind::Unsupported, "compiled without the feature `http`").in_file(url);
                Err(error.advise("Add it: cargo add weightstream --features http"))
            }
            Some(url) if is_url(url) => Ok(Place::Url(url.to_owned())),
            _ if options.are_for_urls() => {
                let what = "headers, mirrors, and options of origins and of the URLs of files, apply only to URLs, \
                            not to paths";
                Err(Error::new(ErrorKind::InvalidArgument, what).in_file(&location.display().to_string()))
            }
            _ => Ok(Place::Path(location.to_owned())),
        }
    }

    /// Opens the model on the thread that calls this.
    pub(super) fn open(self, options: OpenOptions) -> LocalBoxFuture<'static, Result<Rc<dyn Served>>> {
        async move {
            match self {
                Place::Path(path) => open_files(ModelFiles::Disk(path), options).await,
                #[cfg(feature = "http")]
                Place::Url(url) => {
                    let source = model_source(&url, &options)?;
                    let adapters = adapters_at_urls(&url, &options)?;
                    let model = SourceModel::open_with_adapters(source, adapters, options).await?;
                    Ok(Rc::new(model) as Rc<dyn Served>)
                }
                #[cfg(not(feature = "http"))]
                Place::Url(url) => Err(Error::new(ErrorKind::Internal, "URLs cannot be opened").in_file(&url)),
            }
        }
        .boxed_local()
    }
}

/// Opens the model in files on disk or in memory.
pub(super) async fn open_files(files: ModelFiles, options: OpenOptions) -> Result<Rc<dyn Served>> {
    let adapters = adapters(&options, |location| match location.to_str().filter(|text| is_url(text)) {
        Some(url) => {
            let error = Error::new(ErrorKind::InvalidArgument, "the adapter is at a URL, but the model is in a file");
            Err(error.in_file(url).advise("Download the adapter."))
        }
        None => FileSource::open(ModelFiles::Disk(location.to_owned())),
    })?;
    Ok(Rc::new(SourceModel::open_with_adapters(FileSource::open(files)?, adapters, options).await?))
}

/// The sources of the adapters.
fn adapters<S>(options: &OpenOptions, open: impl Fn(&Path) -> Result<S>) -> Result<Vec<(S, Adapter)>> {
    options.adapters.iter().map(|adapter| Ok((open(adapter.location())?, adapter.clone()))).collect()
}

/// The sources of the adapters of a model at a URL.
#[cfg(feature = "http")]
pub(super) fn adapters_at_urls(model: &str, options: &OpenOptions) -> Result<Vec<(HttpSource, Adapter)>> {
    adapters(options, |location| adapter_source(location, model, options))
}

/// The adapter at a URL. It gets the headers only if it has the origin of the model.
#[cfg(feature = "http")]
fn adapter_source(location: &Path, model: &str, options: &OpenOptions) -> Result<HttpSource> {
    let Some(url) = location.to_str().filter(|text| is_url(text) && !is_object(text)) else {
        let error = Error::new(ErrorKind::InvalidArgument, "the model is at a URL, but the adapter is not");
        return Err(error.in_file(&location.display().to_string()).advise("Download the model."));
    };
    let without_headers = OpenOptions { headers: Vec::new(), ..options.clone() };
    let is_same = options.headers.is_empty()
        || http_source(url, &without_headers)?.origin() == http_source(model, &without_headers)?.origin();
    http_source(url, if is_same { options } else { &without_headers })
}

/// The model at a URL, and at its mirrors.
#[cfg(feature = "http")]
pub(super) fn model_source(url: &str, options: &OpenOptions) -> Result<HttpSource> {
    let source = http_source(url, options)?;
    if options.mirrors.is_empty() { Ok(source) } else { source.with_mirrors(&options.mirrors) }
}

/// The file at a URL.
#[cfg(feature = "http")]
pub(super) fn http_source(url: &str, options: &OpenOptions) -> Result<HttpSource> {
    let source = HttpSource::with_hub(url, &options.headers, options.hub())?.with_part_urls(options.part_urls());
    Ok(if options.same_origin_only { source.same_origin_only() } else { source })
}
