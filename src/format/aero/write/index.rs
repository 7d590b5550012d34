//! Writes TIDX: the tensors and their positions.

use super::layout::Place;
use super::msgpack::Packer;
use super::quantization::Packing;
use crate::error::{Error, ErrorKind, Result};
use crate::format::aero::tensors::{PACKED, dtype_code, ggml_type};
use crate::index::{Digest, Tensor};

/// One entry of TIDX.
pub(super) struct Entry<'a> {
    pub(super) tensor: &'a Tensor,
    /// Numbered across all files in the index of a set, otherwise from 0 in each file.
    pub(super) shard_id: u64,
    pub(super) place: Place,
    pub(super) packing: &'a Packing,
    /// BLAKE3 of the tensor's data, if it is written.
    pub(super) digest: Option<[u8; 32]>,
    /// Whether the shape is written with the innermost dimension first.
    pub(super) is_reversed: bool,
}

/// Encodes the content of TIDX.
pub(super) fn pack<'a>(entries: impl ExactSizeIterator<Item = Entry<'a>>) -> Result<Vec<u8>> {
    let mut packer = Packer::default();
    packer.map(1);
    packer.text("tensors");
    packer.array(entries.len());
    for entry in entries {
        entry.pack(&mut packer)?;
    }
    Ok(packer.into_bytes())
}

/// Returns the code of the tensor's dtype, if AERO has one.
pub(super) fn code(tensor: &Tensor) -> Option<u16> {
    let is_packed = ggml_type(&tensor.dtype).is_some() || tensor.dtype.name() == "packed";
    dtype_code(&tensor.dtype).or(is_packed.then_some(PACKED))
}

impl Entry<'_> {
    pub(super) fn pack(&self, packer: &mut Packer) -> Result<()> {
        let Entry { tensor, place, packing, .. } = self;
        let unsupported = || Error::new(ErrorKind::Internal, "AERO cannot store this tensor");
        let optional = [packing.id.is_some(), packing.params.is_some(), self.digest.is_some()];
        packer.map(7 + optional.iter().filter(|is_present| **is_present).count());
        packer.text("name");
        packer.text(&tensor.name);
        packer.text("dtype");
        packer.uint(code(tensor).ok_or_else(unsupported)?.into());
        packer.text("shape");
        packer.array(tensor.shape.len());
        if self.is_reversed {
            tensor.shape.iter().rev().for_each(|dim| packer.uint(*dim));
        } else {
            tensor.shape.iter().for_each(|dim| packer.uint(*dim));
        }
        for (key, number) in
            [("shard_id", self.shard_id), ("data_off", place.offset), ("data_len", place.length), ("flags", 0)]
        {
            packer.text(key);
            packer.uint(number);
        }
        if let Some(id) = packing.id {
            packer.text("quant_id");
            packer.uint(id);
        }
        if let Some(params) = &packing.params {
            packer.text("quant_params");
            packer.value(params);
        }
        if let Some(digest) = self.digest {
            packer.text("hash_b3");
            packer.text(&Digest::Blake3(digest).to_string());
        }
        Ok(())
    }
}
