//! Encodes the manifest, with the same keys in the same order as the format's tools.

use super::file::Blob;
use crate::error::{Error, ErrorKind, Result};
use crate::format::values::cbor_writer::{self as cbor, Cbor};
use crate::format::ztensor::dtypes::{block_layout, spelling};
use crate::index::{Component, Digest, Layout, Metadata, Tensor};
use minicbor::encode;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The format version that the tools write since 1.2.
const VERSION: &str = "1.2.0";

type Written = Result<(), encode::Error<Infallible>>;

/// Encodes the manifest. `objects` are already encoded as CBOR.
pub(super) fn manifest(metadata: &Metadata, objects: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>> {
    encoded(|cbor| {
        cbor.map(2 + u64::from(!metadata.is_empty()))?;
        cbor.str("version")?.str(VERSION)?;
        write_attributes(cbor, metadata)?;
        cbor.str("objects")?.map(objects.len() as u64)?;
        for (name, object) in objects {
            cbor.str(name)?.writer_mut().extend(object);
        }
        Ok(())
    })
}

/// Encodes the entry of a tensor. `blobs` holds its components by role.
pub(super) fn object(tensor: &Tensor, blobs: &BTreeMap<&str, (&Component, Blob)>) -> Result<Vec<u8>> {
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
            write_component(cbor.str(role)?, spelling.unwrap_or(("u8", None)), blob)?;
        }
        Ok(())
    })
}

fn write_component(cbor: &mut Cbor, (dtype, logical): (&str, Option<&str>), blob: &Blob) -> Written {
    let keys = 3 + u64::from(logical.is_some()) + 2 * u64::from(blob.decoded_length.is_some());
    cbor.map(keys + u64::from(blob.digest.is_some()))?;
    cbor.str("dtype")?.str(dtype)?;
    if let Some(logical) = logical {
        cbor.str("type")?.str(logical)?;
    }
    cbor.str("offset")?.u64(blob.offset)?;
    cbor.str("length")?.u64(blob.length)?;
    if let Some(decoded_length) = blob.decoded_length {
        cbor.str("uncompressed_length")?.u64(decoded_length)?;
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
