//! A model in local files, for blocking calls.

use super::block_on::block_on;
use super::options::OpenOptions;
use super::place::open_files;
use super::request::LoadRequest;
use super::tensor::LoadedTensor;
use super::thread::ModelThread;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::{Loaded, Verified};
use crate::native::{self, ModelFiles, Reader};
use crate::on_progress::OnProgress;
use futures::future::FutureExt;
use std::sync::{Arc, OnceLock};

/// Reads whole tensors and verifies on the threads of the callers. Other calls use the loader, whose thread is started
/// when it is first needed.
#[derive(Debug)]
pub(super) struct LocalModel {
    pub(super) reader: Reader,
    files: ModelFiles,
    options: OpenOptions,
    thread: OnceLock<ModelThread>,
}

impl LocalModel {
    pub(super) fn new(reader: Reader, files: ModelFiles, mut options: OpenOptions) -> Result<Self> {
        options.loader.check()?;
        options.loader.config = options.loader.config.or_else(|| reader.config().cloned());
        let model = LocalModel { reader, files, options, thread: OnceLock::new() };
        if !model.is_plain() {
            model.thread()?; // it checks the names of pinned files and tensors
        }
        Ok(model)
    }

    pub(super) fn load(&self, request: LoadRequest) -> Result<LoadedTensor> {
        let reports = request.on_progress.is_set() || self.options.on_progress.is_set();
        let is_stored = request.rows.is_none() && request.dtype.is_none() && !request.is_dense;
        if !is_stored || reports || !self.is_plain() || !self.options.loader.verify {
            return block_on(self.thread()?.load(request));
        }
        let native::LoadedTensor { tensor, components, verified } = self.reader.load_tensor(&request.name)?;
        let (dtype, layout, shape) = (tensor.dtype.clone(), tensor.layout.clone(), tensor.shape.clone());
        let loaded = Loaded { tensor: Arc::new(tensor), dtype, layout, shape, components, verified };
        Ok(LoadedTensor { loaded })
    }

    pub(super) fn verify(&self) -> Result<Verified> {
        match self.is_plain() {
            true => self.reader.verify(&OnProgress::default().or(&self.options.on_progress).meter()),
            false => block_on(self.thread()?.verify()),
        }
    }

    pub(super) fn prefetch(&self, names: Vec<String>) {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        self.reader.prefetch(&names);
    }

    /// The thread of the loader.
    pub(super) fn thread(&self) -> Result<&ModelThread> {
        if let Some(thread) = self.thread.get() {
            return Ok(thread);
        }
        let (files, options) = (self.files.clone(), self.options.clone());
        let (thread, _) = block_on(ModelThread::start(move || open_files(files, options).boxed_local()))?;
        Ok(self.thread.get_or_init(|| thread)) // another thread may have started one, too
    }

    /// The reader, if nothing is pinned, which it would not compare.
    ///
    /// # Errors
    /// `UNSUPPORTED` if digests are pinned or files are signed.
    pub(super) fn unpinned_reader(&self, what: &str) -> Result<&Reader> {
        if !self.is_pinned() {
            return Ok(&self.reader);
        }
        let what = format!("{what} are not compared with pinned digests and signatures of local files");
        let error = Error::new(ErrorKind::Unsupported, what);
        Err(error.advise("Verify the model, and open it without them."))
    }

    /// Whether the reader returns whole tensors as the options ask for: nothing is pinned, and there are no adapters.
    fn is_plain(&self) -> bool {
        !self.is_pinned() && self.options.adapters.is_empty()
    }

    /// Whether digests or signatures are given, which only the loader compares.
    fn is_pinned(&self) -> bool {
        let options = &self.options.loader;
        !options.digests.tensors.is_empty() || !options.digests.files.is_empty() || options.signature.is_some()
    }
}
