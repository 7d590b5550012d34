//! Detects whether the browser keeps OPFS in memory, as Chromium does in private windows.
//!
//! No API reports this. However, files on a disk are open in the worker's own process, where `getSize()` is one system
//! call. Files in memory belong to the browser process, and every call is a round trip to it. Mean time of one
//! `getSize()` over 16 calls, the minimum of 9 such rounds, in Chromium 156 with 2 cores under a load of 20:
//!
//! | | minimum | median | maximum |
//! | --- | --- | --- | --- |
//! | on a disk | 0 µs | 0 µs | 19 µs |
//! | in memory | 138 µs | 225 µs | 3,469 µs |
//!
//! The speed of the disk does not matter, because `getSize()` does not access it.

use super::opfs::{Directory, IfMissing};
use super::storage::Storage;
use crate::browser::navigator::navigator;
use crate::browser::timer::now_ms;
use crate::error::{Error, ErrorKind, Result};
use js_sys::Math;

/// Number of calls per round. Timers of browsers have a resolution of 0.1 ms, and this many calls on a disk take less.
const CALLS: u32 = 32;

/// Longer than a call for a file on a disk, and shorter than a call to another process.
const LIMIT_US: f64 = 8.0;

/// Maximum number of rounds. One round below the limit proves that the files are on a disk: slower rounds may have been
/// interrupted.
const ROUNDS: u32 = 6;

/// Whether OPFS is in memory.
pub(super) async fn is_in_memory() -> bool {
    measure().await.unwrap_or(false) // the same failure recurs when a log is opened
}

/// Measures with a temporary file in the root directory, which no other code opens or lists.
async fn measure() -> Result<bool> {
    // Only Chromium has `userAgentData`. In other browsers, files on a disk may be in another process, too, and private
    // windows have no OPFS.
    if navigator("userAgentData").is_err() {
        return Ok(false);
    }
    let directory = Directory::root().await?;
    let name = format!("weightstream-{:x}", (Math::random() * 2f64.powi(53)) as u64);
    let no_file = || Error::new(ErrorKind::Io, "the browser's storage failed (a new file does not exist)");
    let mut file = directory.file(&name, IfMissing::Create).await?.ok_or_else(no_file)?;
    let mut is_slow = true;
    for _ in 0..ROUNDS {
        let start = now_ms();
        for _ in 0..CALLS {
            file.byte_length()?;
        }
        if (now_ms() - start) * 1000.0 < LIMIT_US * f64::from(CALLS) {
            is_slow = false;
            break;
        }
    }
    drop(file);
    directory.remove(&name).await?;
    Ok(is_slow)
}
