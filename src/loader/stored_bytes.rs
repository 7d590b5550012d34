//! Reads bytes of a file as they are stored, for checksums.

use crate::error::Result;
use crate::loader::Loader;
use crate::loader::shard::Shard;
use crate::loader::transfer::range_reader::Chunk;
use crate::loader::transfer::truncated::truncated_error;
use crate::source::{Buffer, ModelSource};
use futures::future::{FutureExt, LocalBoxFuture};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

impl<S: ModelSource> Loader<S> {
    /// Reads stored bytes of a file, which were read already or are not part of a tensor.
    pub(crate) fn read_stored<'a>(
        &'a self,
        shard: usize,
        range: Range<u64>,
        take: &'a mut dyn FnMut(u64, &[u8]),
    ) -> LocalBoxFuture<'a, Result<()>> {
        let read = async move {
            let Some(Shard { file, .. }) = self.shards.get(shard) else { return Ok(()) };
            let mut reading = file.start(range.clone(), Rc::new(Cell::new(range.end)));
            while reading.position < range.end {
                let mut at = reading.position;
                let chunk = reading.chunk(range.end - at).await.and_then(|chunk| {
                    chunk.ok_or_else(|| truncated_error(range.start, at, range.end)) // the file became shorter
                });
                let Chunk { buffer, length, .. } = chunk.map_err(|e| e.in_file(file.source.name()))?;
                buffer.inspect(0..length, &mut |bytes| {
                    take(at, bytes);
                    at += bytes.len() as u64;
                    Ok(())
                })?;
            }
            file.finish(reading);
            Ok(())
        };
        read.boxed_local()
    }
}
