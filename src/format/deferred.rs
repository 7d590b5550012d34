//! Stops parsers whose code is in a part of the npm package's module that is not loaded yet.

#[cfg(npm)]
use crate::deferred;
use crate::window::Stop;

/// Checks that the deferred code of formats can be called.
///
/// # Errors
/// [`Stop::Deferred`] if it must be loaded first.
pub(super) fn check() -> Result<(), Stop> {
    #[cfg(npm)]
    if !deferred::is_loaded(deferred::Code::Formats) {
        return Err(Stop::Deferred);
    }
    Ok(())
}
