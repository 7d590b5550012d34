//! Encodes the manifest, with the same keys in the same order as the format's tools.

use super::version::Version;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ztensor::byte_streams;
use crate::format::ztensor::dtypes::{block_layout, long_name, spelling};
use crate::index::{Component, Digest, Layout, Metadata, Tensor};
use crate::output::metadata::as_text;
use crate::values::cbor_writer::{self as cbor, Cbor};
use minicbor::encode;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The key under which the tools of 1.0 state themselves.
const GENERATOR: &str = "generator";

type Written = Result<(), encode::Error<Infallible>>;

/// A blob that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blob {
    pub(super) offset: u64,
    /// The stored length.
    pub(super) length: u64,
    /// The decoded length, if the blob is compressed.
    pub(super) decoded_length: Option<u64>,
    pub(super) digest: Option<Digest>,
}

/// Encodes the manifest. `objects` are already encoded as CBOR.
pub(super) fn manifest(version: Version, metadata: &Metadata, objects: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>> {
    encoded(|cbor| {
        match version {
            Version::V1_0 => write_head_of_1_0(cbor, metadata)?,
            Version::V1_1 | Version::V1_2 => {
                cbor.map(2 + u64::from(!metadata.is_empty()))?;
                cbor.str("version")?.str(version.stated())?;
                write_attributes(cbor, metadata)?;
                cbor.str("objects")?;
            }
        }
        cbor.map(objects.len() as u64)?;
        for (name, object) in objects {
            cbor.str(name)?.writer_mut().extend(object);
        }
        Ok(())
    })
}

/// Writes what precedes the tensors in 1.0. Attributes are text there: other values are written as JSON.
fn write_head_of_1_0(cbor: &mut Cbor, metadata: &Metadata) -> Written {
    let given = metadata.get(GENERATOR).map(as_text);
    let own = concat!("weightstream ", env!("CARGO_PKG_VERSION"));
    let attributes: Vec<_> = metadata.iter().filter(|(key, _)| *key != GENERATOR).collect();
    cbor.map(4)?.str("version")?.str(Version::V1_0.stated())?;
    cbor.str(GENERATOR)?.str(given.as_deref().unwrap_or(own))?;
    cbor.str("attributes")?.map(attributes.len() as u64)?;
    for (key, value) in attributes {
        cbor.str(key)?.str(&as_text(value))?;
    }
    cbor.str("tensors")?;
    Ok(())
}

/// Encodes the entry of a tensor. `blobs` holds its components by role.
pub(super) fn object(version: Version, tensor: &Tensor, blobs: &BTreeMap<&str, (&Component, Blob)>) -> Result<Vec<u8>> {
    if version == Version::V1_0 {
        return object_of_1_0(tensor, blobs);
    }
    let mut attributes = tensor.attributes.clone();
    let blocks = block_layout(&tensor.dtype).filter(|_| tensor.layout == Layout::Dense);
    let layout = match &blocks {
        Some((layout, sizes)) => {
            attributes.extend(sizes.map(|(key, size)| (key.to_owned(), size.into())));
            layout
        }
        None => tensor.layout.name(),
    };
    encoded(|cbor| {
        cbor.map(3 + u64::from(!attributes.is_empty()))?;
        cbor.str("shape")?.encode(&tensor.shape)?;
        cbor.str("format")?.str(layout)?;
        write_attributes(cbor, &attributes)?;
        cbor.str("components")?.map(blobs.len() as u64)?;
        for (role, (component, blob)) in blobs {
            let spelling = if blocks.is_some() { None } else { spelling(&component.dtype) };
            write_component(cbor.str(role)?, spelling.unwrap_or(("u8", None)), blob, version)?;
        }
        Ok(())
    })
}

/// Encodes the entry of a tensor whose elements are split into streams. `digest` is that of the dense bytes.
pub(super) fn object_of_streams(tensor: &Tensor, streams: &[Blob], digest: Option<Digest>) -> Result<Vec<u8>> {
    let no_name = || Error::new(ErrorKind::Internal, "a dtype without a name was split into streams");
    let (stored, logical) = spelling(&tensor.dtype).ok_or_else(no_name)?;
    let has = |is_there: bool| u64::from(is_there);
    let roles: BTreeMap<_, _> = (0..).map(byte_streams::role).zip(streams).collect();
    encoded(|cbor| {
        cbor.map(4 + has(logical.is_some()) + has(digest.is_some()) + has(!tensor.attributes.is_empty()))?;
        cbor.str("shape")?.encode(&tensor.shape)?;
        cbor.str("format")?.str(byte_streams::FORMAT)?;
        cbor.str("dtype")?.str(stored)?;
        if let Some(logical) = logical {
            cbor.str("type")?.str(logical)?;
        }
        if let Some(digest) = digest {
            cbor.str("digest")?.str(&digest_text(digest))?;
        }
        write_attributes(cbor, &tensor.attributes)?;
        cbor.str("components")?.map(roles.len() as u64)?;
        for (role, blob) in &roles {
            write_component(cbor.str(role)?, ("u8", None), blob, Version::V1_2)?;
        }
        Ok(())
    })
}

/// Encodes the entry of a tensor in 1.0.
fn object_of_1_0(tensor: &Tensor, blobs: &BTreeMap<&str, (&Component, Blob)>) -> Result<Vec<u8>> {
    let dtype = long_name(&tensor.dtype);
    let dtype = dtype.ok_or_else(|| Error::new(ErrorKind::Internal, "zTensor 1.0 cannot store this dtype"))?;
    encoded(|cbor| {
        cbor.map(4)?.str("dtype")?.str(dtype)?;
        cbor.str("shape")?.encode(&tensor.shape)?;
        cbor.str("format")?.str(tensor.layout.name())?;
        cbor.str("components")?.map(blobs.len() as u64)?;
        for (role, (_, blob)) in blobs {
            cbor.str(role)?.map(blob_keys(blob, Version::V1_0))?;
            write_blob(cbor, blob, Version::V1_0)?;
        }
        Ok(())
    })
}

fn write_component(cbor: &mut Cbor, (dtype, logical): (&str, Option<&str>), blob: &Blob, version: Version) -> Written {
    cbor.map(1 + u64::from(logical.is_some()) + blob_keys(blob, version))?;
    cbor.str("dtype")?.str(dtype)?;
    if let Some(logical) = logical {
        cbor.str("type")?.str(logical)?;
    }
    write_blob(cbor, blob, version)
}

/// The number of keys that [`write_blob`] writes.
fn blob_keys(blob: &Blob, version: Version) -> u64 {
    let is_packed = u64::from(blob.decoded_length.is_some());
    2 + is_packed + is_packed * u64::from(version.states_decoded_lengths()) + u64::from(blob.digest.is_some())
}

fn write_blob(cbor: &mut Cbor, blob: &Blob, version: Version) -> Written {
    cbor.str("offset")?.u64(blob.offset)?;
    cbor.str("length")?.u64(blob.length)?;
    if let Some(decoded_length) = blob.decoded_length {
        if version.states_decoded_lengths() {
            cbor.str("uncompressed_length")?.u64(decoded_length)?;
        }
        cbor.str("encoding")?.str("zstd")?;
    }
    if let Some(digest) = blob.digest {
        cbor.str("digest")?.str(&digest_text(digest))?;
    }
    Ok(())
}

fn write_attributes(cbor: &mut Cbor, attributes: &Metadata) -> Written {
    if attributes.is_empty() {
        return Ok(());
    }
    cbor.str("attributes")?.map(attributes.len() as u64)?;
    attributes.iter().try_for_each(|(key, value)| cbor::value(cbor.str(key)?, value))
}

/// Returns the digest in the spelling of the tools.
fn digest_text(digest: Digest) -> String {
    match digest {
        Digest::Crc32c(crc) => format!("crc32c:0x{crc:08X}"),
        other => format!("{}:{other}", other.algorithm()),
    }
}

fn encoded(write: impl FnOnce(&mut Cbor) -> Written) -> Result<Vec<u8>> {
    let mut cbor = Cbor::new(Vec::new());
    write(&mut cbor)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("the manifest cannot be written as CBOR: {e}")))?;
    Ok(cbor.into_writer())
}
