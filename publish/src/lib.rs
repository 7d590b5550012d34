//! Publishes models: converts one into files that never change, whose names contain a digest of their content, and a
//! small manifest, the entry, which is the only file that changes when a new revision is published.
//!
//! ```text
//! input ──▶ file of tensors (temporary) ──▶ digests ──▶ upload ──▶ record
//!                                                                     │
//!             every file of the plan has a record ──▶ read back ──▶ entry
//! ```
//!
//! The division into files depends only on the input's index and the options. Therefore several machines can each
//! publish some of the files ([`Share`]), and an interrupted run is continued: the record of a file, a small JSON file
//! at the destination, states its name and digests, and a file that exists is neither converted nor sent again.

#![warn(clippy::too_many_lines)]
#![deny(missing_docs, unsafe_code)]
#![deny(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]

pub mod check;
mod copies;
mod destination;
mod differences;
mod division;
mod download;
mod entry;
mod files;
mod inspect;
pub mod object;
mod options;
mod owned;
mod previous;
mod read_back;
mod record;
mod smallest;
mod source_digest;
mod upload;

#[doc(hidden)]
pub use destination::is_publishable;
pub use download::{DownloadOptions, Downloaded, download, download_from};
pub use options::{PublishOptions, Share};
#[doc(hidden)]
pub use smallest::smallest_format;

use destination::Destination;
use entry::Document;
use files::FileWriter;
use owned::Owned;
use previous::Previous;
use record::FileRecord;
use serde_json::Value;
use source_digest::Digesting;
use std::path::Path;
use weightstream::internals::index::Tensor;
use weightstream::internals::output::{FinishedFile, Naming, PartialFile, ShardFile};
use weightstream::internals::progress::Progress;
use weightstream::internals::publication::{COPIES, DIFFERENCES};
use weightstream::internals::write::{AsInput, Conversion, Extent, Input, Plan};
use weightstream::{Error, ErrorKind, Result};

/// The result of [`publish`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The URL or path to open the model with; `None` as long as the entry is not written, because only a share of the
    /// files was published.
    pub entry: Option<String>,
    /// The http(s) URL of the entry, if the destination has one and the entry is written. That of a bucket is the URL
    /// of its store, where clients can read it if the bucket is public.
    pub url: Option<String>,
    /// The URLs or paths of the files of tensors that this call was responsible for, in order, with their lengths in
    /// bytes.
    pub files: Vec<(String, u64)>,
    /// The number of files of the model.
    pub file_count: usize,
    /// The number of bytes of all tensors of the model, without compression.
    pub uncompressed_bytes: u64,
    /// The number of bytes of the differences to the previous revision; `None` if no tensor has a difference that is
    /// much smaller than itself.
    pub difference_bytes: Option<u64>,
    /// The number of these files that were sent; the others existed.
    pub sent_files: usize,
    /// The number of bytes of files of tensors that were sent.
    pub sent_bytes: u64,
    /// Warnings about the conversion and the destination.
    pub warnings: Vec<String>,
}

/// Publishes the model at `destination`: a folder, or a URL of [`Store::open`](object::Store::open). If its last
/// segment has the extension of a format, it is the entry; otherwise, the entry is `model.apr` in this folder.
///
/// Files are converted one after the other into the folder for temporary files, and sent while the next ones are
/// converted; at most four of them exist at a time. Before the entry is written, whatever
/// [`Model::verify`](weightstream::blocking::Model::verify) compares of the model is compared; if it is damaged, the
/// files that were sent are deleted. Then every file is read back and compared with its digest. The entry is written
/// last, so that a call that fails leaves the previous revision in place.
///
/// Only files that an earlier call has written are replaced, unless [`PublishOptions::replace_foreign`] is set. In a
/// folder, files are written as by [`convert`](weightstream::write::convert).
///
/// # Errors
/// Those of [`convert`](weightstream::write::convert) and of the store; `INVALID_ARGUMENT` if the format has
/// no manifest, if records belong to another input, or if a file at the destination belongs to others or to the input;
/// `NOT_FOUND` if records are missing; `CHECKSUM` if the input is damaged, or a file is read back with other bytes.
///
/// ```no_run
/// use weightstream::blocking::Model;
/// use weightstream_publish::{PublishOptions, publish};
///
/// # fn main() -> weightstream::Result<()> {
/// let model = Model::open("model.safetensors")?;
/// let published = publish(&model, "s3://bucket/model.apr", &PublishOptions::default())?;
/// println!("{} of {} files sent", published.sent_files, published.file_count);
/// # Ok(())
/// # }
/// ```
pub fn publish(model: &impl AsInput, destination: &str, options: &PublishOptions) -> Result<Published> {
    let progress = options.convert.meter();
    let mut published = None;
    model.with_input(&mut |input| {
        published = Some(publish_with(input, destination, options, &progress)?);
        Ok(())
    })?;
    published.ok_or_else(|| Error::new(ErrorKind::Internal, "the model was not read"))
}

