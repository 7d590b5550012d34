//! The deferred part of the npm package's module: the formats whose parsers are `deferred`, the layouts APR1, APRN and
//! the wrapper of APR1, and Zstandard. It is loaded when a file needs it. `xtask/src/split.rs` splits the module.

use crate::window::Stop;

#[cfg(all(target_arch = "wasm32", feature = "js"))]
mod state {
    use std::cell::Cell;

    thread_local! {
        static IS_LOADED: Cell<bool> = const { Cell::new(true) };
    }

    /// Whether all code can be called. It can unless [`set_loaded`] said otherwise: a module need not be split.
    pub(crate) fn is_loaded() -> bool {
        IS_LOADED.get()
    }

    pub(crate) fn set_loaded(is_loaded: bool) {
        IS_LOADED.set(is_loaded);
    }
}

#[cfg(all(target_arch = "wasm32", feature = "js"))]
pub(crate) use state::{is_loaded, set_loaded};

/// Checks that deferred code can be called. Outside of the npm package, no code is deferred.
///
/// # Errors
/// [`Stop::Deferred`] if it must be loaded first.
pub(crate) fn check() -> Result<(), Stop> {
    #[cfg(all(target_arch = "wasm32", feature = "js"))]
    if !is_loaded() {
        return Err(Stop::Deferred);
    }
    Ok(())
}
