//! The model argument of commands: a path or a URL.

use super::{Failure, warn};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use weightstream::internals::hub::Hub;
use weightstream::internals::loader::{Options, SignedDigests};
pub(super) use weightstream::internals::location::is_object;
use weightstream::internals::location::is_url;
use weightstream::internals::native::{Reader, RemoteReader, Verified, read_file, read_url};
use weightstream::internals::progress::Progress;
use weightstream::internals::source::http::HttpSource;
use weightstream::internals::write::Input;
use weightstream::{Adapter, Error, ErrorKind, ModelConfig, Result};
use weightstream_publish::object::ObjectSource;

/// The arguments that select the model.
#[derive(clap::Args)]
pub(super) struct ModelArguments {
    /// A file of tensors, or a manifest with its files in the same folder; a folder with one of them, such as a
    /// repository of Hugging Face; the URL of a file (http, https, s3, gs, az), or of a folder of a store (`s3://…/`);
    /// or `hf:owner/name@revision/path` for a file of the Hugging Face Hub, where `hf:owner/name` is the only model of
    /// a repository. The hub's token is taken from the environment variable HF_TOKEN, and its URL from HF_ENDPOINT.
    #[arg(value_name = "FILE|FOLDER|URL")]
    place: OsString,
    #[command(flatten)]
    http: HttpArguments,
    /// The model's `config.json`, which states how some quantized layouts of SafeTensors are to be read (MLX, GPTQ …).
    ///
    /// By default, the file of that name beside the model is read if it is needed.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The options of URLs.
#[derive(clap::Args)]
pub(super) struct HttpArguments {
    /// A header to send only to the URL's origin, such as 'Authorization: Bearer …'. Can be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Reject redirects to other origins (scheme, host and port) than the URL's, and files of a manifest there.
    ///
    /// By default, they are followed without the headers: hubs redirect every download to the host that stores it.
    #[arg(long)]
    pub(super) same_origin: bool,
}

/// An open model.
pub(super) enum Model {
    Local(Box<Reader>),
    Remote(Box<RemoteReader>),
    Object(Box<RemoteReader<ObjectSource>>),
}

impl ModelArguments {
    pub(super) fn new(place: OsString, http: HttpArguments) -> Self {
        ModelArguments { place, http, config: None }
    }

    /// The path or URL as given.
    pub(super) fn name(&self) -> String {
        self.place.to_string_lossy().into_owned()
    }

    /// The folder, if one is given in place of a file.
    pub(super) fn folder(&self) -> Option<&Path> {
        let path = Path::new(&self.place);
        path.is_dir().then_some(path)
    }

    /// The URL or address, if the model is not on a disk.
    pub(super) fn url(&self) -> Option<&str> {
        url(&self.place)
    }

    /// The path as given.
    pub(super) fn path(&self) -> &Path {
        Path::new(&self.place)
    }

    /// Opens the model, and prints its warnings.
    pub(super) fn open(&self) -> Result<Model, Failure> {
        self.open_signed(None)
    }

    /// Like [`ModelArguments::open`]. The files of a model at a URL must be those that were signed.
    pub(super) fn open_signed(&self, signature: Option<SignedDigests>) -> Result<Model, Failure> {
        let headers = self.http.headers_for(&[&self.place])?;
        let options = Options::default().with_signature(signature).with_config(self.read_config()?);
        self.http.open(&self.place, &headers, options, Vec::new())
    }

    /// Like [`ModelArguments::open`], with adapters.
    pub(super) fn open_with(&self, adapters: Vec<Adapter>) -> Result<Model, Failure> {
        let headers = self.http.headers_for(&[&self.place])?;
        let options = Options::default().with_config(self.read_config()?);
        self.http.open(&self.place, &headers, options, adapters)
    }

    fn read_config(&self) -> Result<Option<ModelConfig>> {
        let Some(path) = &self.config else { return Ok(None) };
        let json = read_file(path, ModelConfig::MAX_BYTES)?;
        ModelConfig::from_json(&json).map(Some).map_err(|error| error.in_file(&path.display().to_string()))
    }

    /// Reads a whole small file at a URL, with the headers if it has the origin of the model.
    pub(super) fn fetch(&self, address: &str, limit: u64) -> Result<Vec<u8>, Failure> {
        let is_same = self.url().is_some_and(|own| origin(own).is_some() && origin(own) == origin(address));
        let headers = if is_same { self.http.headers_for(&[&self.place])? } else { Vec::new() };
        Ok(read_url(self.http.source(address, &headers)?, limit)?)
    }
}

impl HttpArguments {
    /// Opens several models, and prints their warnings.
    pub(super) fn open_all<const N: usize>(&self, places: [&OsString; N]) -> Result<[Model; N], Failure> {
        let headers = self.headers_for(&places)?;
        let mut models = Vec::new();
        for place in places {
            models.push(self.open(place, &headers, Options::default(), Vec::new())?);
        }
        let lost = |_| Error::new(ErrorKind::Internal, "a model was not opened");
        Ok(models.try_into().map_err(lost)?)
    }

    /// The file at an http(s) URL or an address on a hub.
    pub(super) fn source(&self, url: &str, headers: &[(String, String)]) -> Result<HttpSource> {
        let source = HttpSource::with_hub(url, headers, hub())?;
        Ok(if self.same_origin { source.same_origin_only() } else { source })
    }

