//! Sends files to a store, and reads them back. A large file is sent in parts.

mod folder;
mod multipart;
mod parts;

use crate::object::{Store, Uploads, is_absent, object_error, upload_error};
use object_store::path::Path as ObjectPath;
use object_store::{Attribute, Attributes, GetOptions, GetRange, ObjectStoreExt, PutOptions};
use parts::PART_BYTES;
use std::path::Path;
use weightstream::internals::format::MAX_MANIFEST_BYTES;
use weightstream::internals::output::{self, Existing};
use weightstream::{Error, ErrorKind, Result};

/// How long a file may be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The name contains a digest of the content.
    Immutable,
    /// A JSON document that changes with the next revision.
    Mutable,
}

/// A small file at a store.
pub(super) enum Found {
    Nothing,
    Bytes(Vec<u8>),
    /// The file is longer than any that is written here.
    TooLarge,
}

impl Kind {
    fn attributes(self) -> Attributes {
        let (cache_control, content_type) = match self {
            Kind::Immutable => ("public, max-age=31536000, immutable, no-transform", "application/octet-stream"),
            Kind::Mutable => ("no-cache", "application/json"),
        };
        [(Attribute::CacheControl, cache_control), (Attribute::ContentType, content_type)].into_iter().collect()
    }
}

/// Sends a file, unless the store has a file of this name and length. Returns whether it was sent.
///
/// # Errors
/// `INVALID_ARGUMENT` for a file that must not be replaced; those of the store.
pub(super) async fn send_file(
    store: &Store,
    path: &ObjectPath,
    file: &Path,
    kind: Kind,
    existing: Existing,
) -> Result<bool> {
    let byte_length = std::fs::metadata(file)?.len();
    match length_of(store, path).await? {
        Some(length) if length == byte_length => return Ok(false),
        Some(_) if existing == Existing::Keep => return Err(is_foreign(&store.url_of(path))),
        _ => {}
    }
    if let Some(path) = store.path_of(path) {
        return folder::copy(&path, file, existing).map(|()| true);
    }
    let attributes = attributes(store, kind);
    let sent = match store.uploads() {
        Uploads::ContinuedParts(objects) if byte_length > PART_BYTES => {
            multipart::send(&**objects, store.objects(), path, file, attributes).await
        }
        Uploads::Parts if byte_length > PART_BYTES => parts::send(store.objects(), path, file, attributes).await,
        _ => send_bytes(store, path, std::fs::read(file)?, kind, existing).await,
    };
    sent.map_err(|error| error.in_file(&store.url_of(path)))?;
    Ok(true)
}

/// Sends a small file. Only a folder is checked again whether there is a file that must not be replaced.
pub(super) async fn send_bytes(
    store: &Store,
    path: &ObjectPath,
    bytes: Vec<u8>,
    kind: Kind,
    existing: Existing,
) -> Result<()> {
    if let Some(path) = store.path_of(path) {
        return output::write_file(&path, &bytes, existing);
    }
    let options = PutOptions { attributes: attributes(store, kind), ..PutOptions::default() };
    let sent = store.objects().put_opts(path, bytes.into(), options).await;
    sent.map(drop).map_err(|error| upload_error(error).in_file(&store.url_of(path)))
}

/// The length of a file in bytes; `None` if it does not exist, or if the store refuses to say so.
pub(super) async fn length_of(store: &Store, path: &ObjectPath) -> Result<Option<u64>> {
    let error = match store.objects().head(path).await {
        Ok(meta) => return Ok(Some(meta.size)),
        Err(absent @ object_store::Error::NotFound { .. }) if is_absent(&absent) => return Ok(None),
        Err(error) => error,
    };
    // Some servers do not support HEAD.
    let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
    match store.objects().get_opts(path, options).await {
        Ok(got) => Ok(Some(got.meta.size)),
        Err(absent) if is_absent(&absent) => Ok(None),
        Err(_) => Err(object_error(error).in_file(&store.url_of(path))),
    }
}

/// Reads a small file.
pub(super) async fn read(store: &Store, path: &ObjectPath) -> Result<Vec<u8>> {
    let read = async { store.objects().get(path).await?.bytes().await };
    read.await.map(Vec::from).map_err(|error| object_error(error).in_file(&store.url_of(path)))
}

/// Looks for a small file. It is absent as for [`length_of`].
pub(super) async fn find(store: &Store, path: &ObjectPath) -> Result<Found> {
    let place = |error: Error| error.in_file(&store.url_of(path));
    let got = match store.objects().get(path).await {
        Ok(got) if got.meta.size > MAX_MANIFEST_BYTES => return Ok(Found::TooLarge),
        Ok(got) => got,
        Err(error) if is_absent(&error) => return Ok(Found::Nothing),
        Err(error) => return Err(place(object_error(error))),
    };
    got.bytes().await.map(|bytes| Found::Bytes(bytes.into())).map_err(|error| place(object_error(error)))
}

/// Deletes a file, if it exists.
pub(super) async fn delete(store: &Store, path: &ObjectPath) -> Result<()> {
    match store.objects().delete(path).await {
        Err(error) if !is_absent(&error) => Err(object_error(error).in_file(&store.url_of(path))),
        _ => Ok(()),
    }
}

/// The error for a file at a destination that must not be replaced.
pub(super) fn is_foreign(place: &str) -> Error {
    let error = Error::new(ErrorKind::InvalidArgument, "this file exists, and `publish` has not written it");
    error
        .advise("Choose another destination, or replace the file with `PublishOptions::replace_foreign`.")
        .in_file(place)
}

/// The headers that the store keeps with a file.
fn attributes(store: &Store, kind: Kind) -> Attributes {
    if store.keeps_headers() { kind.attributes() } else { Attributes::new() }
}
