//! Opens the adapters whose updates are added to the weights. The code is deferred in the npm package.

use crate::adapter::{Adapter, AdapterConfig, AdapterFile};
use crate::deferred::Code;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Parsed, Part};
use crate::loader::Loader;
use crate::loader::shard::Shard;
use crate::loader::transfer::file::ModelFile;
use crate::source::ModelSource;
use futures::future::{FutureExt, LocalBoxFuture};
use std::rc::Rc;

impl<S: ModelSource> Loader<S> {
    /// Adds the updates of adapters to the weights that they are for, in this order.
    ///
    /// # Errors
    /// `UNSUPPORTED` for a file that is no adapter, and for a signed model; `NOT_FOUND` without the configuration that
    /// an adapter needs; errors of the sources and of the formats' parsers. That the weights exist and have the same
    /// shapes is checked when the index is read.
    #[doc(hidden)]
    pub fn with_adapters(mut self, adapters: Vec<(S, Adapter)>) -> LocalBoxFuture<'static, Result<Self>> {
        async move {
            if let Some((first, _)) = adapters.first() {
                first.host().load_code(Code::Quantization).await?;
                first.host().load_code(Code::Calls).await?;
            }
            for (source, settings) in adapters {
                self.add_adapter(source.located().await?, settings).await?;
            }
            Ok(self)
        }
        .boxed_local()
    }

    async fn add_adapter(&mut self, source: S, settings: Adapter) -> Result<()> {
        let file = Rc::new(ModelFile::new(source, Rc::clone(&self.stats), self.options.retry));
        let name = file.source.name().to_owned();
        settings.check()?;
        if self.options.signature.is_some() {
            let error = Error::new(ErrorKind::Unsupported, "the signature of a model does not cover an adapter");
            let advice = "Open the model without the adapter, or without the signature.";
            return Err(error.in_file(&name).advise(advice));
        }
        let digests = &self.options.digests;
        file.expect_whole(digests.of_whole_file(&file.source, None));
        let Parsed::File(index) = file.parse().await? else {
            let error = Error::new(ErrorKind::Unsupported, "an adapter must be one file").in_file(&name);
            return Err(error.advise("Open the file with its tensors."));
        };
        let mut adapter = AdapterFile { name, index, settings };
        if adapter.needs_config()? {
            adapter = adapter.with_config(read_config(&file).await?)?;
        }
        self.shards.push(Shard::opened(file, adapter.index.clone(), self.shards.len(), digests));
        self.adapters.push(adapter);
        Ok(())
    }
}

/// The `adapter_config.json` beside an adapter; `None` if there is none.
async fn read_config<S: ModelSource>(file: &ModelFile<S>) -> Result<Option<AdapterConfig>> {
    let part = Part { path: AdapterConfig::FILE_NAME.to_owned(), ..Part::default() };
    let read = async {
        let file = Rc::new(file.part(&part)?);
        file.parse_with(|window| Ok(window.get_all(AdapterConfig::MAX_BYTES)?.to_vec())).await
    };
    match read.await {
        Ok(json) => AdapterConfig::from_json(&json).map(Some),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
