//! Stops parsers whose code is in a part of the npm package's module that is not loaded yet.

use crate::deferred::Code;
#[cfg(npm)]
use crate::deferred::is_loaded;
use crate::window::Stop;

/// Checks that the code of a part can be called.
///
/// # Errors
/// [`Stop::Deferred`] if it must be loaded first.
pub(super) fn check(code: Code) -> Result<(), Stop> {
    #[cfg(npm)]
    if !is_loaded(code) {
        return Err(Stop::Deferred(code));
    }
    let _ = code; // without parts, all code is loaded
    Ok(())
}
