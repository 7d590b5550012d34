//! Stops a conversion that the user interrupts.

use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;

/// Fails if the user interrupts the call.
///
/// # Errors
/// `IO`.
pub fn check_cancelled(progress: &(dyn Progress + Sync)) -> Result<()> {
    match progress.is_cancelled() {
        true => Err(Error::new(ErrorKind::Io, "the conversion was interrupted").advise("Run it again.")),
        false => Ok(()),
    }
}
