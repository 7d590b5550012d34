//! Reads what was published, and compares it with what was sent. The entry is sent after all files have been compared.

use super::entry::Document;
use super::files::FileWriter;
use super::record::FileRecord;
use super::upload;
use crate::object::{Store, object_error};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::path::Path as ObjectPath;
use weightstream::internals::codec::digest::Hasher;
use weightstream::internals::index::Digest;
use weightstream::internals::output::Existing;
use weightstream::internals::publication::Publication;
use weightstream::{Error, ErrorKind, Result};

/// The number of files that are read at the same time.
const PARALLEL_READS: usize = 4;

/// Reads every file, and compares it. A file of ours with other bytes is deleted, so that the next run sends it again.
///
/// # Errors
/// `CHECKSUM` for a difference; those of the store.
pub(super) fn verify_files(writer: &FileWriter, records: &[FileRecord], documents: &[&Document]) -> Result<()> {
    let destination = writer.destination;
    let store = &*destination.store;
    let files = records.iter().map(|record| (&record.name, &record.sha256));
    let files = files.chain(documents.iter().map(|document| (&document.name, &document.sha256)));
    let compare = |(name, sha256): (&String, &String)| {
        let (key, existing) = (destination.key_of(name)?, writer.owned.existing(name));
        let sha256 = sha256.clone();
        Ok(async move { compare_file(store, &key, &sha256, existing).await })
    };
    let comparing = files.map(compare).collect::<Result<Vec<_>>>()?;
    let comparing = stream::iter(comparing).buffer_unordered(PARALLEL_READS);
    destination.runtime.block_on(comparing.try_collect::<()>())
}

/// Reads the entry, and compares it. If it is damaged, the entry of the previous revision is sent again.
///
/// # Errors
/// `CHECKSUM` for a difference; those of the store.
pub(super) fn verify_entry(writer: &FileWriter, entry: &[u8]) -> Result<()> {
    let destination = writer.destination;
    let (store, key) = (&*destination.store, destination.key_of(&destination.entry)?);
    let found = destination.runtime.block_on(upload::read(store, &key));
    let (error, is_intact) = match found {
        Ok(found) if found == entry => return Ok(()),
        Ok(found) => {
            let error = Error::new(ErrorKind::Checksum, "the entry is not the one that was sent");
            let advice = "Another process may be publishing here, or a cache answers with an earlier entry: it must \
                          not be cached (`Cache-Control: no-cache`).";
            let is_intact = Publication::of_entry(&found).is_ok_and(|publication| publication.is_some());
            (error.advise(advice).in_file(&store.url_of(&key)), is_intact)
        }
        Err(error) => (error, false),
    };
    if !is_intact {
        writer.restore_entry().ok(); // the error that is returned says what is wrong
    }
    Err(error)
}

async fn compare_file(store: &Store, path: &ObjectPath, expected: &str, existing: Existing) -> Result<()> {
    let place = |error| object_error(error).in_file(&store.url_of(path));
    let mut hasher = Hasher::new(Digest::Sha256([0; 32]));
    let mut pieces = store.objects().get(path).await.map_err(place)?.into_stream();
    while let Some(piece) = pieces.next().await {
        hasher.update(&piece.map_err(place)?);
    }
    let found = hasher.finish().to_string();
    if found == expected {
        return Ok(());
    }
    let what = format!("its SHA-256 is {found}, and that of the file that was sent is {expected}");
    let error = Error::new(ErrorKind::Checksum, what).in_file(&store.url_of(path));
    if existing == Existing::Keep {
        let advice = "`publish` has not written this file. Remove it, or replace it with \
                      `PublishOptions::replace_foreign`.";
        return Err(error.advise(advice));
    }
    upload::delete(store, path).await.ok();
    Err(error.advise("The file was deleted: publish again to send it again."))
}
