//! Writes one zTensor file.

use super::manifest::{self, Blob};
use super::target::ZTensor;
use super::zstd::BlobEncoder;
use crate::codec::digest::Hasher;
use crate::error::Result;
use crate::format::ztensor::v1::{MAGIC_1, check_manifest};
use crate::index::{Component, Tensor};
use crate::output::file::{FinishedFile, PartialFile};
use crate::output::target::{TensorFile, TensorSource};
use crate::output::writer::Compression;
use std::collections::BTreeMap;

/// A file being written: the blobs in order, then the manifest.
pub(super) struct ZTensorFile<'a> {
    file: PartialFile,
    target: &'a ZTensor,
    /// The manifest entry of each tensor as CBOR, by name.
    objects: BTreeMap<String, Vec<u8>>,
    /// The blobs of the last tensor, in the order of its components.
    last: Vec<Blob>,
}

impl<'a> ZTensorFile<'a> {
    pub(super) fn begin(mut file: PartialFile, target: &'a ZTensor) -> Result<Self> {
        file.write(&MAGIC_1)?;
        Ok(ZTensorFile { file, target, objects: BTreeMap::new(), last: Vec::new() })
    }
}

impl TensorFile for ZTensorFile<'_> {
    fn position(&self) -> u64 {
        self.file.position()
    }

    fn write_tensor(&mut self, tensor: &Tensor, source: &mut dyn TensorSource) -> Result<()> {
        let mut components: Vec<_> = tensor.components.iter().enumerate().collect();
        components.sort_by_key(|(_, component)| component.range.start); // reads the source in order
        let mut blobs = Vec::new();
        for (number, component) in components {
            blobs.push((number, self.write_blob(component, source)?));
        }
        blobs.sort_by_key(|(number, _)| *number);
        self.last = blobs.into_iter().map(|(_, blob)| blob).collect();
        self.add_object(tensor)
    }

    fn write_tied(&mut self, tensor: &Tensor) -> Result<bool> {
        self.add_object(tensor)?;
        Ok(true)
    }

    fn finish(mut self: Box<Self>) -> Result<FinishedFile> {
        let version = self.target.version;
        let manifest = manifest::manifest(version, &self.target.metadata, &self.objects)?;
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
        let components = tensor.components.iter().zip(&self.last);
        let blobs = components.map(|(component, blob)| (&*component.role, (component, *blob))).collect();
        self.objects.insert(tensor.name.clone(), manifest::object(self.target.version, tensor, &blobs)?);
        Ok(())
    }

    fn write_blob(&mut self, component: &Component, source: &mut dyn TensorSource) -> Result<Blob> {
        self.file.align(self.target.alignment)?;
        match self.target.compression {
            Compression::None | Compression::Lz4 => self.write_raw(component, source),
            Compression::Zstd => self.write_zstd(component, source),
            Compression::Auto => {
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
