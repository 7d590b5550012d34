//! Verifies a whole model.

use crate::error::Result;
use crate::index::{Algorithm, Tensor};
use crate::loader::Loader;
use crate::loader::schedule::batch::Call;
use crate::loader::schedule::file_checks::WholeChecks;
use crate::loader::schedule::planned::Form;
use crate::loader::verified::Verified;
use crate::progress::Progress;
use crate::source::ModelSource;
use futures::stream::TryStreamExt;
use std::rc::Rc;
use std::sync::Arc;

impl<S: ModelSource> Loader<S> {
    /// Reads and verifies the whole model without holding tensors in memory. Returns the algorithm that
    /// verified everything: every file has a checksum of it over the whole file, or digests of it for all its tensors.
    /// `None` if a tensor has no checksum, or if there are several algorithms.
    ///
    /// # Errors
    /// `CHECKSUM`, `FORMAT` or `TRUNCATED` for the first fault; errors of the source.
    pub async fn verify(self: &Rc<Self>, observer: Rc<dyn Progress>) -> Result<Option<Algorithm>> {
        let tensors = self.load_stored_index().await?.to_vec();
        Ok(self.check_everything(tensors, observer).await?.verified_by())
    }

    /// Like [`Loader::verify`], but returns which checksums were verified.
    ///
    /// # Errors
    /// The errors of [`Loader::verify`].
    pub async fn verify_in_detail(self: &Rc<Self>, observer: Rc<dyn Progress>) -> Result<Verified> {
        let tensors = self.load_stored_index().await?.to_vec();
        let of_files = self.check_everything(tensors.clone(), observer).await?.coverage();
        let mut verified = Verified { files: of_files.len(), tensors: tensors.len(), ..Verified::default() };
        for (shard, of_file) in of_files.iter().enumerate() {
            let in_file = || tensors.iter().map(|tensor| &**tensor).filter(|tensor| tensor.shard == shard);
            verified.add_file(in_file(), of_file);
            let name = self.shards.get(shard).map_or("", |shard| shard.file.source.name());
            let open = self.read_shard(shard).await?;
            verified.note_unchecked(name, in_file(), &open.index.warnings);
        }
        for (shard, warning) in self.late_warnings.borrow().iter() {
            let name = self.shards.get(*shard).map(|shard| shard.file.source.name().to_owned());
            verified.warnings.push((name.unwrap_or_default(), warning.clone()));
        }
        Ok(verified)
    }

    async fn check_everything(
        self: &Rc<Self>,
        tensors: Vec<Arc<Tensor>>,
        observer: Rc<dyn Progress>,
    ) -> Result<Rc<WholeChecks>> {
        let checks = Rc::<WholeChecks>::default();
        let call = Call { stores_output: false, whole: Some(Rc::clone(&checks)), verify: true, ..self.call(observer) };
        let mut stream = Box::pin(self.stream(tensors, Form::default(), call).await?);
        while stream.try_next().await?.is_some() {}
        Ok(checks)
    }
}
