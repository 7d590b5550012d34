//! How much may be kept, and what goes when there is no more room.

use super::{CONTENTS, Store, glance, lock_name};
use crate::browser::lock::Lock;
use crate::cache::opfs::{NO_ROOM, failed, room_bytes};
use crate::error::{Error, ErrorKind, Result};

/// How many bytes may be written before the browser is asked again how much room there is.
const ROOM_STEP_BYTES: u64 = 64 << 20;

impl Store {
    /// Sees to it that `byte_length` bytes can be written, and forgets what was not used for longest if they cannot.
    pub(super) async fn make_room(&mut self, byte_length: u64, name: &str) -> Result<()> {
        while self.room_bytes < byte_length {
            self.room_bytes = room_bytes(0).await?.min(ROOM_STEP_BYTES);
            if self.room_bytes < byte_length && !self.remove_oldest(name).await? {
                self.room_bytes = 0;
                return Err(Error::new(ErrorKind::Limit, NO_ROOM));
            }
        }
        self.room_bytes -= byte_length;
        Ok(())
    }

    /// Removes the file that was not used for longest. Not one that is in use: loading a model of many files must not
    /// remove its own first ones.
    pub(super) async fn remove_oldest(&mut self, but: &str) -> Result<bool> {
        let mut candidates = Vec::new();
        for entry in self.folder.entries().await? {
            let last_used_ms = glance(&entry).await.map_or(0, |(_, last_used_ms)| last_used_ms);
            if entry.name != but && entry.name != CONTENTS && last_used_ms < self.started_ms {
                candidates.push((last_used_ms, entry.name));
            }
        }
        while let Some(oldest) =
            candidates.iter().enumerate().min_by_key(|(_, (used_ms, _))| *used_ms).map(|(at, _)| at)
        {
            let (_, name) = candidates.swap_remove(oldest);
            self.open.remove(&name);
            if let Some(lock) = Lock::try_now(&lock_name(&name)).await.map_err(failed)? {
                self.folder.remove(&name).await?;
                drop(lock);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
