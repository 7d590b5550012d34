//! Writes EMBD `.weights` files in the specification's layout (binary weight format 1.0): with an index, alignment and
//! checksums. The layout that the tools of `cpp_embedder` write has none of these, and is not written. The tools read
//! only their own layout.
//!
//! Where the specification is ambiguous, the writer follows [`format::embd`](crate::format::embd): sections follow each
//! other without gaps; tensors, and the data as a whole, begin at multiples of 64 bytes, and the data ends with the
//! last tensor. The special tokens follow the other tokens, their offset is relative to the start of the file, and
//! `total_size` counts only entries. A scalar becomes `[1]`, because a tensor has 1 to 4 dimensions: that is a loss.
//! The keys that the specification requires are filled in from those of other tools: see `required`.

mod required;
mod sections;

use crate::error::{Error, ErrorKind, Result};
use crate::format::embd::parts::{MAGIC, MAX_DIMS, NAME};
use crate::format::embd::specified::{
    CHECKSUM_ENABLED, DESCRIPTOR_BYTES, FOOTER_BYTES, HEADER_BYTES, MAGIC_END, MAX_HEAD_BYTES, dtype_code, dtypes,
    name_hash,
};
use crate::index::{Layout, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::losses::Losses;
use crate::output::metadata::{self, as_text};
use crate::output::origin::Changes;
use crate::output::target::{ShardPosition, Target, TensorFile, TensorSource};
use crate::output::vocabulary::Vocabulary;
use crate::output::writer::{Settings, Writer};

/// Flags that are redundant for readers.
const VOCAB_EMBEDDED: u32 = 1;
const TENSORS_ALIGNED: u32 = 1 << 1;

/// The alignment that `TENSORS_ALIGNED` guarantees.
const ALIGNMENT: u64 = 64;

/// The writer of the format.
pub(super) const WRITER: Writer = Writer {
    compressions: &[],
    digests: &[],
    alignments: &[ALIGNMENT],
    shards: false,
    versions: &[],
    metadata_first: false,
    vocabulary: true,
    describe: None,
    new: |settings, losses| Ok(Box::new(Embd::new(settings, losses)?)),
};

/// The format with the metadata of a file.
struct Embd {
    /// The whole section.
    metadata: Vec<u8>,
    /// The whole section; empty if there is no vocabulary.
    vocabulary: Vec<u8>,
}

impl Embd {
    fn new(settings: &Settings, losses: &mut Losses) -> Result<Self> {
        let mut joined = metadata::join(settings);
        let vocabulary = Vocabulary::take(&mut joined);
        if !settings.omits_metadata {
            let source = joined.clone();
            required::fill(&mut joined, vocabulary.as_ref(), settings.created, losses)?;
            let as_texts =
                joined.iter().map(|(key, value)| (key.clone(), as_text(value).into_owned().into())).collect();
            let key = vocabulary.as_ref().and_then(|vocabulary| vocabulary.apr_key);
            Changes::between(&source, &as_texts).with_vocabulary_from(key).record(NAME, settings, &mut joined);
        }
        let metadata = sections::metadata(&joined, losses)?;
        let start = HEADER_BYTES + metadata.len() as u64;
        let vocabulary = match vocabulary {
            Some(vocabulary) => sections::vocabulary(&vocabulary, start, losses)?,
            None => Vec::new(),
        };
        Ok(Embd { metadata, vocabulary })
    }
}

impl Target for Embd {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
            let what = format!("its layout is {}, and EMBD supports only dense tensors", tensor.layout.name());
            return refuse(ErrorKind::Unsupported, what, "Convert it to a dense tensor first, or choose ztensor.");
        }
        if dtype_code(&tensor.dtype).is_none() {
            let known = dtypes().map(|dtype| dtype.to_string()).collect::<Vec<_>>().join(", ");
            let what = format!("EMBD has no dtype {}", tensor.dtype);
            return refuse(
                ErrorKind::Unsupported,
                what,
                &format!("Cast it with `ConvertOptions::dtype` to one of {known}."),
            );
        }
        if tensor.name.len() > usize::from(u16::MAX) {
            let what = format!("its name has {} bytes, and EMBD allows 65535", tensor.name.len());
            return refuse(ErrorKind::Limit, what, "Rename it before the conversion.");
        }
        if tensor.shape.len() > MAX_DIMS as usize {
            let what = format!("it has {} dimensions, and EMBD allows {MAX_DIMS}", tensor.shape.len());
            return refuse(ErrorKind::Limit, what, "Reshape it before the conversion.");
        }
        if let Some(dim) = tensor.shape.iter().find(|dim| **dim > u32::MAX.into()) {
            let what = format!("it has a dimension of {dim}, and EMBD allows {}", u32::MAX);
            return refuse(ErrorKind::Limit, what, "Reshape it before the conversion.");
        }
        if tensor.shape.is_empty() {
            let what = "it is a scalar, and every tensor of EMBD has a dimension";
            let error = Error::new(ErrorKind::Unsupported, what).advise("Allow the loss, or choose another format.");
            losses.store("as [1]", error.in_tensor(&tensor.name))?;
        }
        losses.leave_out_attributes(tensor, "EMBD", |_| false)
    }

    fn begin<'a>(
        &'a self,
        mut file: PartialFile,
        tensors: &'a [Tensor],
        _: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        let index_length: u64 = tensors.iter().map(|tensor| DESCRIPTOR_BYTES + tensor.name.len() as u64).sum();
        let index_offset = HEADER_BYTES + (self.metadata.len() + self.vocabulary.len()) as u64;
        let data_offset = (index_offset + index_length).next_multiple_of(ALIGNMENT);
        if data_offset > MAX_HEAD_BYTES {
            let what = format!("metadata, vocabulary and index take {data_offset} bytes");
            let error = Error::new(ErrorKind::Limit, format!("{what}; weightstream reads at most {MAX_HEAD_BYTES}"));
            return Err(error.advise("Provide less metadata, or split the model."));
        }
        file.reserve_head(data_offset)?;
        let (descriptors, names) = (Vec::new(), Vec::new());
        Ok(Box::new(EmbdFile { file, sections: self, index_offset, data_offset, descriptors, names }))
    }
}

