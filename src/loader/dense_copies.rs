//! Tensors in streams of bytes whose dense bytes are cached, from a file that stores them without compression: a model
//! that is published again in a smaller encoding is not downloaded again.
//!
//! This code is in a deferred part of the npm package, which formats with streams load.

use crate::algorithm::Algorithm;
use crate::buffer::Buffer;
use crate::codec::digest::{Hasher, compare};
use crate::digest::Digest;
use crate::index::Tensor;
use crate::loader::Loader;
use crate::plan::DEFAULT_COALESCE_GAP_BYTES;
use crate::source::{BufferOf, ModelSource};
use futures::future::{FutureExt, LocalBoxFuture};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

impl<S: ModelSource> Loader<S> {
    /// The names of the tensors whose dense bytes are cached.
    #[inline(never)]
    pub(super) fn find_dense_copies<'a>(
        self: &'a Rc<Self>,
        tensors: &'a [Arc<Tensor>],
    ) -> LocalBoxFuture<'a, HashSet<String>> {
        let find = async move {
            let mut by_shard: BTreeMap<usize, Vec<(&str, Digest)>> = BTreeMap::new();
            for tensor in tensors {
                if let Some(digest) = self.dense_digest(tensor) {
                    by_shard.entry(tensor.shard).or_default().push((&tensor.name, digest));
                }
            }
            let mut found = HashSet::new();
            for (shard, wanted) in by_shard {
                let Some(shard) = self.shards.get(shard) else { continue };
                let digests: Vec<_> = wanted.iter().map(|(_, digest)| *digest).collect();
                let is_cached = shard.file.source.has_contents(&digests).await;
                let cached = wanted.iter().zip(is_cached).filter(|(_, is_cached)| *is_cached);
                found.extend(cached.map(|((name, _), _)| (*name).to_owned()));
            }
            found
        };
        find.boxed_local()
    }

    /// The dense bytes of a tensor from the cache, compared with their digest. `None` if they are not cached.
    #[inline(never)]
    pub(super) fn dense_copy<'a>(
        self: &'a Rc<Self>,
        tensor: &'a Tensor,
    ) -> LocalBoxFuture<'a, Option<(BufferOf<S>, Algorithm)>> {
        let read = async move {
            let (digest, byte_length) = (self.dense_digest(tensor)?, tensor.byte_length()?);
            let source = &self.file_of(tensor).ok()?.source;
            let (mut buffer, mut hasher, mut at) = (None, Hasher::new(digest), 0);
            let mut take = |bytes: &[u8]| {
                let allocated = buffer.take().map_or_else(|| BufferOf::<S>::allocate(byte_length), Ok)?;
                hasher.update(bytes);
                buffer.insert(allocated).write(at, bytes)?;
                at += bytes.len() as u64;
                Ok(())
            };
            let is_read = source.read_content(&digest, byte_length, &mut take).await.unwrap_or(false);
            let buffer = buffer.filter(|_| is_read && at == byte_length)?;
            let verified = compare(hasher.finish(), digest);
            if verified.is_err() {
                source.forget_content(&digest);
            }
            Some((buffer, verified.ok()?))
        };
        read.boxed_local()
    }

    /// The strong digest of the dense bytes of a tensor in streams, of its file or the entry, unless the tensor is so
    /// small that caches do not find it.
    fn dense_digest(&self, tensor: &Tensor) -> Option<Digest> {
        let [component] = tensor.components.as_slice() else { return None };
        tensor.byte_length().filter(|length| *length >= DEFAULT_COALESCE_GAP_BYTES)?;
        let streams = component.streams()?;
        let publication = || self.assembly.manifest.as_ref()?.publication.as_ref();
        let of_entry = || publication()?.dense_digest(&tensor.name);
        streams.digest().filter(Digest::is_strong).or_else(of_entry).filter(Digest::is_strong)
    }
}
