//! Opens the files that differences need besides those of the model.

use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::index::differences::{Difference, Differences};
use crate::loader::{Loader, Options, Stats};
use crate::pipeline::Pool;
use crate::source::{BufferOf, ModelSource};
use futures::future::FutureExt;
use std::rc::Rc;

impl<S: ModelSource> Loader<S> {
    /// The file of the previous revision with a tensor, if all of it is cached.
    ///
    /// # Errors
    /// Those of opening it.
    pub(super) async fn held(self: &Rc<Self>, tensor: &Tensor, stated: &Difference) -> Result<Option<Rc<Loader<S>>>> {
        let file = stated.base_file;
        self.related(tensor, &stated.base_path, |opener, source| async move {
            match source.holds(&file).await {
                true => opener.open(source).await.map(Some),
                false => Ok(None),
            }
        })
        .await
    }

    /// The file with the differences.
    ///
    /// # Errors
    /// Those of opening it.
    pub(super) async fn changes(self: &Rc<Self>, tensor: &Tensor, differences: &Differences) -> Result<Rc<Loader<S>>> {
        let digest = differences.file.digest;
        let opened = self.related(tensor, &differences.file.path, |opener, source| async move {
            digest.iter().for_each(|digest| source.expect_whole(digest));
            opener.open(source).await.map(Some)
        });
        opened.await?.ok_or_else(|| Error::new(ErrorKind::Internal, "the file with the differences was not opened"))
    }

    /// Opens a file once. After an error, the next call tries again.
    async fn related<F>(
        self: &Rc<Self>,
        tensor: &Tensor,
        path: &str,
        open: impl FnOnce(Opener<S>, S) -> F,
    ) -> Result<Option<Rc<Loader<S>>>>
    where
        F: Future<Output = Result<Option<Rc<Loader<S>>>>> + 'static,
    {
        let known = self.related.open.borrow().get(path).cloned();
        let opening = match known {
            Some(opening) => opening,
            None => {
                let source = self.file_of(tensor)?.source.part(path)?;
                let Options { concurrency, retry, .. } = self.options;
                let options = Options { concurrency, retry, ..Options::default() };
                let opener = Opener { options, stats: Rc::clone(&self.stats), pool: self.pool.clone() };
                let opening = open(opener, source).boxed_local().shared();
                self.related.open.borrow_mut().insert(path.to_owned(), opening.clone());
                opening
            }
        };
        let opened = opening.await;
        if opened.is_err() {
            self.related.open.borrow_mut().remove(path);
        }
        opened
    }
}

/// What the loader of a file has in common with that of the model.
struct Opener<S: ModelSource> {
    options: Options,
    stats: Rc<Stats>,
    pool: Option<Rc<dyn Pool<BufferOf<S>>>>,
}

impl<S: ModelSource> Opener<S> {
    async fn open(self, source: S) -> Result<Rc<Loader<S>>> {
        let loader = Loader::open_counted(source, self.options, self.stats).await?;
        // A manifest could name itself as a file of tensors, and would be opened again and again.
        match loader.assembly.manifest {
            Some(_) => {
                Err(Error::new(ErrorKind::Format, "a manifest cannot be a file of differences or of their bases"))
            }
            None => Ok(Rc::new(Loader { pool: self.pool, ..loader })),
        }
    }
}
