//! Adds a difference to the tensor of the previous revision.

use crate::algorithm::Algorithm;
use crate::buffer::Buffer;
use crate::codec::difference;
use crate::codec::digest::{Hasher, compare, digest_of, digest_of_buffer};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::index::differences::{Difference, Differences};
use crate::loader::{Loader, TensorRequest};
use crate::source::{BufferOf, ModelSource};
use futures::future::FutureExt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The number of bytes that are added at once.
const STEP_BYTES: u64 = 64 << 10;

/// A tensor, and what verified it.
type Sum<S> = (BufferOf<S>, Algorithm);

impl<S: ModelSource> Loader<S> {
    /// Whether a tensor has a difference whose base is at hand.
    pub(super) async fn has_base(self: &Rc<Self>, tensor: &Tensor) -> bool {
        let mut step = self.differences(tensor);
        while let Some(differences) = step {
            let Some(stated) = differences.get(&tensor.name) else { return false };
            let is_here = match &self.options.previous {
                Some(previous) => previous.has(&tensor.name),
                None => self.held(stated).await.is_some(),
            };
            if is_here {
                return true;
            }
            step = differences.before(&tensor.name);
        }
        false
    }

    /// The sum of a tensor of an earlier revision and the differences to it; `None` if that tensor is not at hand.
    ///
    /// # Errors
    /// `CHECKSUM` if the sum is not the stated tensor; `FORMAT` for a difference of another shape; errors of reading
    /// the difference.
    pub(super) async fn sum(
        self: &Rc<Self>,
        tensor: &Arc<Tensor>,
        differences: &Differences,
    ) -> Result<Option<Sum<S>>> {
        let Some(stated) = differences.get(&tensor.name) else { return Ok(None) };
        let base = match (self.base(tensor, stated).await, differences.before(&tensor.name)) {
            (Some(base), _) => base,
            (None, Some(before)) => match self.sum(tensor, before).boxed_local().await? {
                Some((base, _)) => base,
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        let changes = self.changes(differences).await?;
        let change = changes.load_like(tensor).await?;
        match add(base, &change, tensor, stated.result) {
            Err(error) if error.kind == ErrorKind::Checksum => {
                self.reject_wrong(tensor, stated, &changes).await;
                Err(error)
            }
            sum => sum.map(Some),
        }
    }

    /// Removes from the cache what led to a wrong sum, or each load would try again: the base if it is not the stated
    /// one, else the difference.
    async fn reject_wrong(self: &Rc<Self>, tensor: &Tensor, stated: &Difference, changes: &Loader<S>) {
        let base = self.base(tensor, stated).await;
        let is_intact =
            base.is_none_or(|base| digest_of_buffer(&base, stated.base).is_ok_and(|digest| digest == stated.base));
        let wrong = match self.held(stated).await {
            Some(base) if !is_intact => base.shards.first().map(|shard| Rc::clone(&shard.file)),
            _ => changes.shards.first().map(|shard| Rc::clone(&shard.file)),
        };
        wrong.iter().for_each(|file| file.source.reject());
    }

    /// The tensor of the previous revision.
    async fn base(self: &Rc<Self>, tensor: &Tensor, stated: &Difference) -> Option<BufferOf<S>> {
        if let Some(previous) = &self.options.previous {
            let bytes =
                previous.dense(&tensor.name).ok().filter(|bytes| digest_of(bytes, stated.base) == stated.base)?;
            let mut buffer = BufferOf::<S>::allocate(bytes.len() as u64).ok()?;
            buffer.write(0, &bytes).ok()?;
            return Some(buffer);
        }
        self.held(stated).await?.load_like(tensor).await.ok()
    }

    /// The dense tensor with the same name and length. Nothing is read of another one, which may be of any length.
    async fn load_like(self: &Rc<Self>, tensor: &Tensor) -> Result<BufferOf<S>> {
        let found = self.find(&tensor.name).await?;
        if found.components.len() != 1 || found.byte_length().is_none() || found.byte_length() != tensor.byte_length() {
            return Err(unequal());
        }
        let loaded = self.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await?;
        loaded.components.into_iter().next().map(|component| component.buffer).ok_or_else(unequal)
    }
}

/// Adds a difference to a tensor, and compares the sum with its digest.
fn add<B: Buffer>(mut base: B, change: &B, tensor: &Tensor, result: Digest) -> Result<(B, Algorithm)> {
    let length = base.byte_length();
    let width =
        tensor.dtype.block().filter(|block| block.elements == 1).map(|block| block.bytes).ok_or_else(unequal)?;
    if length != change.byte_length() || tensor.byte_length() != Some(length) || tensor.components.len() != 1 {
        return Err(unequal());
    }
    let (mut hasher, mut sum, mut changes) = (Hasher::new(result), Vec::new(), Vec::new());
    let mut at = 0;
    while at < length {
        let range = at..length.min(at + STEP_BYTES);
        read(&base, range.clone(), &mut sum)?;
        read(change, range.clone(), &mut changes)?;
        if !difference::apply(&mut sum, &changes, width) {
            return Err(unequal());
        }
        hasher.update(&sum);
        base.write(at, &sum)?;
        at = range.end;
    }
    let verified = compare(hasher.finish(), result)?;
    Ok((base, verified))
}

fn unequal() -> Error {
    Error::new(ErrorKind::Format, "it is for another shape or dtype")
}

fn read<B: Buffer>(buffer: &B, range: Range<u64>, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    buffer.inspect(range, &mut |bytes| {
        into.extend_from_slice(bytes);
        Ok(())
    })
}
