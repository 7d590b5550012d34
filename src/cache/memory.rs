//! Whether the browser keeps the origin private file system in memory, as Chromium does in private windows.
//!
//! No API says so. But files on a disk are open in the worker's own process, where asking for their length is one
//! system call; files in memory belong to the browser's process, and every question goes there and back. Mean time of
//! one `getSize()` over 16 calls, the least of 9 such rounds, in 156 with 2 cores under a load of 20:
//!
//! | | least | median | most |
//! | --- | --- | --- | --- |
//! | on a disk | 0 µs | 0 µs | 19 µs |
//! | in memory | 138 µs | 225 µs | 3,469 µs |
//!
//! A slow disk does not matter, since its length is known without it.

use super::opfs::Folder;
use super::storage::Storage;
use crate::browser::navigator::navigator;
use crate::browser::timer::now_ms;
use crate::error::{Error, ErrorKind, Result};
use js_sys::Math;

/// Browsers measure time in steps of 0.1 ms: so many calls on a disk take less than that.
const CALLS: u32 = 32;

/// More than a call on a disk takes, and less than one between processes.
const LIMIT_US: f64 = 8.0;

/// One round below the limit is enough to know that the files are on a disk: the others may have been interrupted.
const ROUNDS: u32 = 6;

/// Measures it.
pub(super) async fn is_in_memory() -> bool {
    measure().await.unwrap_or(false) // whatever fails here fails again where files are kept
}

/// Uses a file of its own, which no other code opens or lists.
async fn measure() -> Result<bool> {
    // In other browsers a file may be in another process also where it is on a disk; in private windows they have none.
    if navigator("userAgentData").is_err() {
        return Ok(false);
    }
    let (folder, name) = (Folder::root().await?, format!("weightstream-{:x}", (Math::random() * 2f64.powi(53)) as u64));
    let no_file = || Error::new(ErrorKind::Io, "the browser's storage failed (a new file is not there)");
    let mut file = folder.file(&name, true).await?.ok_or_else(no_file)?;
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
    folder.remove(&name).await?;
    Ok(is_slow)
}
