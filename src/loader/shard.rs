//! The files of a model. Each is opened on the first access to one of its tensors.

use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::{DataFile, Index, Manifest, Parsed, Part, Tensor};
use crate::loader::Loader;
use crate::loader::digests::Digests;
use crate::loader::transfer::file::ModelFile;
use crate::model::assembly::{self, PartContent};
use crate::similar_names::no_tensor;
use crate::source::Source;
use futures::lock::Mutex;
use std::rc::Rc;
use std::sync::Arc;

/// A file of the model, and its header once that was read.
pub(crate) struct Shard<S: Source> {
    pub(super) file: Rc<ModelFile<S>>,
    pub(super) part: Option<Part>,
    pub(crate) opened: Mutex<Option<Rc<OpenShard>>>,
}

/// The header and index of a file.
pub(crate) struct OpenShard {
    pub(crate) index: Index,
    /// Tensors in the file that are not those of the model.
    pub(crate) shadowed: Vec<Tensor>,
}

impl<S: Source> Loader<S> {
    /// The tensor of that name. If the manifest states the tensor's file, only that file is opened.
    pub(super) async fn find(&self, name: &str) -> Result<Arc<Tensor>> {
        let candidates = self.stated_part(name).await?.map_or(0..self.shards.len(), |shard| shard..shard + 1);
        let mut searched = Vec::with_capacity(candidates.len());
        for shard in candidates {
            let open = self.open_shard(shard).await?;
            if let Some(tensor) = open.index.tensors.find(name) {
                if let Some(manifest) = &self.assembly.manifest {
                    manifest.check_stated(name).map_err(|e| self.place(shard, e))?;
                }
                return Ok(tensor);
            }
            searched.push(open);
        }
        Err(no_tensor(name, searched.iter().flat_map(|open| open.index.tensors.names())))
    }

    /// The file of the tensor of that name, if the manifest or its catalog states it.
    async fn stated_part(&self, name: &str) -> Result<Option<usize>> {
        let Some(manifest) = &self.assembly.manifest else { return Ok(None) };
        match (manifest.tensor_parts.get(name), &manifest.catalog) {
            (Some(part), _) => Ok(Some(*part)),
            (None, Some(catalog)) => {
                let open = self.open_shard(catalog.part).await?;
                open.index.other_shards.get(name).map(|shard| catalog.part_of(name, *shard)).transpose()
            }
            (None, None) => Ok(None),
        }
    }

    pub(super) async fn open_shard(&self, shard: usize) -> Result<Rc<OpenShard>> {
        let Shard { file, part, opened } = self.shards.get(shard).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("there is no file {shard}: the model has {}", self.shards.len()))
        })?;
        let mut opened = opened.lock().await;
        if let Some(open) = &*opened {
            return Ok(Rc::clone(open));
        }
        let mut parsed = file.parse_with(format::parse).await;
        assembly::check_length(part.as_ref(), file.length()).map_err(|e| self.place(shard, e))?;
        if let Ok(Parsed::Packed(_)) = parsed {
            assembly::check_packed(part.as_ref()).map_err(|e| self.place(shard, e))?;
            parsed = file.parse().await;
        }
        let content = self.assembly.part(shard, parsed?).map_err(|e| self.place(shard, e))?;
        check_footer(file)?;
        self.options.digests.expect_contents(file, &content.index);
        let open = Rc::new(OpenShard::of(file, content, shard));
        *opened = Some(Rc::clone(&open));
        Ok(open)
    }

    /// The file that contains the tensor, an item of [`Loader::load_index`].
    pub(super) fn file_of(&self, tensor: &Tensor) -> Result<Rc<ModelFile<S>>> {
        let file = self.shards.get(tensor.shard).map(|shard| Rc::clone(&shard.file));
        file.ok_or_else(|| Error::new(ErrorKind::Internal, "a tensor is in a file that does not exist"))
    }

    pub(super) fn place(&self, shard: usize, error: Error) -> Error {
        match self.shards.get(shard) {
            Some(shard) => error.in_file(shard.file.source.name()),
            None => error,
        }
    }
}

impl<S: Source> Shard<S> {
    /// A file whose header was read.
    pub(super) fn opened(file: Rc<ModelFile<S>>, index: Index, shard: usize, digests: &Digests) -> Self {
        digests.expect_contents(&file, &index);
        let open = OpenShard::of(&file, PartContent { index, shadowed: Vec::new() }, shard);
        Shard { file, part: None, opened: Mutex::new(Some(Rc::new(open))) }
    }

    /// A file of raw bytes that `file` names. It is not read yet.
    pub(super) fn data(
        file: &ModelFile<S>,
        data: DataFile,
        listed_in: &Index,
        shard: usize,
        digests: &Digests,
    ) -> Result<Self> {
        let part = data.part.clone();
        let file = Rc::new(file.raw_part(&part)?);
        file.expect_whole(file.signed_digest().or_else(|| digests.of_whole_file(&file.source, Some(&part))));
        let index = data.into_index(listed_in, None).map_err(|e| e.in_file(file.source.name()))?;
        Ok(Shard { part: Some(part), ..Shard::opened(file, index, shard, digests) })
    }

    /// The files that a manifest names, resolved relative to `file`. None of them is read yet.
    pub(super) fn parts(file: &ModelFile<S>, manifest: &Manifest, digests: &Digests) -> Result<Vec<Self>> {
        let part = |part: &Part| {
            let opened = Rc::new(file.part(part)?);
            opened.expect_whole(opened.signed_digest().or_else(|| digests.of_whole_file(&opened.source, Some(part))));
            // A file on another host is not part of the folder with the previous revision.
            let publication = manifest.publication.as_ref().filter(|_| part.url.is_none());
            if let Some(copies) = publication.and_then(|publication| publication.copies_of(&part.path)) {
                opened.expect_copies(file, copies)?;
            }
            Ok(Shard { file: opened, part: Some(part.clone()), opened: Mutex::new(None) })
        };
        manifest.parts.iter().map(part).collect()
    }
}

impl OpenShard {
    /// The content of a file, which gets what the index states about its blocks.
    fn of<S: Source>(file: &ModelFile<S>, content: PartContent, shard: usize) -> Self {
        let PartContent { mut index, shadowed } = content;
        for (start, blocks) in std::mem::take(&mut index.blocks) {
            file.blocks.set_table(start, Some(blocks));
        }
        index.tensors.set_shard(shard);
        index.tensors.index_names();
        OpenShard { index, shadowed }
    }
}

/// Checks that a file is complete if its footer was read together with the header, as in small files.
pub(super) fn check_footer<S: Source>(file: &ModelFile<S>) -> Result<()> {
    if file.length().is_some() {
        file.try_parse(format::check_tail)?;
    }
    Ok(())
}
