//! What zTensor holds.

use super::file::ZTensorFile;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ztensor::dtypes::{block_layout, main_component, spelling};
use crate::index::{Digest, Layout, Metadata, Tensor};
use crate::output::file::PartialFile;
use crate::output::losses::Losses;
use crate::output::metadata;
use crate::output::target::{Place, Target, TensorFile};
use crate::output::writer::{Compression, DigestAlgorithm, Settings};

/// The format, with what the caller wants of it.
pub(super) struct ZTensor {
    pub(super) metadata: Metadata,
    pub(super) compression: Compression,
    /// Of its algorithm are the digests of the stored bytes.
    pub(super) digest: Option<Digest>,
    pub(super) alignment: u64,
}

impl ZTensor {
    pub(super) fn new(settings: &Settings) -> Self {
        let digest = match settings.digest {
            DigestAlgorithm::Crc32c => Some(Digest::Crc32c(0)),
            DigestAlgorithm::Sha256 => Some(Digest::Sha256([0; 32])),
            _ => None,
        };
        ZTensor {
            metadata: metadata::join(settings),
            compression: settings.compression,
            digest,
            alignment: settings.alignment,
        }
    }
}

impl Target for ZTensor {
    fn check(&self, tensor: &Tensor, _: &mut Losses) -> Result<()> {
        if tensor.layout == Layout::Dense && block_layout(&tensor.dtype).is_some() {
            return Ok(());
        }
        let refuse =
            |what: String| Err(Error::new(ErrorKind::Unsupported, what).advise("Choose a format that has it."));
        if let Some(component) = tensor.components.iter().find(|component| spelling(&component.dtype).is_none()) {
            return refuse(format!("zTensor has no dtype {} in the layout {}", component.dtype, tensor.layout.name()));
        }
        // Tensors have no dtype of their own.
        match main_component(&tensor.components) {
            Some(main) if main.dtype == tensor.dtype => Ok(()),
            _ => refuse(format!("zTensor has no layout {} of {}", tensor.layout.name(), tensor.dtype)),
        }
    }

    fn begin<'a>(&'a self, file: PartialFile, _: &'a [Tensor], _: Place) -> Result<Box<dyn TensorFile + 'a>> {
        Ok(Box::new(ZTensorFile::begin(file, self)?))
    }
}
