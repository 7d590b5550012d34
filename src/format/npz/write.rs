//! Writes archives as `numpy.savez` does, stored, with these choices:
//!
//! - The header of an array is padded so that its elements begin at a multiple of 64 in the file.
//! - Lengths are in the local header, so that readers of a stream find the next member; its CRC-32 is filled in after
//!   the elements. Lengths of 4 GiB and more are in ZIP64 fields.
//! - Members have the earliest time that ZIP has: equal input gives equal bytes.
//! - Metadata is a JSON object in the comment of the archive, which has at most 64 KiB.

use super::parse::EXTENSION;
use crate::codec::crc32;
use crate::dtype::element_count;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Layout, Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::npy;
use crate::output::target::{CAST, ShardPosition, Target, TensorFile, TensorSource};
use crate::output::writer::{Settings, Writer};
use crate::zip::write::{self, MAX_COMMENT_BYTES, MAX_NAME_BYTES, Member};

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
    new: |settings, losses| Ok(Box::new(Npz { comment: comment(settings, losses)? })),
};

/// The format with the metadata of a file.
struct Npz {
    comment: Vec<u8>,
}

/// The comment with the metadata, as far as it fits.
fn comment(settings: &Settings, losses: &mut Losses) -> Result<Vec<u8>> {
    let metadata: Metadata = metadata::join(settings);
    if metadata.is_empty() {
        return Ok(Vec::new());
    }
    let comment = serde_json::Value::Object(metadata).to_string().into_bytes();
    if comment.len() <= MAX_COMMENT_BYTES {
        return Ok(comment);
    }
    let what = format!(
        "the metadata has {} bytes as JSON, and an archive of NumPy has room for {MAX_COMMENT_BYTES}",
        comment.len()
    );
    let error = Error::new(ErrorKind::Unsupported, what);
    losses.leave_out(error.advise("Allow the loss, or choose a format that has metadata, such as ztensor."))?;
    Ok(Vec::new())
}

impl Target for Npz {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
            let what = format!("its layout is {}, and archives of NumPy have only dense arrays", tensor.layout.name());
            return refuse(ErrorKind::Unsupported, what, "Convert it to a dense tensor first, or choose ztensor.");
        }
        if npy::descr(&tensor.dtype).is_none() {
            let what = format!("NumPy has no dtype {}", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, CAST);
        }
        let name_bytes = tensor.name.len() + EXTENSION.len();
        if name_bytes > MAX_NAME_BYTES {
            let what = format!("its name has {name_bytes} bytes, and names in archives have at most {MAX_NAME_BYTES}");
            return refuse(ErrorKind::Limit, what, "Choose another format.");
        }
        losses.leave_out_attributes(tensor, "NumPy", |_| false)
    }

    fn begin<'a>(&'a self, file: PartialFile, _: &'a [Tensor], _: ShardPosition) -> Result<Box<dyn TensorFile + 'a>> {
        Ok(Box::new(NpzFile { file, members: Vec::new(), comment: &self.comment }))
    }
}

/// A file whose arrays are being written.
struct NpzFile<'a> {
    file: PartialFile,
    members: Vec<Member>,
    comment: &'a [u8],
}

impl TensorFile for NpzFile<'_> {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        let unsupported = || Error::new(ErrorKind::Internal, "NumPy cannot store this tensor");
        let descr = npy::descr(&tensor.dtype).ok_or_else(unsupported)?;
        let element_bytes = npy::element_bytes(&tensor.dtype).ok_or_else(unsupported)?;
        let too_long = || Error::new(ErrorKind::Limit, "its bytes overflow u64");
        let data_bytes = element_count(&tensor.shape)?.checked_mul(element_bytes).ok_or_else(too_long)?;
        let offset = self.file.position();
        let name = format!("{}{EXTENSION}", tensor.name);
        // The length of the local header depends on whether the member is long, and a header of NumPy is short.
        let mut member = Member { name, offset, byte_length: data_bytes.saturating_add(u16::MAX.into()), crc32: 0 };
        let start = offset + member.local_header().len() as u64;
        let is_long = member.is_long();
        let head = npy::head(&descr, &tensor.shape, start, 0);
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
        self.file.write(&write::end(self.members.len() as u64, start, length, self.comment))?;
        self.file.finish()
    }
}