/// Like [`publish`], from any input.
///
/// # Errors
/// Those of [`publish`]; `IO` if `progress` cancels.
#[doc(hidden)]
pub fn publish_with(
    input: &dyn Input,
    destination: &str,
    options: &PublishOptions,
    progress: &(dyn Progress + Sync),
) -> Result<Published> {
    let mut options = options.clone();
    let place = destination;
    let checked = input.begin()?;
    let input = checked.as_deref().unwrap_or(input);
    let mut destination = Destination::open(place, &mut options)?;
    let mut conversion = Conversion::prepare(input, Path::new(&destination.entry), &options.convert, None)?;
    destination.name_entry(&*conversion.target);
    let owned = Owned::read(&destination, input, options.foreign())?;
    let out = Path::new(&destination.entry);
    let mut warnings = std::mem::take(&mut conversion.warnings);
    let previous = options.previous.as_deref().map(|previous| Previous::read(previous, place, &options)).transpose()?;
    let files = division::divide(&mut conversion, options.convert.max_shard_bytes, previous.as_ref(), &mut warnings)?;
    for range in &files {
        conversion.target.arrange(conversion.tensors.get_mut(range.clone()).unwrap_or_default());
    }
    let plan = Plan::new(&*conversion.target, out, files, &conversion.tensors)?;
    let fingerprint = record::fingerprint(&options.convert, input, &plan);

    // One machine reads the input once. Several may read different versions, which only their bytes show if no server
    // states a version.
    let needs_digest = fingerprint.input.is_none() && options.share != Share::All;
    let digesting = needs_digest.then(|| Digesting::new(input));

    let mut writer = FileWriter::new(&destination, input, digesting.as_ref(), &plan, fingerprint, owned)?;
    let share = options.share.files(plan.shards.len());
    progress.expects(writer.source_bytes(share.clone()));
    let records = match options.share {
        Share::Merge => writer.recorded(progress)?,
        Share::All | Share::Part { .. } => writer.write(share, progress)?,
    };
    // A part does not read what other machines read: the merge, which is the commit, compares everything.
    let extent = if matches!(options.share, Share::Part { .. }) { Extent::Read } else { Extent::Whole };
    if let Err(error) = input.compare_files(extent, progress) {
        writer.withdraw();
        return Err(error);
    }
    let (sent_files, sent_bytes) = writer.sent();
    let url = |record: &FileRecord| Ok((destination.url_of(&record.name)?, record.byte_length));
    let mut published = Published {
        entry: None,
        url: None,
        difference_bytes: None,
        files: records.iter().map(url).collect::<Result<_>>()?,
        file_count: plan.shards.len(),
        uncompressed_bytes: plan.shards.iter().flat_map(|tensors| tensors.iter()).filter_map(Tensor::byte_length).sum(),
        sent_files,
        sent_bytes,
        warnings,
    };
    if let Share::Part { .. } = options.share {
        return Ok(published);
    }
    send_entry(&mut writer, &plan, &records, previous.as_ref(), &mut published, progress)?;
    Ok(published)
}

/// Writes the manifest, and sends it as the entry after all files were read back. Adds where it is, the number of bytes
/// of differences to the previous revision, and warnings to `published`.
fn send_entry(
    writer: &mut FileWriter,
    plan: &Plan,
    records: &[FileRecord],
    previous: Option<&Previous>,
    published: &mut Published,
    progress: &(dyn Progress + Sync),
) -> Result<()> {
    let (destination, warnings) = (writer.destination, &mut published.warnings);
    let manifest = PartialFile::create_transient(&writer.temporary_path(&destination.entry))?;
    let files: Vec<_> = records.iter().map(|record| record as &dyn ShardFile).collect();
    let mut documents = plan.write_manifest(manifest, &files, Naming::Content)?;
    let manifest = documents.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "no manifest was written"))?;
    let mut send = |file: &FinishedFile| writer.send_document(&file.name(), std::fs::read(file.temporary_path())?);
    let documents = documents.iter().map(&mut send).collect::<Result<Vec<_>>>()?;
    let revision = match previous {
        Some(previous) => compare_revisions(writer, records, previous, warnings, progress)?,
        None => Revision::default(),
    };
    // A copy of the model does not need the differences, so that they are not among its files.
    let sent: Vec<_> = documents.iter().chain(&revision.differences).collect();
    read_back::verify_files(writer, records, &sent)?;
    let entry = entry::complete(&manifest, records, &documents, revision.stated)?;
    writer.send_entry(&entry)?;
    read_back::verify_entry(writer, &entry)?;
    writer.remove_records(warnings);
    published.difference_bytes = revision.differences.map(|document| document.byte_length);
    published.entry = Some(destination.url_of(&destination.entry)?);
    published.url = destination.http_url_of(&destination.entry)?;
    Ok(())
}

/// How a revision follows from the previous one.
#[derive(Default)]
struct Revision {
    /// What the entry states, by key.
    stated: Vec<(&'static str, Value)>,
    /// The file with differences, if there is one.
    differences: Option<Document>,
}

fn compare_revisions(
    writer: &mut FileWriter,
    records: &[FileRecord],
    previous: &Previous,
    warnings: &mut Vec<String>,
    progress: &(dyn Progress + Sync),
) -> Result<Revision> {
    let destination = writer.destination;
    if previous.entry != destination.url_of(&previous.entry_name())? {
        let warning = "the previous revision is in another folder, so that clients cannot take parts of changed files \
                       from it";
        warnings.push(warning.to_owned());
        return Ok(Revision::default());
    }
    let copies = copies::find(destination, records, previous, progress)?;
    let copies = Some(copies).filter(|copies| !copies.is_empty()).map(|copies| (COPIES, copies.into()));
    let mut revision = Revision { stated: copies.into_iter().collect(), differences: None };
    match differences::publish(writer, records, previous, progress) {
        Ok(Some(published)) => {
            revision.stated.push((DIFFERENCES, published.stated));
            revision.differences = Some(published.document);
        }
        Ok(None) => {}
        Err(error) if progress.is_cancelled() => return Err(error),
        // The model is complete without them.
        Err(error) => warnings.push(format!("the differences to the previous revision are not published: {error}")),
    }
    Ok(revision)
}

/// The Rust code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