/// A file being written: the tensors in order, then the head in the space that was reserved for it.
struct EmbdFile<'a> {
    file: PartialFile,
    sections: &'a Embd,
    index_offset: u64,
    data_offset: u64,
    descriptors: Vec<u8>,
    names: Vec<u8>,
}

impl TensorFile for EmbdFile<'_> {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        self.file.align(ALIGNMENT)?;
        self.describe(tensor, self.file.position() - self.data_offset)?;
        source.read(tensor, &mut |bytes| self.file.write(bytes))
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedFile> {
        let data_crc32 = self.file.crc32();
        let head = self.head()?;
        self.file.write_head(&head)?;
        let file_crc32 = self.file.crc32();
        self.file.write(&data_crc32.to_le_bytes())?;
        self.file.write(&file_crc32.to_le_bytes())?;
        self.file.write(&MAGIC_END)?;
        self.file.write(&0u32.to_le_bytes())?; // reserved
        self.file.finish()
    }
}

impl EmbdFile<'_> {
    /// Adds the tensor to the index; its data is at `offset` from the start of the data section.
    fn describe(&mut self, tensor: &Tensor, offset: u64) -> Result<()> {
        let unsupported = || Error::new(ErrorKind::Internal, "EMBD cannot store this tensor");
        let shape = if tensor.shape.is_empty() { &[1] } else { tensor.shape.as_slice() };
        let dims = u8::try_from(shape.len()).map_err(|_| unsupported())?;
        let name_length = u16::try_from(tensor.name.len()).map_err(|_| unsupported())?;
        self.descriptors.extend(name_hash(&tensor.name).to_le_bytes());
        self.descriptors.extend([dtype_code(&tensor.dtype).ok_or_else(unsupported)?, dims]);
        self.descriptors.extend(name_length.to_le_bytes());
        for dim in shape.iter().chain(&[0; MAX_DIMS as usize]).take(MAX_DIMS as usize) {
            self.descriptors.extend(u32::try_from(*dim).map_err(|_| unsupported())?.to_le_bytes());
        }
        self.descriptors.extend(offset.to_le_bytes());
        self.names.extend(tensor.name.as_bytes());
        Ok(())
    }

    fn head(&self) -> Result<Vec<u8>> {
        let Embd { metadata, vocabulary } = self.sections;
        let (metadata_length, vocabulary_length) = (metadata.len() as u64, vocabulary.len() as u64);
        let has_vocabulary = vocabulary_length > 0;
        let vocabulary_offset = if has_vocabulary { HEADER_BYTES + metadata_length } else { 0 };
        let tensor_count = self.descriptors.len() as u64 / DESCRIPTOR_BYTES;

        let mut head = MAGIC.to_vec();
        head.extend(1u16.to_le_bytes()); // version_major
        head.extend(0u16.to_le_bytes()); // version_minor
        let flags = TENSORS_ALIGNED | CHECKSUM_ENABLED | if has_vocabulary { VOCAB_EMBEDDED } else { 0 };
        head.extend(flags.to_le_bytes());
        let sections = [HEADER_BYTES, metadata_length, vocabulary_offset, vocabulary_length];
        for field in sections.into_iter().chain([self.index_offset, tensor_count, self.data_offset]) {
            let too_long = |_| Error::new(ErrorKind::Internal, "the head exceeds its planned length");
            head.extend(u32::try_from(field).map_err(too_long)?.to_le_bytes());
        }
        head.extend((self.file.position() - self.data_offset).to_le_bytes());
        head.extend((self.file.position() + FOOTER_BYTES).to_le_bytes());
        head.extend(crc32fast::hash(&head).to_le_bytes());
        head.extend(0u32.to_le_bytes()); // reserved

        for section in [metadata, vocabulary, &self.descriptors, &self.names] {
            head.extend(section);
        }
        head.resize(usize::try_from(self.data_offset).unwrap_or(head.len()), 0);
        Ok(head)
    }
}

#[cfg(all(test, not(miri)))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
mod tests;
