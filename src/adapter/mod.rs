//! Adapters (LoRA): the updates of a model's weights in a small file of their own, which are added while the weights
//! load.
//!
//! ```text
//! Index of the model ─┐
//!                     ├──▶ apply ──▶ Index with one adapted tensor for each weight that the adapter updates
//! Index of the adapter┘
//! ```
//!
//! [`pairs`] recognizes which tensors of an adapter belong to an update, by the names of PEFT, of kohya's scripts and
//! of GGUF, and [`names`] finds its weight. An [`adapted`] tensor has the parts of the weight and of its updates as
//! components, and [`scheme`] computes `W + scale · B·A` for its rows. So rows, workers, pieces and conversions work as
//! for quantized tensors.

mod adapted;
mod apply;
mod names;
mod pairs;
mod peft;
mod scheme;
mod update;

pub(crate) use apply::apply;
pub use peft::AdapterConfig;

use crate::error::{Error, ErrorKind, Result};
use crate::index::Index;
use pairs::Pairs;
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

/// The file of an adapter.
#[derive(Debug, Clone)]
pub(crate) struct AdapterFile {
    /// The name of the file in error messages.
    pub(crate) name: String,
    pub(crate) index: Index,
    pub(crate) settings: Adapter,
}

impl AdapterFile {
    /// Whether the adapter cannot be applied without its `adapter_config.json`, which was not given.
    ///
    /// # Errors
    /// `UNSUPPORTED` and `FORMAT` for a file that is no adapter, or another kind of one.
    pub(crate) fn needs_config(&self) -> Result<bool> {
        let pairs = Pairs::of(&self.index).map_err(|error| error.in_file(&self.name))?;
        Ok(self.settings.config.is_none() && pairs.need_config())
    }

    /// The adapter with the configuration that was found beside it.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none.
    pub(crate) fn with_config(mut self, found: Option<AdapterConfig>) -> Result<Self> {
        let Some(found) = found else {
            let what = "`adapter_config.json` is missing beside the adapter; it states how updates are scaled";
            let error = Error::new(ErrorKind::NotFound, what).in_file(&self.name);
            return Err(error.advise("Put it beside the adapter, or give it as `config` of the adapter."));
        };
        self.settings.config = Some(found);
        Ok(self)
    }
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
