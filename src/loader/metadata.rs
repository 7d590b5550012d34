//! What a model says about itself: its metadata, and warnings.

use crate::error::Result;
use crate::index::{Manifest, Metadata};
use crate::loader::Loader;
use crate::loader::shard::OpenShard;
use crate::source::ModelSource;
#[cfg(all(http_client, writes))]
use crate::window::{Stop, Window};
use std::rc::Rc;

/// The format of a model, its version and its metadata.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelMetadata {
    /// The format's name.
    pub format: &'static str,
    /// The version of the format, as stated in the file.
    pub version: String,
    /// The model's metadata.
    pub metadata: Metadata,
}

impl ModelMetadata {
    /// The metadata of a model in memory, for a custom `write::Input`.
    #[doc(hidden)]
    pub fn new(format: &'static str, version: impl Into<String>, metadata: Metadata) -> Self {
        ModelMetadata { format, version: version.into(), metadata }
    }
}

impl<S: ModelSource> Loader<S> {
    /// Warnings about the model, each as a pair of the file's name and the text. A warning is not an error: the model
    /// can be loaded. Some, such as padding that is not zero, are found only by a call that reads the whole model.
    ///
    /// # Errors
    /// Errors of reading the headers of all files.
    pub async fn warnings(&self) -> Result<Vec<(String, String)>> {
        let mut warnings = Vec::new();
        for (number, shard) in self.shards.iter().enumerate() {
            let open = self.open_shard(number).await?;
            let name = shard.file.source.name();
            let (late, of_differences) = (self.late_warnings.borrow(), self.related.warning.borrow());
            let late = late.iter().chain(of_differences.iter());
            let late = late.filter(|(shard, _)| *shard == number).map(|(_, warning)| warning);
            let of_file = open.index.warnings.iter().chain(late);
            warnings.extend(of_file.map(|warning| (name.to_owned(), warning.clone())));
        }
        Ok(warnings)
    }

    /// The model's metadata. For a model in several files, the metadata of the manifest is extended with that of the
    /// first file, which takes precedence.
    ///
    /// # Errors
    /// Errors of reading the first file's header.
    pub async fn load_metadata(&self) -> Result<ModelMetadata> {
        let (manifest, first) = self.heads().await?;
        let mut metadata = manifest.map(|manifest| manifest.metadata.clone()).unwrap_or_default();
        let (format, version) = first.as_ref().map_or_else(
            || manifest.map_or(("", String::new()), |manifest| (manifest.format, manifest.version.clone())),
            |first| (first.index.format, first.index.version.clone()),
        );
        metadata.extend(first.map(|first| first.index.whole_metadata()).into_iter().flatten());
        Ok(ModelMetadata { format, version, metadata })
    }

    /// The manifest and the first file, which contain the model's metadata. Either can be absent.
    ///
    /// # Errors
    /// Errors of reading the first file's header.
    pub(crate) async fn heads(&self) -> Result<(Option<&Manifest>, Option<Rc<OpenShard>>)> {
        let first = if self.shards.is_empty() { None } else { Some(self.read_shard(0).await?) };
        Ok((self.assembly.manifest.as_ref(), first))
    }

    /// Runs a parser over the first file.
    #[cfg(all(http_client, writes))]
    pub(crate) async fn parse_first(&self, parse: &dyn Fn(&Window) -> Result<(), Stop>) -> Result<()> {
        match self.shards.first() {
            Some(shard) => shard.file.parse_with(parse).await,
            None => Ok(()),
        }
    }
}
