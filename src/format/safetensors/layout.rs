//! The layout of a SafeTensors file: the header, and how tensors of other formats are stored.

use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Layout, Metadata, Tensor};
use std::borrow::Cow;
use std::ops::Range;

/// The dtypes that the `safetensors` package 0.8 supports.
const DTYPES: [Dtype; 22] = [
    Dtype::Bool,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::F8_E4M3FNUZ,
    Dtype::F8_E5M2FNUZ,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::I64,
    Dtype::U64,
    Dtype::F64,
    Dtype::C64,
    Dtype::F4,
    Dtype::F6_E2M3,
    Dtype::F6_E3M2,
];

/// Whether the format has this dtype.
#[cfg(writes)]
pub(crate) fn has_dtype(dtype: &Dtype) -> bool {
    DTYPES.contains(dtype)
}

/// The size of the header's length field, a u64.
pub(super) const LENGTH_BYTES: u64 = 8;

/// The default alignment of the data.
pub(crate) const ALIGNMENT: u64 = 8;

/// The name that the format reserves.
const METADATA: &str = "__metadata__";

/// How a tensor is stored in a SafeTensors file.
pub(crate) struct Stored<'a> {
    pub(crate) dtype: Cow<'a, Dtype>,
    pub(crate) shape: Cow<'a, [u64]>,
    pub(crate) byte_length: u64,
}

/// Returns how a tensor is stored: unchanged if the format supports it.
///
/// # Errors
/// `UNSUPPORTED` if the format has no such dtype or layout; the reason is in the error.
pub(super) fn exactly(tensor: &Tensor) -> Result<Stored<'_>> {
    check_layout(tensor)?;
    if !DTYPES.contains(&tensor.dtype) {
        return Err(unsupported(format!("SafeTensors has no dtype {}", tensor.dtype)));
    }
    // Fails for example for an odd number of F4 elements, which zTensor supports.
    let byte_length = element_count(&tensor.shape).and_then(|count| tensor.dtype.byte_length(count));
    let byte_length = byte_length.map_err(|error| unsupported(error.what))?;
    let byte_length =
        byte_length.ok_or_else(|| Error::new(ErrorKind::Internal, "a dtype of SafeTensors has no size"))?;
    Ok(Stored { dtype: Cow::Borrowed(&tensor.dtype), shape: Cow::Borrowed(&tensor.shape), byte_length })
}

/// Like [`exactly`], but a dtype that the format does not have becomes U8: the bytes of the tensor.
///
/// # Errors
/// `UNSUPPORTED` if the tensor has several components, a reserved name, or an unknown length.
pub(crate) fn exactly_or_as_bytes(tensor: &Tensor) -> Result<Stored<'_>> {
    exactly(tensor).or_else(|_| {
        check_layout(tensor)?;
        let unknown = || unsupported("its file does not state its length".to_owned());
        let byte_length = tensor.byte_length().ok_or_else(unknown)?;
        Ok(Stored { dtype: Cow::Owned(Dtype::U8), shape: Cow::Owned(vec![byte_length]), byte_length })
    })
}

fn check_layout(tensor: &Tensor) -> Result<()> {
    if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
        let what = format!("its layout is {}, and SafeTensors supports only dense tensors", tensor.layout.name());
        return Err(unsupported(what).advise("Convert it to a dense tensor first, or choose ztensor."));
    }
    if tensor.name == METADATA {
        return Err(unsupported("SafeTensors reserves this name for its metadata".to_owned()).advise("Rename it."));
    }
    Ok(())
}

fn unsupported(what: String) -> Error {
    Error::new(ErrorKind::Unsupported, what).advise("Choose a format that supports it, such as ztensor.")
}

/// Returns the length field and the header: compact JSON with `metadata`, if there is any, and the tensors in the given
/// order, padded with spaces so that the data begins at a multiple of `alignment`.
///
/// # Errors
/// `UNSUPPORTED` for tensors that cannot be stored; `LIMIT` if the data is longer than a u64.
pub(crate) fn head<'a>(
    tensors: impl Iterator<Item = &'a Tensor>,
    metadata: &Metadata,
    alignment: u64,
) -> Result<Vec<u8>> {
    let mut head = vec![0; LENGTH_BYTES as usize];
    head.push(b'{');
    if !metadata.is_empty() {
        write_key(&mut head, METADATA)?;
        serde_json::to_writer(&mut head, metadata).map_err(encoding_failed)?;
    }
    let mut start = 0u64;
    for tensor in tensors {
        if head.last() != Some(&b'{') {
            head.push(b',');
        }
        let stored = exactly_or_as_bytes(tensor).map_err(|e| e.in_tensor(&tensor.name))?;
        let overflow = || Error::new(ErrorKind::Limit, "the tensors together overflow u64");
        let end = start.checked_add(stored.byte_length).ok_or_else(overflow)?;
        write_key(&mut head, &tensor.name)?;
        head.extend_from_slice(entry(&stored, start, end).as_bytes());
        start = end;
    }
    head.push(b'}');
    let padded = (head.len() as u64).next_multiple_of(alignment);
    head.resize(usize::try_from(padded).unwrap_or(head.len()), b' ');
    let length = (padded - LENGTH_BYTES).to_le_bytes();
    head.iter_mut().zip(length).for_each(|(to, byte)| *to = byte);
    Ok(head)
}

/// Returns the byte range of each tensor in a file whose head has `head_length` bytes.
///
/// # Errors
/// As for [`head`].
pub(crate) fn ranges<'a>(head_length: u64, tensors: impl Iterator<Item = &'a Tensor>) -> Result<Vec<Range<u64>>> {
    let mut start = head_length;
    let range_of = |tensor: &Tensor| {
        let stored = exactly_or_as_bytes(tensor).map_err(|e| e.in_tensor(&tensor.name))?;
        let overflow = || Error::new(ErrorKind::Limit, "the tensors together overflow u64");
        let end = start.checked_add(stored.byte_length).ok_or_else(overflow)?;
        Ok(std::mem::replace(&mut start, end)..end)
    };
    tensors.map(range_of).collect()
}

fn write_key(head: &mut Vec<u8>, name: &str) -> Result<()> {
    serde_json::to_writer(&mut *head, name).map_err(encoding_failed)?;
    head.push(b':');
    Ok(())
}

/// The value of a tensor in the header.
pub(super) fn entry(stored: &Stored<'_>, start: u64, end: u64) -> String {
    let shape = stored.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    format!(r#"{{"dtype":"{}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#, stored.dtype.name())
}

fn encoding_failed(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the header cannot be written as JSON: {error}"))
}
