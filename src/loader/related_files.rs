//! The files that differences to the previous revision need besides those of the model.
//!
//! The code that opens and reads them is deferred in the npm package: see [`differences`](super::differences).

use crate::deferred::Code;
use crate::error::Result;
use crate::loader::Loader;
use crate::source::ModelSource;
use futures::future::{LocalBoxFuture, Shared};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// A file that is being opened, or was; `None` for a file of the previous revision that is not at hand. All calls that
/// need it continue this, so that none waits for one that does not continue.
pub(super) type Opening<S> = Shared<LocalBoxFuture<'static, Result<Option<Rc<Loader<S>>>>>>;

/// The files of one model.
pub(super) struct RelatedFiles<S: ModelSource> {
    /// By path.
    pub(super) open: RefCell<HashMap<String, Opening<S>>>,
    /// Whether a difference did not lead to the stated tensor. The others are then not used.
    pub(super) is_disabled: Cell<bool>,
}

impl<S: ModelSource> Default for RelatedFiles<S> {
    fn default() -> Self {
        RelatedFiles { open: RefCell::default(), is_disabled: Cell::new(false) }
    }
}

impl<S: ModelSource> Loader<S> {
    /// Whether the model states differences to its previous revision.
    pub(super) fn has_differences(&self) -> bool {
        let publication = self.assembly.manifest.as_ref().and_then(|manifest| manifest.publication.as_ref());
        publication.is_some_and(|publication| publication.differences().is_some())
    }

    /// Loads the code that reads differences. Returns false if it cannot be loaded: tensors are then read themselves.
    pub(super) async fn load_difference_code(&self) -> bool {
        match self.shards.first() {
            Some(shard) => shard.file.source.host().load_code(Code::Extras).await.is_ok(),
            None => true,
        }
    }
}
