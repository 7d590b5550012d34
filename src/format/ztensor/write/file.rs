//! Writes one zTensor file.

use super::byte_streams::{Scratch, StreamEncoder};
use super::manifest::{self, Blob};
use super::target::ZTensor;
use super::version::Version;
use super::zstd::BlobEncoder;
use crate::codec::digest::Hasher;
use crate::error::Result;
use crate::format::ztensor::byte_streams::stream_count;
use crate::format::ztensor::v1::{MAGIC_1, check_manifest};
use crate::index::{Component, Digest, Layout, Metadata, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::kept::KeptSource;
use crate::output::target::{ShardKind, ShardPosition, TensorFile, TensorSource};
use crate::output::writer::Compression;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A file being written: the blobs in order, then the manifest.
pub(super) struct ZTensorFile<'a> {
    file: PartialFile,
    target: &'a ZTensor,
    /// The metadata of the model, in the first of its files.
    metadata: Cow<'a, Metadata>,
    /// The manifest entry of each tensor as CBOR, by name.
    objects: BTreeMap<String, Vec<u8>>,
    last: StoredTensor,
    scratch: Scratch,
}

/// How the last tensor is stored.
enum StoredTensor {
    /// One blob for each component, in their order.
    Components(Vec<Blob>),
    /// One blob for each byte of an element, and the digest of the dense bytes.
    Streams(Vec<Blob>, Option<Digest>),
}

/// The most that is kept in memory of a tensor that is split into streams. Of a larger tensor, one stream is kept at a
/// time, and the tensor is read once for each.
const MAX_KEPT_BYTES: u64 = 256 << 20;

impl<'a> ZTensorFile<'a> {
    pub(super) fn begin(mut file: PartialFile, target: &'a ZTensor, place: ShardPosition) -> Result<Self> {
        file.write(&MAGIC_1)?;
        let metadata = match place.kind() {
            ShardKind::First => Cow::Borrowed(&target.metadata),
            ShardKind::Other => Cow::default(),
        };
        let (objects, last) = (BTreeMap::new(), StoredTensor::Components(Vec::new()));
        Ok(ZTensorFile { file, target, metadata, objects, last, scratch: Scratch::default() })
    }
}

impl TensorFile for ZTensorFile<'_> {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        let mut kept;
        let source = match self.target.compression {
            Compression::None | Compression::Lz4 => source,
            Compression::Zstd | Compression::Auto => {
                kept = KeptSource::new(source);
                &mut kept
            }
        };
        if let Some(streams) = self.write_streams(tensor, source)? {
            self.last = streams;
            return self.add_object(tensor);
        }
        let mut components: Vec<_> = tensor.components.iter().enumerate().collect();
        components.sort_by_key(|(_, component)| component.range.start); // reads the source in order
        let mut blobs = Vec::new();
        for (number, component) in components {
            blobs.push((number, self.write_blob(component, source)?));
        }
        blobs.sort_by_key(|(number, _)| *number);
        self.last = StoredTensor::Components(blobs.into_iter().map(|(_, blob)| blob).collect());
        self.add_object(tensor)
    }

    fn write_tied(&mut self, tensor: &Tensor) -> Result<bool> {
        self.add_object(tensor)?;
        Ok(true)
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedFile> {
        let version = self.target.version;
        let manifest = manifest::manifest(version, &self.metadata, &self.objects)?;
        check_manifest(&manifest, self.file.position())?;
        self.file.write(&manifest)?;
        self.file.write(&(manifest.len() as u64).to_le_bytes())?;
        self.file.write(version.magic_at_end())?;
        self.file.finish()
    }
}

