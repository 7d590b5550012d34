//! Uploads in parts to stores whose uploads cannot be continued by a later run: Azure.

use crate::object::object_error;
use object_store::path::Path as ObjectPath;
use object_store::{Attributes, MultipartUpload, ObjectStore, PutMultipartOptions};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use weightstream::Result;

/// The size of a part. Stores allow 10,000 parts of at least 5 MiB.
pub(super) const PART_BYTES: u64 = 8 << 20;

/// Sends a file, one part after the other: several files are sent at the same time.
pub(super) async fn send(
    store: &Arc<dyn ObjectStore>,
    path: &ObjectPath,
    file: &Path,
    attributes: Attributes,
) -> Result<()> {
    let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
    let mut upload = store.put_multipart_opts(path, options).await.map_err(object_error)?;
    let sent = send_parts(&mut *upload, file).await;
    if sent.is_err() {
        upload.abort().await.ok(); // the error that is returned says why
    }
    sent
}

async fn send_parts(upload: &mut dyn MultipartUpload, file: &Path) -> Result<()> {
    let byte_length = std::fs::metadata(file)?.len();
    for number in 0..byte_length.div_ceil(PART_BYTES) {
        upload.put_part(read_part(file, number)?.into()).await.map_err(object_error)?;
    }
    upload.complete().await.map(drop).map_err(object_error)
}

/// Reads a part of a file.
pub(super) fn read_part(file: &Path, number: u64) -> Result<Vec<u8>> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(number * PART_BYTES))?;
    let mut part = Vec::new();
    file.take(PART_BYTES).read_to_end(&mut part)?;
    Ok(part)
}
