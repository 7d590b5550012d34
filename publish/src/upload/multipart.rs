//! Multipart uploads that survive an interrupted run: a long one keeps a journal of its parts at the destination, with
//! which a later run continues it, also on another machine.

use super::parts::{PART_BYTES, read_part};
use crate::object::{MultipartObjects, object_error};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::multipart::PartId;
use object_store::path::Path as ObjectPath;
use object_store::{Attributes, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutPayload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use weightstream::{Error, ErrorKind, Result};

/// The number of parts of a file that are sent at the same time.
const PARALLEL_PARTS: usize = 2;

/// The number of parts from which a journal is worth its requests: one for each group of parts.
const MIN_JOURNAL_PARTS: u64 = 4;

/// The parts that have arrived.
#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    upload_id: String,
    byte_length: u64,
    part_bytes: u64,
    /// The identifiers of the parts by their number.
    parts: BTreeMap<u64, String>,
}

/// Sends a file in parts. Its name must contain a digest of its content: a journal is continued if it has the same name
/// and length.
pub(super) async fn send(
    objects: &dyn MultipartObjects,
    store: &Arc<dyn ObjectStore>,
    path: &ObjectPath,
    file: &Path,
    attributes: Attributes,
) -> Result<()> {
    let byte_length = std::fs::metadata(file)?.len();
    let count = byte_length.div_ceil(PART_BYTES);
    let journal_path = journal_path(path)?;
    let has_journal = count >= MIN_JOURNAL_PARTS;
    let found = if has_journal { read_journal(store, &journal_path, byte_length).await } else { None };
    let is_continued = found.is_some();
    let mut journal = match found {
        Some(journal) => journal,
        None => begin(objects, path, byte_length, attributes.clone()).await?,
    };
    let sent = send_parts(objects, store, path, file, &mut journal, has_journal.then_some(&journal_path)).await;
    let completed = match sent {
        Ok(()) => complete(objects, path, &journal, count).await,
        Err(error) => Err(error),
    };
    match completed {
        // The store has forgotten the upload, after some days or because it was aborted.
        Err(_) if is_continued => {
            store.delete(&journal_path).await.ok();
            let mut journal = begin(objects, path, byte_length, attributes).await?;
            send_parts(objects, store, path, file, &mut journal, Some(&journal_path)).await?;
            complete(objects, path, &journal, count).await?;
        }
        completed => completed?,
    }
    if has_journal {
        store.delete(&journal_path).await.ok(); // the next run does not need it
    }
    Ok(())
}

async fn begin(
    objects: &dyn MultipartObjects,
    path: &ObjectPath,
    byte_length: u64,
    attributes: Attributes,
) -> Result<Journal> {
    let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
    let upload_id = objects.create_multipart_opts(path, options).await.map_err(object_error)?;
    Ok(Journal { upload_id, byte_length, part_bytes: PART_BYTES, parts: BTreeMap::new() })
}

/// Sends the parts that the journal lacks.
async fn send_parts(
    objects: &dyn MultipartObjects,
    store: &Arc<dyn ObjectStore>,
    path: &ObjectPath,
    file: &Path,
    journal: &mut Journal,
    journal_path: Option<&ObjectPath>,
) -> Result<()> {
    let count = journal.byte_length.div_ceil(PART_BYTES);
    let missing: Vec<u64> = (0..count).filter(|part| !journal.parts.contains_key(part)).collect();
    let upload_id = journal.upload_id.clone();
    let send = |number: u64| {
        let upload_id = &upload_id;
        async move {
            let part = read_part(file, number)?;
            let sent = objects.put_part(path, upload_id, number as usize, PutPayload::from(part)).await;
            Ok::<_, Error>((number, sent.map_err(object_error)?.content_id))
        }
    };
    let mut arriving = stream::iter(missing).map(send).buffer_unordered(PARALLEL_PARTS);
    while let Some((number, content_id)) = arriving.try_next().await? {
        journal.parts.insert(number, content_id);
        if let Some(journal_path) = journal_path {
            let text = serde_json::to_vec(journal).map_err(|e| Error::new(ErrorKind::Internal, e.to_string()))?;
            store.put(journal_path, text.into()).await.map_err(object_error)?;
        }
    }
    Ok(())
}

async fn complete(objects: &dyn MultipartObjects, path: &ObjectPath, journal: &Journal, count: u64) -> Result<()> {
    let parts: Vec<_> = journal.parts.values().map(|content_id| PartId { content_id: content_id.clone() }).collect();
    if parts.len() as u64 != count {
        return Err(Error::new(ErrorKind::Internal, "an upload lacks a part"));
    }
    objects.complete_multipart(path, &journal.upload_id, parts).await.map(drop).map_err(object_error)
}

/// The key of the journal of a file.
fn journal_path(path: &ObjectPath) -> Result<ObjectPath> {
    ObjectPath::parse(format!("{path}.upload.json")).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

/// The journal of an interrupted upload of the same file.
async fn read_journal(store: &Arc<dyn ObjectStore>, path: &ObjectPath, byte_length: u64) -> Option<Journal> {
    let text = store.get(path).await.ok()?.bytes().await.ok()?;
    let journal: Journal = serde_json::from_slice(&text).ok()?;
    let count = byte_length.div_ceil(PART_BYTES);
    let is_of_file = journal.byte_length == byte_length && journal.part_bytes == PART_BYTES;
    Some(journal).filter(|journal| is_of_file && journal.parts.keys().all(|part| *part < count))
}