impl ZTensorFile<'_> {
    /// Adds a tensor whose blobs are the last ones.
    fn add_object(&mut self, tensor: &Tensor) -> Result<()> {
        let object = match &self.last {
            StoredTensor::Components(blobs) => {
                let components = tensor.components.iter().zip(blobs);
                let blobs = components.map(|(component, blob)| (&*component.role, (component, *blob))).collect();
                manifest::object(self.target.version, tensor, &blobs)?
            }
            StoredTensor::Streams(streams, digest) => manifest::object_of_streams(tensor, streams, *digest)?,
        };
        self.objects.insert(tensor.name.clone(), object);
        Ok(())
    }

    /// Writes a dense tensor as streams of bytes, if it is to be compressed and gets smaller so.
    fn write_streams(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<Option<StoredTensor>> {
        let ZTensor { compression, version, alignment, digest, .. } = *self.target;
        let (Layout::Dense, [component]) = (&tensor.layout, tensor.components.as_slice()) else { return Ok(None) };
        let (Some(width), Some(length)) = (stream_count(&component.dtype), component.decoded_length) else {
            return Ok(None);
        };
        if compression != Compression::Auto || version != Version::V1_2 || length == 0 {
            return Ok(None);
        }
        let width = width as usize;
        let mark = self.file.mark();
        let mut blobs = vec![None; width];
        let mut hasher = digest.map(Hasher::new);
        let kept = if length <= MAX_KEPT_BYTES { width } else { 1 };
        for end in (1..=width).rev().step_by(kept) {
            let mut encoder = StreamEncoder::new(width, end - kept..end, &mut self.scratch);
            source.read_component(component, &mut |bytes| {
                if let Some(hasher) = hasher.as_mut().filter(|_| end == width) {
                    hasher.update(bytes);
                }
                encoder.push(bytes)
            })?;
            let (streams, is_smaller) = encoder.finish()?;
            if !is_smaller {
                self.file.rewind(mark)?;
                return Ok(None);
            }
            let mut streams: Vec<_> = (end - kept..end).zip(streams).collect();
            streams.sort_by_key(|(_, stream)| stream.length()); // readers keep all but the last one until it arrives
            for (at, stream) in streams {
                self.file.align(alignment)?;
                let blob = self.write_stored(|store| {
                    stream.write(store)?;
                    Ok(stream.decoded_length())
                })?;
                blobs.get_mut(at).into_iter().for_each(|place| *place = Some(blob));
            }
        }
        let blobs: Vec<Blob> = blobs.into_iter().flatten().collect();
        if blobs.iter().map(|blob| blob.length).sum::<u64>() >= length {
            self.file.rewind(mark)?;
            return Ok(None);
        }
        Ok(Some(StoredTensor::Streams(blobs, hasher.map(Hasher::finish))))
    }

    fn write_blob(&mut self, component: &Component, source: &mut dyn TensorSource) -> Result<Blob> {
        self.file.align(self.target.alignment)?;
        match self.target.compression {
            Compression::None | Compression::Lz4 => self.write_raw(component, source),
            Compression::Zstd | Compression::Auto => {
                let mark = self.file.mark();
                let blob = self.write_zstd(component, source)?;
                if blob.decoded_length.is_some_and(|decoded| blob.length < decoded) {
                    return Ok(blob);
                }
                self.file.rewind(mark)?;
                self.write_raw(component, source)
            }
        }
    }

    fn write_raw(&mut self, component: &Component, source: &mut dyn TensorSource) -> Result<Blob> {
        self.write_stored(|store| {
            source.read_component(component, store)?;
            Ok(None)
        })
    }

    fn write_zstd(&mut self, component: &Component, source: &mut dyn TensorSource) -> Result<Blob> {
        self.write_stored(|store| {
            let mut encoder = BlobEncoder::new(component.decoded_length)?;
            let mut decoded_length = 0;
            source.read_component(component, &mut |bytes| {
                decoded_length += bytes.len() as u64;
                encoder.push(bytes, store)
            })?;
            encoder.finish(store)?;
            Ok(Some(decoded_length))
        })
    }

    /// Writes the bytes that `produce` emits. `produce` returns their decoded length, if they are compressed.
    fn write_stored(
        &mut self,
        produce: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Option<u64>>,
    ) -> Result<Blob> {
        let offset = self.file.position();
        let mut hasher = self.target.digest.map(Hasher::new);
        let decoded_length = produce(&mut |bytes| {
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            self.file.write(bytes)
        })?;
        let digest = hasher.map(Hasher::finish);
        Ok(Blob { offset, length: self.file.position() - offset, decoded_length, digest })
    }
}
