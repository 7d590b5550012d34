//! Whole models, checked.

use super::loaded::Verified;
use super::operation::Call;
use super::stats::Observer;
use super::{Loader, whole};
use crate::error::Result;
use crate::source::Source;
use futures::stream::TryStreamExt;
use std::rc::Rc;

impl<S: Source> Loader<S> {
    /// Reads and checks the whole model, keeping nothing, and gives the algorithm that all of it was checked by.
    ///
    /// # Errors
    /// `CHECKSUM`, `FORMAT` or `TRUNCATED` for the first thing that is wrong.
    pub async fn verify(self: &Rc<Self>, observer: Rc<dyn Observer>) -> Result<Option<&'static str>> {
        let tensors = self.load_index().await?;
        let call = Call { keeps: false, whole: true, verify: true, ..self.call(observer) };
        let mut stream = Box::pin(self.stream(tensors, call).await?);
        while stream.try_next().await?.is_some() {}
        Ok(self.verified_by.get())
    }

    /// As [`Loader::verify`], and says what there was to check.
    ///
    /// # Errors
    /// As for [`Loader::verify`].
    pub async fn verify_in_detail(self: &Rc<Self>, observer: Rc<dyn Observer>) -> Result<Verified> {
        let tensors = self.load_index().await?;
        self.verify(observer).await?;
        let of_files = self.checked_by.borrow();
        let mut verified = Verified { files: of_files.len(), tensors: tensors.len(), ..Verified::default() };
        for (shard, of_file) in of_files.iter().enumerate() {
            verified.add_file(tensors.iter().map(|tensor| &**tensor).filter(|tensor| tensor.shard == shard), of_file);
        }
        Ok(verified)
    }

    pub(super) async fn finish_files(&self) -> Result<()> {
        let mut checked_by = Vec::new();
        for shard in &self.shards {
            checked_by.push(whole::finish(&shard.file).await?);
        }
        let mut covering = checked_by.iter().map(|of_file| of_file.last().copied());
        let first = covering.next().flatten();
        self.verified_by.set(first.filter(|_| covering.all(|algorithm| algorithm == first)));
        *self.checked_by.borrow_mut() = checked_by;
        Ok(())
    }
}
