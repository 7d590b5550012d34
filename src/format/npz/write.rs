//! Writes archives as `numpy.savez` does, stored, with these choices:
//!
//! - The header of an array is padded so that its elements begin at a multiple of 64 in the file.
//! - Lengths are in the local header, so that readers of a stream find the next member; its CRC-32 is filled in after
//!   the elements. Lengths of 4 GiB and more are in ZIP64 fields.
//! - Members have the earliest time that ZIP has: equal input gives equal bytes.
//! - Metadata is a JSON object in the comment of the archive, which has at most 64 KiB.
//! - Elements of dtypes that NumPy does not have are opaque bytes, and the metadata has their dtype: see `dtypes`.

use super::dtypes::{OpaqueDtypes, element_bytes, opaque};
use super::parse::{EXTENSION, NAME};
use crate::codec::crc32;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, ErrorKind, Result};
use crate::format::npy::array::FORTRAN_ORDER;
use crate::index::strides::{STRIDED, STRIDES, column_major};
use crate::index::{Layout, Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::npy::{self, Order};
use crate::output::origin::Changes;
use crate::output::target::{CAST, ShardPosition, Target, TensorFile, TensorSource};
use crate::output::writer::{Settings, Writer};
use crate::zip::write::{self, MAX_COMMENT_BYTES, MAX_NAME_BYTES, Member};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[],
    alignments: &[npy::ALIGNMENT],
    shards: false,
    versions: &[],
    metadata_first: false,
    vocabulary: false,
    describe: None,
    new: |settings, losses| Ok(Box::new(Npz { metadata: kept_metadata(settings, losses)? })),
};

/// The bytes of the comment that are kept for dtypes.
const DTYPES_BYTES: usize = 8 << 10;

/// The format with the metadata of a file.
struct Npz {
    metadata: Metadata,
}

/// The metadata, if it fits into the comment.
fn kept_metadata(settings: &Settings, losses: &mut Losses) -> Result<Metadata> {
    let mut metadata: Metadata = if settings.omits_metadata { Map::new() } else { metadata::join(settings) };
    Changes::default().record(NAME, settings, &mut metadata);
    let (length, limit) = (as_comment(&metadata).len(), MAX_COMMENT_BYTES - DTYPES_BYTES);
    if length <= limit {
        return Ok(metadata);
    }
    let what = format!("the metadata has {length} bytes as JSON, and an archive of NumPy has room for {limit}");
    let error = Error::new(ErrorKind::Limit, what);
    losses.leave_out(error.advise("Allow the loss, or choose a format that has metadata, such as ztensor."))?;
    Ok(Metadata::new())
}

fn as_comment(metadata: &Metadata) -> Vec<u8> {
    if metadata.is_empty() { Vec::new() } else { Value::Object(metadata.clone()).to_string().into_bytes() }
}

/// The order of the elements of a tensor; `None` for another layout.
fn order_of(tensor: &Tensor) -> Option<Order> {
    match &tensor.layout {
        Layout::Dense => Some(Order::RowMajor),
        Layout::Other(layout) if **layout == *STRIDED => {
            let is_column_major = tensor.attributes.get(STRIDES) == Some(&column_major(&tensor.shape).into());
            is_column_major.then_some(Order::ColumnMajor)
        }
        _ => None,
    }
}

/// How NumPy stores a dtype: its name there, and the size of an element.
fn stored(dtype: &Dtype) -> Option<(Cow<'static, str>, u64)> {
    let by_numpy = npy::descr(dtype).zip(npy::element_bytes(dtype));
    by_numpy.or_else(|| element_bytes(dtype).map(|bytes| (format!("|{}", opaque(bytes)).into(), bytes)))
}

