//! `weightstream publish`: converts a model, and uploads it for clients on the web; or checks the server of one.

mod check;
mod help;
mod report;

pub(super) use help::with_own_defaults;

use super::conversion::ConversionArguments;
use super::convert::watch_signals;
use super::model::{HttpArguments, ModelArguments};
use super::progress::Bar;
use super::{Failure, warn};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::internals::format::{Format, apr};
use weightstream::internals::write::format_of_name;
use weightstream::{Error, Result};
use weightstream_publish::check::Server;
use weightstream_publish::{PublishOptions, Share, smallest_format};

/// Converts a model, and publishes it in a folder, in S3, Google Cloud Storage or Azure, or on a web server.
///
/// The model becomes files that never change, whose names contain a digest of their content, and an entry, the manifest
/// that names them. Files are sent while the next ones are converted. A second run sends only what is missing.
/// Everything is read back and compared before the entry is sent. Files that no earlier run has written are replaced
/// only with --force.
///
/// Credentials are those of the stores' own tools: variables such as AWS_ACCESS_KEY_ID, AWS_PROFILE,
/// GOOGLE_APPLICATION_CREDENTIALS and AZURE_STORAGE_ACCOUNT_KEY, the files of `aws configure`, the login of gcloud, and
/// the roles of containers and instances.
///
/// With `--check`, sends the requests of a page of another origin to the server or CDN of a published model (ranges,
/// conditions, CORS, compression, caching and redirects), and prints what to change.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 for success, 1 for an error (with --check, also of the server), 2 for wrong usage, \
                        130 after Ctrl-C or another signal."
)]
pub(super) struct Arguments {
    /// The model: a file of tensors, a manifest with its files in the same folder, a folder with one of them, such as a
    /// repository of Hugging Face, a URL of a file (http, https, s3, gs, az), or `hf:owner/name@revision/path`.
    #[arg(value_name = "FILE|FOLDER|URL", required_unless_present = "check")]
    input: Option<OsString>,
    /// A folder, or a URL such as s3://bucket/folder/, gs://…, az://… or https://… (written with PUT). If it ends with
    /// a file name such as model.apr, this is the entry. Otherwise the entry is in this folder: model.zt.index.json for
    /// a model of floats, which is published as compressed zTensor, and model.apr for other models.
    #[arg(value_name = "DEST", required_unless_present = "check")]
    destination: Option<String>,
    #[command(flatten)]
    http: HttpArguments,
    #[command(flatten)]
    conversion: ConversionArguments,
    /// Publish only the files of one of N machines, such as 3/8, which may run at the same time. Afterwards, `--merge`
    /// writes the entry. The result has the same bytes as that of one machine.
    #[arg(long, value_name = "I/N", conflicts_with = "merge", value_parser = parse_part)]
    part: Option<Share>,
    /// Write the entry of files that were published with `--part`. Requires the same input and options.
    #[arg(long)]
    merge: bool,
    /// The entry of the previous revision. If tensors are added or removed, the other files stay the same, so that
    /// they are not sent again, and clients find them in their caches. Of changed files, the entry lists what they have
    /// in common with the previous ones in the same folder, so that clients fetch only the other parts.
    #[arg(long, value_name = "ENTRY")]
    from: Option<String>,
    /// A header to send with every request to an http(s) DEST, and to no other origin. Can be repeated.
    #[arg(long = "put-header", value_name = "NAME: VALUE")]
    put_headers: Vec<String>,
    /// The URL of the entry's folder for clients, such as that of a CDN. It is used only in the printed lines that open
    /// the model. By default, it is that of DEST, or that of the bucket in its store.
    #[arg(long, value_name = "URL", value_parser = parse_public_url)]
    public_url: Option<String>,
    /// Replace files at DEST that an earlier run has not written.
    #[arg(long)]
    force: bool,
    /// Publish nothing, but check the server of the file of tensors or the manifest at this URL.
    #[arg(long, value_name = "URL", conflicts_with_all = ["input", "part", "merge", "from", "put_headers", "force"])]
    #[arg(conflicts_with = "public_url")]
    check: Option<String>,
    /// The origin of the page that loads the model; by default https://app.example.
    #[arg(long, value_name = "ORIGIN", requires = "check")]
    origin: Option<String>,
    /// The server whose configuration to print, if something should change. By default, it is recognized by its
    /// response headers; if they do not tell, the configurations of all are printed.
    #[arg(long, value_name = "SERVER", requires = "check", value_parser = server)]
    server: Option<Server>,
    /// Print all findings and the configuration as JSON.
    #[arg(long, requires = "check")]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    if let Some(url) = &arguments.check {
        return check::run(url, &arguments);
    }
    let Arguments { input, destination, http, conversion, part, merge, from, put_headers, public_url, force, .. } =
        arguments;
    let (input, destination) = (ModelArguments::new(input.unwrap_or_default(), http), destination.unwrap_or_default());
    let model = input.open()?;
    let chosen = conversion.format().or_else(|| format_of_place(&destination));
    let chosen = chosen.or_else(|| from.as_deref().and_then(format_of_place));
    let format = chosen.unwrap_or_else(|| match conversion.needs_apr() {
        true => &apr::FORMAT,
        false => smallest_format(model.input(), conversion.dtype().as_ref()),
    });
    let options = PublishOptions::default()
        .with_convert(conversion.options_to_publish(&input, format)?)
        .with_share(part.unwrap_or(if merge { Share::Merge } else { Share::All }))
        .with_previous(from)
        .with_replace_foreign(force)
        .with_headers(put_headers.iter().map(|header| super::model::parse_header(header)).collect::<Result<_>>()?);
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_signals(&interrupted).map_err(Error::from)?;
    let bar = Bar::cancelled_by("publishing", Arc::clone(&interrupted));
    let published = weightstream_publish::publish_with(model.input(), &destination, &options, &bar);
    drop(bar);
    let published = match published {
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            return Err(Failure::Interrupted("the files that were sent remain; run it again to continue"));
        }
        published => published?,
    };
    for warning in &published.warnings {
        warn(warning);
    }
    report::report(&published, public_url.as_deref())
}

/// The format of an entry at a path or a URL, or of the entry that a local folder has from an earlier run.
fn format_of_place(place: &str) -> Option<&'static Format> {
    let path = place.split(['?', '#']).next().unwrap_or(place);
    let entry = ["model.apr", "model.zt.index.json"].into_iter().find(|entry| Path::new(place).join(entry).is_file());
    format_of_name(Path::new(path)).or_else(|| format_of_name(Path::new(entry?)))
}

fn server(name: &str) -> Result<Server, String> {
    let names = Server::ALL.map(Server::name).join(", ");
    Server::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| format!("write one of {names}"))
}

fn parse_public_url(url: &str) -> Result<String, String> {
    let is_http = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
    if is_http {
        Ok(url.to_owned())
    } else {
        Err("write an http or https URL, such as https://cdn.example/m/".to_owned())
    }
}

fn parse_part(text: &str) -> Result<Share, String> {
    let invalid = || format!("`{text}` is not a part like 3/8");
    let (number, count) = text.split_once('/').ok_or_else(invalid)?;
    let (number, count) = (number.parse().map_err(|_| invalid())?, count.parse().map_err(|_| invalid())?);
    Share::part(number, count).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_number_of_a_count() {
        assert!(matches!(parse_part("3/8"), Ok(Share::Part { number: 3, count: 8, .. })));
        assert!(parse_part("0/8").is_err() && parse_part("9/8").is_err() && parse_part("3").is_err());
    }
}
