//! Opens the files that differences need besides those of the model.

use crate::error::{Error, ErrorKind, Result};
use crate::index::differences::{Difference, Differences};
use crate::loader::related_files::{Opened, RelatedFile};
use crate::loader::{Loader, Options, Stats};
use crate::pipeline::Pool;
use crate::source::{BufferOf, ModelSource};
use futures::future::FutureExt;
use std::rc::Rc;

impl<S: ModelSource> Loader<S> {
    /// The file of the previous revision with a tensor, if all of it is cached and can be opened.
    pub(super) async fn held(self: &Rc<Self>, stated: &Difference) -> Option<Rc<Loader<S>>> {
        let file = stated.base_file;
        let opened = self.related(&stated.base_path, |opener, source| async move {
            match source.holds(&file).await {
                true => Ok(opener.open(source).await.ok()), // each tensor would have the same error
                false => Ok(None),
            }
        });
        opened.await.ok().flatten()
    }

    /// The file with the differences.
    ///
    /// # Errors
    /// Those of opening it.
    pub(super) async fn changes(self: &Rc<Self>, differences: &Differences) -> Result<Rc<Loader<S>>> {
        let digest = differences.file.digest;
        let opened = self.related(&differences.file.path, |opener, source| async move {
            digest.iter().for_each(|digest| source.expect_whole(digest));
            opener.open(source).await.map(Some)
        });
        opened.await?.ok_or_else(not_opened)
    }

    /// Opens a file once. After an error, the next call tries again.
    async fn related<F>(self: &Rc<Self>, path: &str, open: impl FnOnce(Opener<S>, S) -> F) -> Result<Opened<S>>
    where
        F: Future<Output = Result<Opened<S>>> + 'static,
    {
        let running = match self.related.open.borrow().get(path) {
            Some(RelatedFile::Opened(opened)) => return Ok(opened.clone()),
            Some(RelatedFile::Opening(opening)) => opening.upgrade(),
            None => None,
        };
        let opening = match running {
            Some(opening) => opening,
            None => {
                let source = self.related.manifest.as_ref().ok_or_else(not_opened)?.source.part(path)?;
                let Options { concurrency, retry, .. } = self.options;
                let options = Options { concurrency, retry, ..Options::default() };
                let opener = Opener { options, stats: Rc::clone(&self.stats), pool: self.pool.clone() };
                let opening = open(opener, source).boxed_local().shared();
                let weak = opening.downgrade().ok_or_else(not_opened)?;
                self.related.open.borrow_mut().insert(path.to_owned(), RelatedFile::Opening(weak));
                opening
            }
        };
        let opened = opening.await;
        let mut open = self.related.open.borrow_mut();
        match &opened {
            Ok(opened) => drop(open.insert(path.to_owned(), RelatedFile::Opened(opened.clone()))),
            Err(_) => drop(open.remove(path)),
        }
        opened
    }
}

fn not_opened() -> Error {
    Error::new(ErrorKind::Internal, "a file that differences need was not opened")
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
