//! `weightstream publish`: converts a model, and uploads it for clients on the web; or checks the server of one.

mod check;

use super::conversion::ConversionArguments;
use super::convert::watch_signals;
use super::model::{HttpArguments, ModelArguments};
use super::progress::Bar;
use super::terminal::inform;
use super::{Failure, count, one_line, warn};
use indicatif::DecimalBytes;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::internals::format::{Format, apr};
use weightstream::internals::write::format_of_name;
use weightstream::{Error, Result};
use weightstream_publish::check::Server;
use weightstream_publish::{PublishOptions, Published, Share, smallest_format};

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
    /// The model: as for `convert`.
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
    /// Replace files at DEST that an earlier run has not written.
    #[arg(long)]
    force: bool,
    /// Publish nothing, but check the server of the file of tensors or the manifest at this URL.
    #[arg(long, value_name = "URL", conflicts_with_all = ["input", "part", "merge", "from", "put_headers", "force"])]
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
    let Arguments { input, destination, http, conversion, part, merge, from, put_headers, force, .. } = arguments;
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
    report(&published)
}

/// The format of an entry at a path or a URL, or of the entry that a local folder has from an earlier run.
fn format_of_place(place: &str) -> Option<&'static Format> {
    let path = place.split(['?', '#']).next().unwrap_or(place);
    let entry = ["model.apr", "model.zt.index.json"].into_iter().find(|entry| Path::new(place).join(entry).is_file());
    format_of_name(Path::new(path)).or_else(|| format_of_name(Path::new(entry?)))
}

fn report(published: &Published) -> Result<(), Failure> {
    let Published { entry, files, file_count, sent_files, sent_bytes, .. } = published;
    let bytes: u64 = files.iter().map(|(_, byte_length)| byte_length).sum();
    let (what, total) = match entry {
        Some(entry) => (one_line(entry), count(*file_count, "file")),
        None => ("part".to_owned(), format!("{} of {file_count}", count(files.len(), "file"))),
    };
    let existed = match files.len() - sent_files {
        0 => String::new(),
        existed => format!(", {existed} existed"),
    };
    let sent = format!("{} sent ({})", count(*sent_files, "file"), DecimalBytes(*sent_bytes));
    inform(&format!("{what}: {total}, {}; {sent}{existed}", DecimalBytes(bytes)))?;
    let uncompressed = published.uncompressed_bytes;
    if entry.is_some() && bytes < uncompressed {
        let (ratio, saved) = (bytes as f64 / uncompressed as f64, DecimalBytes(uncompressed - bytes));
        inform(&format!("each download is {saved} smaller than without compression ({ratio:.2})"))?;
    }
    if let Some(difference) = published.difference_bytes {
        let ratio = difference as f64 / (bytes as f64).max(1.0);
        let size = DecimalBytes(difference);
        inform(&format!("clients with the previous revision download differences of {size} instead ({ratio:.2})"))?;
    }
    Ok(())
}

fn server(name: &str) -> Result<Server, String> {
    let names = Server::ALL.map(Server::name).join(", ");
    Server::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| format!("write one of {names}"))
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
