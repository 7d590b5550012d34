//! Writes one GGUF file.

use super::metadata::Pairs;
use super::values::text;
use crate::dtype::{Dtype, UNKNOWN_GGML_TYPE, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::format::ggml;
use crate::format::gguf::parse::MAGIC;
use crate::index::Tensor;
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::target::{TensorFile, TensorSource};

/// The version that is written.
pub(super) const VERSION: u32 = 3;

/// The bytes before the metadata.
pub(super) const COUNTS_BYTES: u64 = 4 + 4 + 8 + 8;

/// A file whose head has been written.
pub(super) struct GgufFile {
    file: PartialFile,
    alignment: u64,
}

impl GgufFile {
    pub(super) fn begin(mut file: PartialFile, tensors: &[Tensor], pairs: &Pairs, alignment: u64) -> Result<Self> {
        file.write(&head(tensors, pairs, alignment)?)?;
        file.align(alignment)?;
        Ok(GgufFile { file, alignment })
    }
}

impl TensorFile for GgufFile {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        source.read(tensor, &mut |bytes| self.file.write(bytes))?;
        self.file.align(self.alignment)
    }

    fn finish(self: Box<Self>) -> Result<FinishedFile> {
        self.file.finish()
    }
}

/// Returns the number of a dtype. The parser names unknown types after their numbers: `GGML_43`.
pub(super) fn number_of(dtype: &Dtype) -> Option<u32> {
    ggml::number_of(dtype).or_else(|| match dtype {
        Dtype::Other(name) => name.strip_prefix(UNKNOWN_GGML_TYPE)?.parse().ok(),
        _ => None,
    })
}

/// Returns the length of a tensor's data without padding. That of an unknown type is as long as in its source.
pub(super) fn byte_length(tensor: &Tensor) -> Result<u64> {
    let byte_length = tensor.dtype.byte_length(element_count(&tensor.shape)?)?.or(tensor.byte_length());
    byte_length.ok_or_else(|| Error::new(ErrorKind::Unsupported, "the length of its data is unknown"))
}

fn head(tensors: &[Tensor], pairs: &Pairs, alignment: u64) -> Result<Vec<u8>> {
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend((tensors.len() as u64).to_le_bytes());
    head.extend(pairs.count.to_le_bytes());
    head.extend(&pairs.bytes);
    let mut offset: u64 = 0;
    for tensor in tensors {
        let place = |error: Error| error.in_tensor(&tensor.name);
        let number = number_of(&tensor.dtype);
        let number = number.ok_or_else(|| place(Error::new(ErrorKind::Internal, "GGUF cannot store this tensor")))?;
        text(&tensor.name, &mut head);
        head.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|dim| head.extend(dim.to_le_bytes()));
        head.extend(number.to_le_bytes());
        head.extend(offset.to_le_bytes());
        let end = byte_length(tensor).map_err(place)?.checked_add(offset);
        let end = end.and_then(|end| end.checked_next_multiple_of(alignment));
        offset = end.ok_or_else(|| place(Error::new(ErrorKind::Limit, "with it the file has more than 2^64 bytes")))?;
    }
    Ok(head)
}
