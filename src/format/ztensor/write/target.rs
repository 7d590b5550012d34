//! Checks which tensors zTensor can store.

use super::file::ZTensorFile;
use super::version::Version;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ztensor::dtypes::{block_layout, main_component, spelling};
use crate::index::{Digest, Layout, Metadata, Tensor};
use crate::output::file::PartialFile;
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::origin::Changes;
use crate::output::target::{ShardPosition, Sharded, Target, TensorFile};
use crate::output::writer::{Compression, DigestAlgorithm, Settings};

/// The format with the options of the caller.
pub(super) struct ZTensor {
    pub(super) metadata: Metadata,
    pub(super) compression: Compression,
    /// Selects the algorithm of the digests of the stored bytes; the value is unused.
    pub(super) digest: Option<Digest>,
    pub(super) alignment: u64,
    pub(super) version: Version,
}

impl ZTensor {
    pub(super) fn new(settings: &Settings) -> Self {
        let digest = match settings.digest {
            DigestAlgorithm::Crc32c => Some(Digest::Crc32c(0)),
            DigestAlgorithm::Sha256 => Some(Digest::Sha256([0; 32])),
            _ => None,
        };
        let version = Version::named(settings.version);
        let mut metadata = metadata::join(settings);
        let changes = if version == Version::V1_0 { Changes::to_text(&metadata) } else { Changes::default() };
        changes.record("ztensor", settings, &mut metadata);
        ZTensor { metadata, compression: settings.compression, digest, alignment: settings.alignment, version }
    }
}

impl Target for ZTensor {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        if let Some(what) = self.version.refusal(tensor) {
            let advice = "Leave out `ConvertOptions::format_version`, or cast floats and quantized tensors with \
                          `ConvertOptions::dtype`.";
            return Err(Error::new(ErrorKind::Unsupported, what).advise(advice));
        }
        if self.version == Version::V1_0 {
            losses.leave_out_attributes(tensor, "zTensor 1.0", |_| false)?;
        }
        if tensor.layout == Layout::Dense && block_layout(&tensor.dtype).is_some() {
            return Ok(());
        }
        let refuse =
            |what: String| Err(Error::new(ErrorKind::Unsupported, what).advise("Choose a format that supports it."));
        if let Some(component) = tensor.components.iter().find(|component| spelling(&component.dtype).is_none()) {
            return refuse(format!("zTensor has no dtype {} in the layout {}", component.dtype, tensor.layout.name()));
        }
        // The manifest stores only the dtypes of components.
        match main_component(&tensor.components) {
            Some(main) if main.dtype == tensor.dtype => Ok(()),
            _ => refuse(format!("zTensor has no layout {} of {}", tensor.layout.name(), tensor.dtype)),
        }
    }

    fn begin<'a>(
        &'a self,
        file: PartialFile,
        _: &'a [Tensor],
        place: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        Ok(Box::new(ZTensorFile::begin(file, self, place)?))
    }

    fn sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }
}
