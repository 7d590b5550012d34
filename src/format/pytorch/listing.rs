//! From views of storages to the tensors of a file.

use super::rebuild::View;
use crate::error::{Result, malformed};
use crate::format::warned::Warned;
use crate::index::strides::span;
use crate::index::{
    Component, ComponentDigest, Digest, DigestedBytes, Encoding, Index, Layout, Metadata, Parsed, Tensor, check_views,
};
use std::collections::HashMap;
use std::ops::Range;

/// The name of the format in the registry.
pub(super) const NAME: &str = "pytorch";

/// The bytes of a storage in the file.
#[derive(Debug, Clone)]
pub(super) struct StoredStorage {
    pub(super) range: Range<u64>,
    /// The length of the decoded bytes.
    pub(super) byte_length: u64,
    pub(super) compression: Compression,
    pub(super) byte_order: ByteOrder,
    pub(super) crc32: Option<u32>,
}

/// How the bytes of a storage are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    /// By a tool that packed the archive again. PyTorch does not compress.
    Deflate,
}

/// The byte order of the numbers in a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// The tensors of a file so far.
#[derive(Debug)]
pub(super) struct Listing {
    tensors: Vec<Tensor>,
    strided: Warned,
    skipped: Warned,
}

impl Listing {
    /// A listing without tensors. Those in `skipped` will not be listed.
    pub(super) fn new(skipped: Warned) -> Self {
        Listing { tensors: Vec::new(), strided: Warned::default(), skipped }
    }

    /// Adds a tensor, or the reason why it is not listed.
    ///
    /// # Errors
    /// `FORMAT` if the view is not in the storage.
    pub(super) fn add(&mut self, name: String, view: View, stored: &StoredStorage) -> Result<()> {
        match tensor(&name, view, stored).map_err(|e| e.in_tensor(&name))? {
            Ok(tensor) => {
                if tensor.layout != Layout::Dense {
                    self.strided.add(&name);
                }
                self.tensors.push(tensor);
            }
            Err(reason) => self.skipped.add_with_reason(&name, reason),
        }
        Ok(())
    }

    /// Ends the listing of a file of this length, if it is known.
    ///
    /// # Errors
    /// Those of [`check_views`].
    pub(super) fn into_parsed(self, version: String, metadata: Metadata, file_length: Option<u64>) -> Result<Parsed> {
        let Listing { mut tensors, strided, skipped } = self;
        check_views(&mut tensors, file_length)?;
        let warnings = [
            strided.warning(
                "not contiguous: transposed or otherwise in another order than row-major. The bytes load as they are \
                 stored, and the attribute `strides` says where each element is; `tensor.contiguous()` before \
                 `torch.save` reorders them",
            ),
            skipped.warning("not listed, because they cannot be read without running the code of PyTorch"),
        ];
        Ok(Parsed::File(Index {
            format: NAME,
            version,
            metadata,
            long_arrays: Vec::new(),
            tensors: tensors.into(),
            warnings: warnings.into_iter().flatten().collect(),
            other_shards: HashMap::new(),
            blocks: Vec::new(),
            quantized: None,
        }))
    }
}

/// The tensor of a view; the reason if it cannot be listed.
fn tensor(name: &str, view: View, stored: &StoredStorage) -> Result<Result<Tensor, &'static str>> {
    let View { storage, elements, offset, shape, strides } = view;
    let outside = || {
        malformed(format!(
            "its shape {shape:?}, strides {strides:?} and offset {offset} lead out of its storage of {} bytes",
            stored.byte_length
        ))
    };
    if storage.count.checked_mul(storage.elements.bytes) != Some(stored.byte_length) {
        let what = format!(
            "its storage should have {} elements of {}, but has {} bytes",
            storage.count, storage.elements.dtype, stored.byte_length
        );
        return Err(malformed(what).at(stored.range.clone()));
    }
    crate::dtype::element_count(&shape)?;
    let length = span(&shape, &strides)?.checked_mul(elements.bytes).ok_or_else(outside)?;
    let start = if length == 0 { Some(0) } else { offset.checked_mul(elements.bytes) };
    let start = start.ok_or_else(outside)?;
    let end = start.checked_add(length).filter(|end| *end <= stored.byte_length).ok_or_else(outside)?;
    let is_whole = (start, end) == (0, stored.byte_length);
    let mut data = match stored.compression {
        Compression::None => {
            Component::raw(elements.dtype.clone(), stored.range.start + start..stored.range.start + end)
        }
        Compression::Deflate => {
            let skipped = u32::try_from(start).ok().filter(|_| end == stored.byte_length);
            let Some(skipped) = skipped else {
                return Ok(Err("a part of a storage that is compressed; write the archive without compression"));
            };
            let encoding = Encoding::Deflate { skipped: skipped.into() };
            let decoded_length = Some(length);
            Component { encoding, decoded_length, ..Component::raw(elements.dtype.clone(), stored.range.clone()) }
        }
    };
    if stored.byte_order == ByteOrder::Big && elements.bytes > 1 {
        if stored.compression != Compression::None || elements.dtype.block().is_none() {
            return Ok(Err("a big-endian storage that is compressed, or of a dtype without an equivalent"));
        }
        data.encoding = Encoding::BigEndian;
    }
    let over = if stored.compression == Compression::None { DigestedBytes::Stored } else { DigestedBytes::Decoded };
    let digest = stored.crc32.filter(|_| is_whole && length > 0);
    data.digest = digest.map(|crc32| ComponentDigest { digest: Digest::Crc32(crc32), over });
    Ok(Ok(Tensor::dense(name.to_owned(), elements.dtype, shape, data).with_strides(&strides)))
}
