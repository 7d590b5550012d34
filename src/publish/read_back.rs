//! Reads what was published, and compares it with what was sent.

use super::files::FileWriter;
use super::record::FileRecord;
use super::upload;
use crate::codec::digest::Hasher;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Digest;
use crate::source::object::{Store, object_error};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::path::Path as ObjectPath;

/// The number of files that are read at the same time.
const PARALLEL_READS: usize = 4;

/// Reads the entry and every file, and compares them. A file with other bytes is deleted, so that the next run sends it
/// again.
///
/// # Errors
/// `CHECKSUM` for a difference; those of the store.
pub(super) fn verify(writer: &FileWriter, records: &[FileRecord], entry: &[u8]) -> Result<()> {
    let destination = writer.destination;
    let store = &*destination.store;
    destination.runtime.block_on(async {
        let compare = |record: &FileRecord| {
            let (path, expected) = (destination.path_of(&record.name), record.sha256.clone());
            async move { compare_file(store, &path, &expected).await }
        };
        let comparing = stream::iter(records.iter().map(compare).collect::<Vec<_>>()).buffer_unordered(PARALLEL_READS);
        comparing.try_collect::<()>().await?;
        let path = destination.path_of(&destination.entry);
        if upload::read(store, &path).await? != entry {
            let error = Error::new(ErrorKind::Checksum, "the entry is not the one that was sent");
            let advice = "Another process may be publishing here, or a cache answers with an earlier entry: it must \
                          not be cached (`Cache-Control: no-cache`).";
            return Err(error.advise(advice).in_file(&store.url_of(&path)));
        }
        Ok(())
    })
}

async fn compare_file(store: &Store, path: &ObjectPath, expected: &str) -> Result<()> {
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
    upload::delete(store, path).await.ok();
    let what = format!("its SHA-256 is {found}, and that of the file that was sent is {expected}");
    let error = Error::new(ErrorKind::Checksum, what).in_file(&store.url_of(path));
    Err(error.advise("The file was deleted: publish again to send it again."))
}