    fn open(
        &self,
        place: &OsString,
        headers: &[(String, String)],
        options: Options,
        adapters: Vec<Adapter>,
    ) -> Result<Model, Failure> {
        let model = match url(place) {
            Some(url) if is_object(url) => {
                let adapters = sources(adapters, &|location| is_object(location), &ObjectSource::new)?;
                Model::Object(Box::new(RemoteReader::open_with(ObjectSource::new(url)?, adapters, options)?))
            }
            Some(url) => {
                // A secret of the model's host must not be sent to another one.
                let headers_for = |location: &str| if origin(location) == origin(url) { headers } else { &[] };
                let open = |location: &str| self.source(location, headers_for(location));
                let adapters = sources(adapters, &|location| is_url(location), &open)?;
                Model::Remote(Box::new(RemoteReader::open_with(self.source(url, headers)?, adapters, options)?))
            }
            None => Model::Local(Box::new(Reader::open_with(place, options.config.as_ref(), &adapters)?)),
        };
        for (file, warning) in model.warnings() {
            warn(&format!("{file}: {warning}"));
        }
        Ok(model)
    }

    /// Parses the headers, and checks that the options apply to these places.
    pub(super) fn headers_for(&self, places: &[&OsString]) -> Result<Vec<(String, String)>> {
        let headers = self.headers.iter().map(|header| parse_header(header)).collect::<Result<Vec<_>>>()?;
        let mut urls = places.iter().filter_map(|place| url(place));
        let first = urls.next();
        if let (false, Some(place)) = (headers.is_empty() && !self.same_origin, first.filter(|url| is_object(url))) {
            let what = "`--header` and `--same-origin` apply only to http and https URLs";
            return Err(Error::new(ErrorKind::InvalidArgument, what).in_file(place));
        }
        if let (None, Some(place), false) = (first, places.first(), headers.is_empty() && !self.same_origin) {
            let what = "`--header` and `--same-origin` apply only to URLs, but this is a file";
            return Err(Error::new(ErrorKind::InvalidArgument, what).in_file(&place.to_string_lossy()));
        }
        // A secret for one host must not be sent to the other.
        if !headers.is_empty() && urls.any(|url| origin(url) != first.and_then(origin)) {
            let error = Error::new(ErrorKind::InvalidArgument, "`--header` is given for URLs of two origins");
            return Err(error.advise("Download one of the models, and compare with the file."));
        }
        Ok(headers)
    }
}

/// The sources of adapters, which must be where the model is.
fn sources<S>(
    adapters: Vec<Adapter>,
    is_there: &dyn Fn(&str) -> bool,
    open: &dyn Fn(&str) -> Result<S>,
) -> Result<Vec<(S, Adapter)>> {
    let source = |adapter: Adapter| match adapter.location().to_str().filter(|location| is_there(location)) {
        Some(location) => Ok((open(location)?, adapter)),
        None => {
            let what = "the adapter is not where the model is: both must be files, or at URLs of the same kind";
            let error = Error::new(ErrorKind::InvalidArgument, what);
            Err(error.in_file(&adapter.location().display().to_string()).advise("Download one of them."))
        }
    };
    adapters.into_iter().map(source).collect()
}

impl Model {
    pub(super) fn input(&self) -> &dyn Input {
        match self {
            Model::Local(reader) => &**reader,
            Model::Remote(reader) => &**reader,
            Model::Object(reader) => &**reader,
        }
    }

    /// The warnings from opening the model, each with the name of the file.
    pub(super) fn warnings(&self) -> Vec<(&str, &str)> {
        match self {
            Model::Local(reader) => reader.warnings().collect(),
            Model::Remote(reader) => reader.warnings().collect(),
            Model::Object(reader) => reader.warnings().collect(),
        }
    }

    /// The files with tensors: their names, and their lengths in bytes if they are known.
    pub(super) fn files(&self) -> Vec<(&str, Option<u64>)> {
        match self {
            Model::Local(reader) => reader.files().map(|(name, length)| (name, Some(length))).collect(),
            Model::Remote(reader) => reader.files().collect(),
            Model::Object(reader) => reader.files().collect(),
        }
    }

    pub(super) fn file_count(&self) -> usize {
        match self {
            Model::Local(reader) => reader.files().len(),
            Model::Remote(reader) => reader.file_count(),
            Model::Object(reader) => reader.file_count(),
        }
    }

    pub(super) fn verify(&self, progress: &(dyn Progress + Sync)) -> Result<Verified> {
        match self {
            Model::Local(reader) => reader.verify(progress),
            Model::Remote(reader) => reader.verify(progress),
            Model::Object(reader) => reader.verify(progress),
        }
    }
}

/// The hub of addresses, as the tools of Hugging Face find it.
fn hub() -> Hub {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let hub = Hub::default();
    let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| hub.endpoint.clone());
    hub.with_endpoint(endpoint).with_token(variable("HF_TOKEN").map(|token| token.trim().to_owned()))
}

/// The place, if it is a URL or an address on a hub.
pub(super) fn url(place: &OsString) -> Option<&str> {
    place.to_str().filter(|place| is_url(place) || is_object(place))
}

/// The scheme, host and port that headers are sent to. `None` for a URL of a store, and for an invalid one.
fn origin(url: &str) -> Option<String> {
    HttpSource::with_hub(url, &[], hub()).ok().map(|source| source.origin())
}

/// Parses a header. clap is not used for it, because its errors show the value, which may be a secret token.
pub(super) fn parse_header(header: &str) -> Result<(String, String)> {
    match header.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(Error::new(ErrorKind::InvalidArgument, "a --header is not of the form 'Name: value'")),
    }
}
