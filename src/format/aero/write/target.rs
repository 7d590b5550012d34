//! Checks which tensors AERO can store.

use super::contents::Contents;
use super::file::AeroFile;
use super::layout::stored_length;
use super::metadata::About;
use super::{index, quantization};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Layout, Tensor};
use crate::output::file::PartialFile;
use crate::output::losses::Losses;
use crate::output::target::{CAST, ShardKind, ShardPosition, Sharded, Target, TensorFile};
use crate::output::writer::{DigestAlgorithm, Settings};

/// Limits of the C++ reader of AERO.
const MAX_NAME_BYTES: usize = 4096;
const MAX_DIMS: usize = 32;

/// AERO 0.1 with the options of the caller.
pub(super) struct Aero {
    pub(super) about: About,
    pub(super) alignment: u64,
    digest: DigestAlgorithm,
}

impl Aero {
    pub(super) fn new(settings: &Settings) -> Self {
        Aero { about: About::new(settings), alignment: settings.alignment, digest: settings.digest }
    }

    pub(super) fn contents<'a>(&'a self, tensors: &'a [Tensor], kind: ShardKind) -> Result<Contents<'a>> {
        Contents::new(&self.about, tensors, self.alignment, kind, self.digest)
    }
}

impl Target for Aero {
    fn check(&self, tensor: &Tensor, losses: &mut Losses) -> Result<()> {
        let refuse = |kind, what: String, advice: &str| Err(Error::new(kind, what).advise(advice));
        if tensor.layout != Layout::Dense || tensor.components.len() != 1 {
            let what = format!("its layout is {}, and AERO supports only dense tensors", tensor.layout.name());
            return refuse(ErrorKind::Unsupported, what, "Convert it to a dense tensor first, or choose ztensor.");
        }
        if index::code(tensor).is_none() {
            let what = format!("AERO has no dtype {}", tensor.dtype);
            return refuse(ErrorKind::Unsupported, what, CAST);
        }
        if tensor.name.len() > MAX_NAME_BYTES {
            let what = format!("its name has {} bytes, and readers of AERO accept {MAX_NAME_BYTES}", tensor.name.len());
            return refuse(ErrorKind::Limit, what, "Rename it before the conversion.");
        }
        if tensor.shape.len() > MAX_DIMS {
            let what = format!("it has {} dimensions, and readers of AERO accept {MAX_DIMS}", tensor.shape.len());
            return refuse(ErrorKind::Limit, what, "Reshape it before the conversion.");
        }
        stored_length(tensor)?;
        losses.leave_out_attributes(tensor, "AERO", |key| quantization::ATTRIBUTES.contains(&key))
    }

    fn begin<'a>(
        &'a self,
        file: PartialFile,
        tensors: &'a [Tensor],
        place: ShardPosition,
    ) -> Result<Box<dyn TensorFile + 'a>> {
        let contents = self.contents(tensors, place.kind())?;
        Ok(Box::new(AeroFile::begin(file, contents, self.alignment)?))
    }

    fn sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }
}
