//! `weightstream download`: downloads a published model, or updates a folder to another revision.

use super::convert::watch_signals;
use super::model::{self, HttpArguments};
use super::progress::Bar;
use super::terminal::inform;
use super::{Failure, count};
use indicatif::DecimalBytes;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weightstream::{Error, ErrorKind};
use weightstream_publish::object::ObjectSource;
use weightstream_publish::{DownloadOptions, Downloaded, download_from};

/// Downloads a model that `publish` has published, or updates a folder to another revision of it.
///
/// If the folder has an earlier revision, downloads only the files that changed, and of these only the parts that the
/// entry does not list as parts of earlier files. Every file is compared with its SHA-256. The entry is written last.
/// Files of earlier revisions are not deleted. A second run downloads only what is missing. Only files of models are
/// written, and only in FOLDER; none of them is hidden or can be executed.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 after Ctrl-C or another \
                        signal.")]
pub(super) struct Arguments {
    /// The URL of the entry: http, https, s3, gs, az, or hf: for a file of the Hugging Face Hub.
    #[arg(value_name = "URL")]
    entry: OsString,
    /// Where to write the entry and the files. It is created if it does not exist.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    http: HttpArguments,
    /// Replace files in FOLDER that no earlier revision lists.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { entry, folder, http, force } = arguments;
    let options = DownloadOptions::default().with_replace_foreign(*force);
    let Some(url) = model::url(entry) else {
        let error = Error::new(ErrorKind::InvalidArgument, "this is not a URL").in_file(&entry.to_string_lossy());
        return Err(error.advise("`download` takes the URL of an entry.").into());
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
    let Downloaded { entry, file_count, existing_files, byte_length, received_bytes, copied_bytes, .. } =
        match downloaded {
            Err(_) if interrupted.load(Ordering::Relaxed) => {
                return Err(Failure::Interrupted("complete files remain; run it again to continue"));
            }
            downloaded => downloaded?,
        };
    let existing = match existing_files {
        0 => String::new(),
        existing => format!(", {existing} existed"),
    };
    let copied = match copied_bytes {
        0 => String::new(),
        copied => format!(", {} copied from the previous revision", DecimalBytes(copied)),
    };
    let (files, total, received) = (count(file_count, "file"), DecimalBytes(byte_length), DecimalBytes(received_bytes));
    inform(&format!("{}: {files}, {total}; {received} received{copied}{existing}", entry.display()))?;
    Ok(())
}
