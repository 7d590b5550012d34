//! Checks how a server or CDN answers the requests of a page of another origin, and what to change.
//!
//! [`check`] opens the model, then sends plain HTTP requests as a browser does. Sources: RFC 9110 (ranges, validators,
//! content coding), RFC 8246 (`immutable`) and the Fetch Standard (CORS, redirects).

mod caching;
mod configuration;
mod cors;
mod delivery;
mod finding;
mod options;
mod probe;
mod ranges;
mod versions;

pub use configuration::{Server, Snippet};
pub use finding::{Finding, Severity};
pub use options::CheckOptions;

use finding::Sheet;
use probe::Prober;
use reqwest::Url;
use tokio::runtime::Builder;
use weightstream::Result;
use weightstream::internals::loader::Options;
use weightstream::internals::native::RemoteReader;
use weightstream::internals::source::http::HttpSource;

/// What [`check`] found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// The URLs of the model's files: the one that was opened, and those that it names.
    pub files: Vec<String>,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
    /// The kind of server, guessed from response headers.
    pub server: Option<Server>,
}

impl Report {
    /// The most severe finding.
    pub fn severity(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
    }
}

/// Checks the server of the model at `url`. All requests are sent for the opened file and for the first file that it
/// names; the other files are only opened.
///
/// ```no_run
/// # fn main() -> weightstream::Result<()> {
/// use weightstream_publish::check::{CheckOptions, check};
///
/// let report = check("https://cdn.example/model.safetensors", &CheckOptions::default())?;
/// for finding in &report.findings {
///     println!("{} {}: {}", finding.severity.name(), finding.name, finding.seen);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `INVALID_ARGUMENT` for an invalid URL, origin or header; `NETWORK` if the server does not answer. A server that
/// answers wrongly is a finding, not an error.
pub fn check(url: &str, options: &CheckOptions) -> Result<Report> {
    let prober = Prober::new(url, options)?;
    let mut sheet = Sheet::default();
    let mut files = vec![prober.model.clone()];
    let source = HttpSource::new(url, &options.headers)?;
    let source = if options.same_origin_only { source.same_origin_only() } else { source };
    match RemoteReader::open_source(source, Options::default()) {
        Ok(reader) => {
            let parts = reader.files().filter_map(|(part, _)| Url::parse(part).ok());
            files.extend(parts.filter(|part| *part != prober.model));
            let seen = format!("tensors: {}, files: {}", reader.tensors().len(), reader.file_count());
            sheet.add(Severity::Ok, "model-opens", &prober.model, seen, "");
        }
        Err(error) => {
            let advice = "Correct this first: no loader can open the model.";
            sheet.add(Severity::Error, "model-opens", &prober.model, error.to_string(), advice);
        }
    }
    let mut server = None;
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        for file in files.iter().take(FULLY_CHECKED_FILES) {
            server = check_file(&prober, file, &mut sheet).await?.or(server);
        }
        Ok::<_, weightstream::Error>(())
    })?;
    Ok(Report { files: files.iter().map(probe::shown).collect(), findings: sheet.findings, server })
}

/// The manifest and one of its files: a server treats the others in the same way, and a model can have 1024 of them.
const FULLY_CHECKED_FILES: usize = 2;

async fn check_file(prober: &Prober, file: &Url, sheet: &mut Sheet) -> Result<Option<Server>> {
    let first = prober.range(file, "bytes=0-63").await?;
    let server = Server::guess(&first.headers);
    cors::check_access(prober, &first, sheet);
    delivery::check(prober, &first, sheet);
    if !matches!(first.status, 200 | 206) {
        let advice = "Upload the file, or correct its name or the permission to read it.";
        sheet.add(Severity::Error, "status", &first, first.status_line(), advice);
        return Ok(server);
    }
    cors::check_headers(&first, sheet);
    cors::check_preflight(prober, file, sheet).await?;
    let whole = prober.get(file, &[]).await?;
    ranges::check(prober, file, &first, &whole, sheet).await?;
    versions::check(prober, file, &first, &whole, sheet).await?;
    caching::check(prober, file, &first, &whole, sheet);
    Ok(server)
}