impl Target for Npz {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        let Some(_) = order_of(tensor).filter(|_| tensor.components.len() == 1) else {
            let what = format!(
                "its layout is {}, and archives of NumPy have only arrays in row-major or column-major order",
                tensor.layout.name()
            );
            return refuse(ErrorKind::Unsupported, what, "Convert it to a dense tensor first, or choose ztensor.");
        };
        if stored(&tensor.dtype).is_none() {
            let what = format!("NumPy has no dtype {}", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, CAST);
        }
        let name_bytes = tensor.name.len() + EXTENSION.len();
        if name_bytes > MAX_NAME_BYTES {
            let what = format!("its name has {name_bytes} bytes, and names in archives have at most {MAX_NAME_BYTES}");
            return refuse(ErrorKind::Limit, what, "Choose another format.");
        }
        if npy::descr(&tensor.dtype).is_none() {
            losses.extend(tensor);
        }
        let is_strided = tensor.layout != Layout::Dense;
        losses.leave_out_attributes(tensor, "NumPy", |key| is_strided && [STRIDES, FORTRAN_ORDER].contains(&key))
    }

    fn begin<'a>(
        &'a self,
        file: PartialFile,
        tensors: &'a [Tensor],
        _: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        let mut metadata = self.metadata.clone();
        let mut dtypes = OpaqueDtypes::default();
        let is_opaque = |tensor: &&Tensor| npy::descr(&tensor.dtype).is_none_or(|descr| descr.starts_with("|V"));
        // If all of these are opaque in the source too, they need no names.
        if tensors.iter().any(|tensor| npy::descr(&tensor.dtype).is_none()) {
            tensors.iter().filter(is_opaque).for_each(|tensor| dtypes.add(tensor));
        }
        dtypes.insert(&mut metadata);
        let comment = as_comment(&metadata);
        if comment.len() > MAX_COMMENT_BYTES {
            let what = format!(
                "metadata and dtypes have {} bytes as JSON, and an archive of NumPy has room for {MAX_COMMENT_BYTES}",
                comment.len()
            );
            return Err(Error::new(ErrorKind::Limit, what).advise(CAST));
        }
        Ok(Box::new(NpzFile { file, members: Vec::new(), comment }))
    }
}

/// A file whose arrays are being written.
struct NpzFile {
    file: PartialFile,
    members: Vec<Member>,
    comment: Vec<u8>,
}

impl TensorFile for NpzFile {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        let unsupported = || Error::new(ErrorKind::Internal, "NumPy cannot store this tensor");
        let (descr, element_bytes) = stored(&tensor.dtype).ok_or_else(unsupported)?;
        let too_long = || Error::new(ErrorKind::Limit, "its bytes overflow u64");
        let data_bytes = element_count(&tensor.shape)?.checked_mul(element_bytes).ok_or_else(too_long)?;
        let offset = self.file.position();
        let name = format!("{}{EXTENSION}", tensor.name);
        // The length of the local header depends on whether the member is long, and a header of NumPy is short.
        let mut member = Member { name, offset, byte_length: data_bytes.saturating_add(u16::MAX.into()), crc32: 0 };
        let start = offset + member.local_header().len() as u64;
        let is_long = member.is_long();
        let order = order_of(tensor).ok_or_else(unsupported)?;
        let head = npy::head(&descr, order, &tensor.shape, start, 0);
        member.byte_length = data_bytes.checked_add(head.len() as u64).ok_or_else(too_long)?;
        self.file.write(&member.local_header_with(is_long))?;
        self.file.write(&head)?;
        let (mut crc, mut written) = (crc32::checksum(&head), 0u64);
        source.read(tensor, &mut |bytes| {
            (crc, written) = (crc32::append(crc, bytes), written + bytes.len() as u64);
            self.file.write(bytes)
        })?;
        if written != data_bytes {
            let what = format!("its {written} bytes do not match {} {:?}", tensor.dtype, tensor.shape);
            return Err(Error::new(ErrorKind::Format, what));
        }
        member.crc32 = crc;
        self.file.replace_zeros(offset + write::CRC32_OFFSET, &crc.to_le_bytes())?;
        self.members.push(member);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedFile> {
        let start = self.file.position();
        for member in &self.members {
            self.file.write(&member.directory_entry())?;
        }
        let length = self.file.position() - start;
        self.file.write(&write::end(self.members.len() as u64, start, length, &self.comment))?;
        self.file.finish()
    }
}
