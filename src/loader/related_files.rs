//! The files that differences to the previous revision need besides those of the model.
//!
//! The code that opens and reads them is deferred in the npm package: see [`differences`](super::differences).

use crate::deferred::Code;
use crate::error::Result;
use crate::index::{Manifest, Tensor};
use crate::loader::Loader;
use crate::loader::transfer::file::ModelFile;
use crate::source::ModelSource;
use futures::future::{LocalBoxFuture, WeakShared};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A file, or `None` for one of the previous revision that is not at hand.
pub(super) type Opened<S> = Option<Rc<Loader<S>>>;

/// A file that differences need.
pub(super) enum RelatedFile<S: ModelSource> {
    /// It is being opened. All calls that need it continue this, so that none waits for one that does not continue.
    Opening(WeakShared<LocalBoxFuture<'static, Result<Opened<S>>>>),
    Opened(Opened<S>),
}

/// The files of one model.
pub(super) struct RelatedFiles<S: ModelSource> {
    /// The manifest, to which paths are relative, if it states differences.
    pub(super) manifest: Option<Rc<ModelFile<S>>>,
    /// By path.
    pub(super) open: RefCell<HashMap<String, RelatedFile<S>>>,
    /// Whether a difference did not lead to the stated tensor. The others are then not used.
    pub(super) is_disabled: Cell<bool>,
    /// Why the last difference that failed was not used, with the number of the tensor's file.
    pub(super) warning: RefCell<Option<(usize, String)>>,
}

impl<S: ModelSource> RelatedFiles<S> {
    /// None is open yet. `file` is that from which the model was opened.
    pub(super) fn of(file: Rc<ModelFile<S>>, manifest: Option<&Manifest>) -> Self {
        let publication = manifest.and_then(|manifest| manifest.publication.as_ref());
        let states_differences = publication.is_some_and(|publication| publication.differences().is_some());
        let manifest = states_differences.then_some(file);
        let (open, is_disabled, warning) = Default::default();
        RelatedFiles { manifest, open, is_disabled, warning }
    }
}

impl<S: ModelSource> Loader<S> {
    /// Whether tensors may be at hand in another file: the dense bytes of one, or what one has differences to.
    pub(super) async fn may_have_substitutes(self: &Rc<Self>, tensors: &[Arc<Tensor>]) -> bool {
        // What is at hand are tensors of the model, without its adapters.
        !self.has_adapters()
            && (self.has_differences()
                || tensors.iter().any(|tensor| has_streams(tensor))
                    && !self.is_bound_to_files()
                    && !self.find_dense_copies(tensors).await.is_empty())
    }

    /// Whether the model states differences to its previous revision.
    fn has_differences(&self) -> bool {
        self.related.manifest.is_some()
    }

    /// Whether the files themselves must be read: a signed or pinned file.
    pub(super) fn is_bound_to_files(&self) -> bool {
        self.options.signature.is_some() || !self.options.digests.files.is_empty()
    }

    /// Loads the code that uses these files. Returns false if it cannot be loaded: tensors are then read themselves.
    pub(super) async fn load_substitute_code(&self) -> bool {
        match self.shards.first() {
            Some(shard) => shard.file.source.host().load_code(Code::Extras).await.is_ok(),
            None => true,
        }
    }
}

/// Whether a tensor is in streams of bytes. The code of these is then loaded.
pub(super) fn has_streams(tensor: &Tensor) -> bool {
    tensor.components.iter().any(|component| component.streams().is_some())
}
