//! Storage quota and eviction.

use super::{CONTENTS, Store, lock_name, read_header};
use crate::browser::lock::Lock;
use crate::cache::opfs::{QUOTA_EXCEEDED, available_bytes, storage_error};
use crate::error::{Error, ErrorKind, Result};

/// Number of bytes that may be written before the storage estimate is queried again.
const QUOTA_CHECK_BYTES: u64 = 64 << 20;

impl Store {
    /// Reserves space for `byte_length` bytes. Evicts the least recently used files if there is not enough space.
    pub(super) async fn reserve(&mut self, byte_length: u64, name: &str) -> Result<()> {
        while self.available_bytes < byte_length {
            self.available_bytes = available_bytes(0).await?.min(QUOTA_CHECK_BYTES);
            if self.available_bytes < byte_length && !self.remove_oldest(name).await? {
                self.available_bytes = 0;
                return Err(Error::new(ErrorKind::Limit, QUOTA_EXCEEDED));
            }
        }
        self.available_bytes -= byte_length;
        Ok(())
    }

    /// Deletes the least recently used file, but not `except` or files that are in use: a load of a model with many
    /// files must not evict the first files of the same model. Returns whether a file was deleted.
    pub(super) async fn remove_oldest(&mut self, except: &str) -> Result<bool> {
        let mut candidates = Vec::new();
        for entry in self.directory.entries().await? {
            let last_used_ms = read_header(&entry).await.map_or(0, |(_, last_used_ms)| last_used_ms);
            if entry.name != except && entry.name != CONTENTS && last_used_ms < self.started_ms {
                candidates.push((last_used_ms, entry.name));
            }
        }
        while let Some(oldest) =
            candidates.iter().enumerate().min_by_key(|(_, (used_ms, _))| *used_ms).map(|(at, _)| at)
        {
            let (_, name) = candidates.swap_remove(oldest);
            self.open.retain(|open| open.name != name);
            if let Some(lock) = Lock::try_now(&lock_name(&name)).await.map_err(storage_error)? {
                self.directory.remove(&name).await?;
                drop(lock);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
