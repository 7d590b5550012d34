//! The parts of the npm package's module that are loaded only when something needs them. `xtask/src/parts.rs`
//! lists them. Outside of the npm package, no code is deferred.

/// The code of one part of the module, besides the main part, which every page loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(npm), allow(dead_code, reason = "only the npm package has parts"))]
pub enum Code {
    /// The formats whose parsers are `deferred`, the layouts APR1, APRN and the wrapper of APR1, and what only these
    /// have: Zstandard, page digests and sparse tensors.
    Formats,
    /// The persistent cache: its client, its worker and cached sources.
    Cache,
    /// What few pages need before their first tensor: files of any format, pieces of tensors and of views, rows of
    /// tensors with streams, repositories on a hub, signed models, and the choice of a model among several files.
    Extras,
    /// The parsers of manifests, and the kinds of files that are no models.
    Manifests,
    /// Workers that decode and digest: the page's side and theirs.
    Workers,
    /// Conversions to floats.
    Calls,
    /// The cache in IndexedDB or in an object of the caller.
    Databases,
    /// The containers of other tools: NumPy, PyTorch, HDF5, TensorFlow.js, TensorFlow Lite and MLC.
    Containers,
    /// Quantized tensors of several components, and adapters.
    Quantization,
    /// BLAKE3, with which few models are digested.
    Blake3,
    /// Lists, finds and deletes cached files, and shares files with other sites.
    CachedFiles,
    /// Reads files that have mirrors.
    Mirrors,
}

impl Code {
    /// All parts, in the order of their numbers.
    #[cfg(npm)]
    pub(crate) const ALL: [Code; 12] = [
        Code::Formats,
        Code::Cache,
        Code::Extras,
        Code::Manifests,
        Code::Workers,
        Code::Calls,
        Code::Databases,
        Code::Containers,
        Code::Quantization,
        Code::Blake3,
        Code::CachedFiles,
        Code::Mirrors,
    ];

    /// The part that this one calls, which is loaded before it.
    #[cfg(npm)]
    pub(crate) fn base(self) -> Option<Code> {
        match self {
            Code::Containers | Code::Quantization => Some(Code::Formats),
            Code::CachedFiles => Some(Code::Cache),
            _ => None,
        }
    }
}

#[cfg(npm)]
mod state {
    use super::Code;
    use std::cell::Cell;

    thread_local! {
        static MISSING: [Cell<bool>; Code::ALL.len()] = const { [const { Cell::new(false) }; Code::ALL.len()] };
        static HAS_BLAKE3: Cell<bool> = const { Cell::new(false) };
    }

    /// States that a BLAKE3 digest was read, so that its code will be needed to compare it.
    pub(crate) fn expect_blake3() {
        HAS_BLAKE3.set(true);
    }

    /// The code that digests need which were read since the last call, but which is not loaded yet.
    pub(crate) fn expected() -> Option<Code> {
        (HAS_BLAKE3.take() && !is_loaded(Code::Blake3)).then_some(Code::Blake3)
    }

    /// Whether the code of a part can be called. It can unless [`set_loaded`] said otherwise: a module need not be
    /// split.
    pub(crate) fn is_loaded(code: Code) -> bool {
        MISSING.with(|missing| !missing.get(code as usize).is_some_and(Cell::get))
    }

    pub(crate) fn set_loaded(code: Code, is_loaded: bool) {
        MISSING.with(|missing| {
            if let Some(missing) = missing.get(code as usize) {
                missing.set(!is_loaded);
            }
        });
    }
}

#[cfg(npm)]
pub(crate) use state::{expect_blake3, expected, is_loaded, set_loaded};
