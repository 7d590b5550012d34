//! The bytes of an object as they arrive.

use super::error::object_error;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::GetResult;
use std::fmt;
use std::ops::Range;
use weightstream::Result;
use weightstream::internals::source::{Body, Buffer};

/// The body of a response of an object store.
pub struct ObjectBody {
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    /// Received bytes that were not read yet.
    chunk: Bytes,
}

impl ObjectBody {
    pub(super) fn new(got: GetResult) -> Self {
        ObjectBody { stream: got.into_stream(), chunk: Bytes::new() }
    }
}

impl fmt::Debug for ObjectBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectBody").field("chunk", &self.chunk.len()).finish_non_exhaustive()
    }
}

impl Body for ObjectBody {
    type Buffer = Vec<u8>;

    async fn read(&mut self, into: &mut Vec<u8>, at: Range<u64>) -> Result<u64> {
        while self.chunk.is_empty() {
            match self.stream.next().await {
                Some(chunk) => self.chunk = chunk.map_err(|error| object_error(error).transient())?,
                None => return Ok(0),
            }
        }
        let capacity = usize::try_from(at.end - at.start).unwrap_or(usize::MAX);
        let taken = self.chunk.split_to(capacity.min(self.chunk.len()));
        into.write(at.start, &taken)?;
        Ok(taken.len() as u64)
    }
}
