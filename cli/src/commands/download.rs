//! `weightstream download`: downloads a model, or updates a folder to another revision of a published one.

use super::convert::watch_signals;
use super::model::{self, HttpArguments};
use super::progress::Bar;
use super::terminal::inform;
use super::{Failure, count, one_line, warn};
use indicatif::DecimalBytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::internals::finder;
use weightstream::{Error, ErrorKind};
use weightstream_publish::object::ObjectSource;
use weightstream_publish::{DownloadOptions, Downloaded, download_from};

/// Downloads a model: of the Hugging Face Hub, of any URL with all its files, or one that `publish` has published.
///
/// Every file is compared with the digest that the hub, the manifest or the entry states; a warning names files without
/// one. A second run downloads only what is missing, and continues the file at which the first one was interrupted. Of
/// `hf:owner/name`, it also downloads the configuration and the tokenizer.
///
/// If the folder has an earlier revision of a published model, downloads only the files that changed, and of these only
/// the parts that the entry does not list as parts of earlier files. Files of earlier revisions are not deleted. The
/// manifest or the entry is written last. Only files of models are written, and only in FOLDER; none of them is hidden
/// or can be executed.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C or another \
                        signal.")]
pub(super) struct Arguments {
    /// The URL of an entry, a manifest or a file of tensors (http, https, s3, gs, az), or `hf:owner/name@revision/path`
    /// for a file of the Hugging Face Hub, where `hf:owner/name` is the only model of a repository. The hub's token is
    /// taken from the environment variable HF_TOKEN, and its URL from HF_ENDPOINT.
    #[arg(value_name = "URL")]
    entry: OsString,
    /// Where to write the files. It is created if it does not exist.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    http: HttpArguments,
    /// Replace files in FOLDER that differ and that no earlier revision lists.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { entry, folder, http, force } = arguments;
    let options = DownloadOptions::default().with_replace_foreign(*force);
    let Some(url) = model::url(entry) else {
        let error = Error::new(ErrorKind::InvalidArgument, "this is not a URL").in_file(&entry.to_string_lossy());
        return Err(error.advise("`download` takes the URL of a model, or `hf:owner/name`.").into());
    };
    let headers = http.headers_for(&[entry])?;
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_signals(&interrupted).map_err(Error::from)?;
    let bar = Bar::cancelled_by("downloading", Arc::clone(&interrupted));
    let downloaded = match model::is_object(url) {
        true => ObjectSource::new(url).and_then(|source| download_from(source, folder, &options, &bar)),
        false => http.source(url, &headers).and_then(|source| download_from(source, folder, &options, &bar)),
    };
    drop(bar);
    let downloaded = match downloaded {
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            return Err(Failure::Interrupted("what was received remains; run it again to continue"));
        }
        downloaded => downloaded?,
    };
    if !downloaded.unverified_files.is_empty() {
        let files = finder::list(&downloaded.unverified_files);
        warn(&format!("not compared, because no digest is stated: {files}"));
    }
    report(&downloaded)
}

fn report(downloaded: &Downloaded) -> Result<(), Failure> {
    let Downloaded { entry, file_count, existing_files, byte_length, received_bytes, .. } = downloaded;
    let existing = match existing_files {
        0 => String::new(),
        existing => format!(", {existing} existed"),
    };
    let copied = match downloaded.copied_bytes {
        0 => String::new(),
        copied => format!(", {} copied from the previous revision", DecimalBytes(copied)),
    };
    let continued = match downloaded.continued_bytes {
        0 => String::new(),
        continued => format!(", {} received before", DecimalBytes(continued)),
    };
    let (files, total) = (count(*file_count, "file"), DecimalBytes(*byte_length));
    let (entry, received) = (one_line(&entry.display().to_string()), DecimalBytes(*received_bytes));
    inform(&format!("{entry}: {files}, {total}; {received} received{continued}{copied}{existing}"))?;
    Ok(())
}
