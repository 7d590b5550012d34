//! Writes one APR file.

use super::blocks::{BlockLengths, reserved_bytes};
use super::ggml_types::{code_of, with_types};
use super::lz4::BlockCompressor;
use super::target::entry_bytes;
use crate::error::{Error, ErrorKind, Result};
use crate::format::apr::draft::{
    FOOTER_BYTES, HEADER_BYTES, INDEX_HEADER_BYTES, MAGIC, MAGIC_END, TENSOR_COMPRESSED, flags,
};
use crate::index::Tensor;
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::kept::KeptSource;
use crate::output::target::{TensorFile, TensorSource};
use crate::output::writer::Compression;

/// A file being written: the tensors in order, then the head in the space that was reserved for it.
pub(super) struct AprFile {
    file: PartialFile,
    metadata: Vec<u8>,
    /// The length of the metadata with the block lengths of compressed tensors.
    metadata_length: u64,
    blocks: BlockLengths,
    index: Vec<u8>,
    index_length: u64,
    tensor_count: u32,
    data_offset: u64,
    alignment: u64,
    compression: Compression,
    /// Created for the first tensor that is compressed.
    compressor: Option<BlockCompressor>,
    flags: u32,
    /// How the last tensor was stored.
    last: Stored,
}

/// How a tensor was stored.
#[derive(Debug, Clone, Copy, Default)]
struct Stored {
    offset: u64,
    size: u64,
    raw_size: u64,
    flags: u32,
}

impl AprFile {
    pub(super) fn begin(
        mut file: PartialFile,
        metadata: &[u8],
        tensors: &[Tensor],
        alignment: u64,
        compression: Compression,
        flags: u32,
    ) -> Result<Self> {
        let metadata = with_types(metadata, tensors);
        let metadata_length = metadata.len() as u64 + reserved_bytes(compression, tensors);
        let index_length = INDEX_HEADER_BYTES + tensors.iter().map(entry_bytes).sum::<u64>();
        let head_length = HEADER_BYTES + metadata_length + index_length;
        let data_offset = head_length.next_multiple_of(alignment);
        file.reserve_head(data_offset)?;
        let aligned = if alignment == 32 { flags::ALIGNED_32 } else { flags::ALIGNED_64 };
        let flags = flags | aligned;
        let (index, compressor) = (Vec::new(), None);
        Ok(AprFile {
            file,
            metadata,
            metadata_length,
            blocks: BlockLengths::default(),
            index,
            index_length,
            tensor_count: 0,
            data_offset,
            alignment,
            compression,
            compressor,
            flags,
            last: Stored::default(),
        })
    }
}

impl TensorFile for AprFile {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        self.file.align(self.alignment)?;
        let stored = match self.compression {
            Compression::None | Compression::Zstd => self.write_raw(tensor, source)?,
            Compression::Lz4 | Compression::Auto => {
                let (mark, mut source) = (self.file.mark(), KeptSource::new(source));
                let (stored, lengths) = self.write_lz4(tensor, &mut source)?;
                if stored.size < stored.raw_size {
                    self.blocks.add(tensor, &lengths);
                    stored
                } else {
                    self.file.rewind(mark)?;
                    self.write_raw(tensor, &mut source)?
                }
            }
        };
        if stored.raw_size > 0 {
            self.flags |= flags::COMPRESSED;
        }
        if tensor.dtype.block().is_some_and(|block| block.elements > 1) {
            self.flags |= flags::QUANTIZED;
        }
        self.add_entry(tensor, stored)
    }

    fn write_tied(&mut self, tensor: &Tensor) -> Result<bool> {
        self.add_entry(tensor, self.last)?;
        Ok(true)
    }

    /// Writes the last padding, the footer and the head.
    fn finish(mut self: Box<Self>) -> Result<FinishedFile> {
        let head = self.head()?;
        self.file.write_head(&head)?;
        let file_length = self.file.position() + FOOTER_BYTES;
        let crc32 = self.file.crc32();
        self.file.write(&crc32.to_le_bytes())?;
        self.file.write(&MAGIC_END)?;
        self.file.write(&file_length.to_le_bytes())?;
        Ok(self.file.finish()?.with_crc32(crc32))
    }
}

impl AprFile {
    fn write_raw(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<Stored> {
        let start = self.file.position();
        source.read(tensor, &mut |bytes| self.file.write(bytes))?;
        Ok(Stored { offset: start - self.data_offset, size: self.file.position() - start, raw_size: 0, flags: 0 })
    }

    /// Writes a tensor as LZ4 blocks. Returns also their compressed lengths. A tensor without bytes has no blocks, and
    /// therefore counts as raw.
    fn write_lz4(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<(Stored, Vec<u32>)> {
        let start = self.file.position();
        let AprFile { file, compressor, .. } = self;
        let mut encoder = compressor.get_or_insert_with(BlockCompressor::new).encoder();
        let mut raw_size = 0;
        source.read(tensor, &mut |bytes| {
            raw_size += bytes.len() as u64;
            encoder.push(bytes, &mut |block| file.write(block))
        })?;
        let lengths = encoder.finish(&mut |block| file.write(block))?;
        let flags = if raw_size > 0 { TENSOR_COMPRESSED } else { 0 };
        let (offset, size) = (start - self.data_offset, self.file.position() - start);
        Ok((Stored { offset, size, raw_size, flags }, lengths))
    }

    fn add_entry(&mut self, tensor: &Tensor, stored: Stored) -> Result<()> {
        self.last = stored;
        let unsupported = || Error::new(ErrorKind::Internal, "APR cannot store this tensor");
        let name_length = u16::try_from(tensor.name.len()).map_err(|_| unsupported())?;
        let dims = u8::try_from(tensor.shape.len()).map_err(|_| unsupported())?;
        self.index.extend(name_length.to_le_bytes());
        self.index.extend(tensor.name.as_bytes());
        self.index.extend([code_of(tensor).ok_or_else(unsupported)?, dims]);
        for field in tensor.shape.iter().chain([&stored.offset, &stored.size, &stored.raw_size]) {
            self.index.extend(field.to_le_bytes());
        }
        self.index.extend(stored.flags.to_le_bytes());
        self.tensor_count += 1;
        Ok(())
    }

    fn head(&self) -> Result<Vec<u8>> {
        let metadata_length = self.metadata_length;
        let index_offset = HEADER_BYTES + metadata_length;
        let mut head = MAGIC.to_vec();
        head.extend(2u16.to_le_bytes()); // version_major
        head.extend(0u16.to_le_bytes()); // version_minor
        head.extend(self.flags.to_le_bytes());
        for field in [HEADER_BYTES, metadata_length, index_offset, self.index_length, self.data_offset] {
            let field = u32::try_from(field)
                .map_err(|_| Error::new(ErrorKind::Limit, "the head is longer than 4 GiB, which APR cannot address"))?;
            head.extend(field.to_le_bytes());
        }
        let metadata_length = usize::try_from(metadata_length).unwrap_or(0);
        head.extend(self.blocks.with_metadata(&self.metadata, metadata_length));
        head.extend(self.tensor_count.to_le_bytes());
        head.extend(0u32.to_le_bytes()); // reserved
        head.extend(&self.index);
        head.resize(usize::try_from(self.data_offset).unwrap_or(head.len()), 0);
        Ok(head)
    }
}
