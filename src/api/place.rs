//! Where a model is, and what reads it.

use super::options::OpenOptions;
use super::source_model::SourceModel;
use super::thread::Served;
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
                let what = "headers, and options of origins and of the URLs of files, apply only to URLs, not to paths";
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
                    let source = http_source(&url, &options)?;
                    Ok(Rc::new(SourceModel::open(source, options).await?) as Rc<dyn Served>)
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
    Ok(Rc::new(SourceModel::open(FileSource::open(files)?, options).await?))
}

/// The file at a URL.
#[cfg(feature = "http")]
pub(super) fn http_source(url: &str, options: &OpenOptions) -> Result<HttpSource> {
    let source = HttpSource::with_hub(url, &options.headers, options.hub())?.with_part_urls(options.part_urls());
    Ok(if options.same_origin_only { source.same_origin_only() } else { source })
}
