//! Adapters (LoRA): the updates of a model's weights in a small file of their own, which are added while the weights
//! load.
//!
//! ```text
//! Index of the model ─┐
//!                     ├──▶ apply ──▶ Index with one adapted tensor for each weight that the adapter updates
//! Index of the adapter┘
//! ```
//!
//! [`pairs`] recognizes which tensors of an adapter are factors of which weight, by the names of PEFT, of kohya's
//! scripts and of GGUF. An adapted tensor has the parts of the weight and these factors as components, and [`scheme`]
//! computes `W + scale · B·A` for its rows. So rows, workers, pieces and conversions work as for quantized tensors.

mod apply;
mod pairs;
mod peft;
mod scheme;

pub(crate) use apply::{AdapterFile, apply, contents_to_read};
pub use peft::AdapterConfig;

use crate::error::{Error, ErrorKind, Result};
use crate::quantization::Contents;
use std::path::{Path, PathBuf};

/// A LoRA adapter whose updates are added to the weights of a model while they load:
/// [`OpenOptions::adapter`](crate::OpenOptions::adapter).
///
/// ```no_run
/// # #[cfg(not(target_arch = "wasm32"))]
/// # fn example() -> weightstream::Result<()> {
/// use weightstream::{Adapter, OpenOptions};
///
/// let adapter = Adapter::new("adapter/adapter_model.safetensors").scale(0.5);
/// let model = OpenOptions::new().adapter(adapter).open_blocking("model/model.safetensors")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    location: PathBuf,
    scale: f32,
    config: Option<AdapterConfig>,
}

/// An adapter that was opened, without its index.
#[derive(Debug)]
pub(crate) struct OpenAdapter {
    pub(crate) settings: Adapter,
    /// The contents of its scalars.
    pub(crate) contents: Contents,
}

impl Adapter {
    /// The adapter in a file or folder, or at a URL, as the model is: an adapter of PEFT, of kohya's scripts, or in
    /// GGUF.
    pub fn new(location: impl AsRef<Path>) -> Adapter {
        Adapter { location: location.as_ref().to_owned(), scale: 1.0, config: None }
    }

    /// What the updates are multiplied by, in addition to what the adapter states; 1 by default.
    #[must_use]
    pub fn scale(self, scale: f32) -> Adapter {
        Adapter { scale, ..self }
    }

    /// The `adapter_config.json` of an adapter of PEFT. By default, the file beside the adapter is read.
    #[must_use]
    pub fn config(self, config: AdapterConfig) -> Adapter {
        Adapter { config: Some(config), ..self }
    }

    /// Takes the configuration that was found beside the adapter.
    pub(crate) fn with_found_config(self, config: Option<AdapterConfig>) -> Adapter {
        Adapter { config: self.config.or(config), ..self }
    }

    /// Where it is, as given.
    pub fn location(&self) -> &Path {
        &self.location
    }

    /// Checks the scale.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is not finite.
    pub(crate) fn check(&self) -> Result<()> {
        match self.scale.is_finite() {
            true => Ok(()),
            false => {
                let error = Error::new(ErrorKind::InvalidArgument, "the scale of an adapter is not finite");
                Err(error.in_file(&self.location.display().to_string()))
            }
        }
    }
}
