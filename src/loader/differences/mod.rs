//! Tensors that need not be downloaded: those whose dense bytes are cached, and those of a published model that differ
//! little from the previous revision, if that is at hand: in the cache of a browser, or natively in a folder.
//!
//! Whole tensors are loaded so; rows, pieces and views read the tensor itself. The result is compared with its digest
//! before it is returned. If anything is missing or wrong, the tensor itself is read.

mod related;
mod stream;
mod sum;

use crate::algorithm::Algorithm;
use crate::codec::digest::digest_of_buffer;
use crate::error::{ErrorKind, Result};
use crate::index::differences::Differences;
use crate::index::{Layout, Tensor};
use crate::loader::prefetch_progress::report_all;
use crate::loader::related_files::has_streams;
use crate::loader::schedule::planned::Form;
use crate::loader::{Loaded, LoadedComponent, Loader, TensorRequest};
use crate::progress::Progress;
use crate::source::{BufferOf, ModelSource};
use futures::future::{FutureExt, LocalBoxFuture};
use std::rc::Rc;
use std::sync::Arc;

/// A tensor, or the request that must be fulfilled in another way.
type LoadedOr<B> = std::result::Result<Loaded<B>, TensorRequest<B>>;

impl<S: ModelSource> Loader<S> {
    /// The differences to the previous revision, if they may be used for a tensor: not for one on another host than the
    /// manifest.
    fn differences(&self, tensor: &Tensor) -> Option<&Differences> {
        let is_elsewhere = self.shards.get(tensor.shard)?.part().is_some_and(|part| part.url.is_some());
        let differences = self.assembly.manifest.as_ref()?.publication.as_ref()?.differences()?;
        (!self.is_bound_to_files() && !is_elsewhere && !self.related.is_disabled.get()).then_some(differences)
    }

    /// A whole tensor that need not be downloaded. Returns the request if the tensor itself must be read.
    ///
    /// # Errors
    /// Those of finding the tensor, and of a request that cannot be fulfilled.
    #[inline(never)]
    pub(super) fn load_substitute<'a>(
        self: &'a Rc<Self>,
        name: &'a str,
        request: TensorRequest<BufferOf<S>>,
        observer: Rc<dyn Progress>,
    ) -> LocalBoxFuture<'a, Result<LoadedOr<BufferOf<S>>>> {
        let load = async move {
            let tensor = self.find(name).await?;
            let TensorRequest { into, dtype, is_dense, .. } = request;
            let form = Form { dtype: dtype.as_ref(), is_dense };
            let into = self.plan(Arc::clone(&tensor), None, into, form)?.into; // before anything is downloaded
            let _goes_first = self.priority.demand();
            match self.substitute(&tensor).await {
                Some(loaded) => {
                    report_all(&tensor, &*observer);
                    self.in_form(loaded, form)?.placed(into).map(Ok)
                }
                None => Ok(Err(TensorRequest { rows: None, into, dtype, is_dense })),
            }
        };
        load.boxed_local()
    }

    /// A tensor that need not be downloaded, unless it must be read itself.
    async fn substitute(self: &Rc<Self>, tensor: &Arc<Tensor>) -> Option<Loaded<BufferOf<S>>> {
        let copy = match has_streams(tensor) && !self.is_bound_to_files() {
            true => self.dense_copy(tensor).await,
            false => None,
        };
        let (buffer, verified) = match copy {
            Some(copy) => copy,
            None => self.summed(tensor).await?,
        };
        let verified = match self.pinned.get(&tensor.name) {
            None => verified,
            Some(pinned) if digest_of_buffer(&buffer, *pinned).is_ok_and(|digest| digest == *pinned) => {
                pinned.algorithm()
            }
            Some(_) => return None, // the error is that of the tensor itself
        };
        Some(loaded(tensor, buffer, verified))
    }

    /// A tensor as the sum of the earlier one and the difference.
    async fn summed(self: &Rc<Self>, tensor: &Arc<Tensor>) -> Option<(BufferOf<S>, Algorithm)> {
        match self.sum(tensor, self.differences(tensor)?).await {
            Ok(sum) => sum,
            Err(error) => {
                // The next tensor would have the same error, unless it was one of the connection.
                if !error.is_transient && error.kind != ErrorKind::Limit {
                    self.related.is_disabled.set(true);
                }
                let what = format!("the difference of \"{}\" is not used: {error}", tensor.name);
                self.related.warning.replace(Some((tensor.shard, what)));
                None
            }
        }
    }
}

fn loaded<B>(tensor: &Arc<Tensor>, buffer: B, verified: Algorithm) -> Loaded<B> {
    let dtype = tensor.dtype.clone();
    let component =
        tensor.components.first().map(|data| LoadedComponent { role: data.role.clone(), dtype: dtype.clone(), buffer });
    Loaded {
        tensor: Arc::clone(tensor),
        dtype,
        layout: Layout::Dense,
        shape: tensor.shape.to_vec(),
        components: component.into_iter().collect(),
        verified: Some(verified),
    }
}
