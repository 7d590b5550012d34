//! The files of a model. Each is opened on the first access to one of its tensors.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format;
use crate::index::{DataFile, Index, Manifest, Parsed, Part, Tensor, check_catalog};
use crate::loader::Loader;
use crate::loader::digests::Digests;
use crate::loader::transfer::file::ModelFile;
use crate::similar_names::no_tensor;
use crate::source::Source;
use futures::lock::Mutex;
use std::collections::HashMap;
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
}

impl<S: Source> Loader<S> {
    /// The tensor of that name. If the manifest states the tensor's file, only that file is opened.
    pub(super) async fn find(&self, name: &str) -> Result<Arc<Tensor>> {
        let candidates = self.stated_part(name).await?.map_or(0..self.shards.len(), |shard| shard..shard + 1);
        let mut searched = Vec::with_capacity(candidates.len());
        for shard in candidates {
            let open = self.open_shard(shard).await?;
            if let Some(tensor) = open.index.tensors.find(name) {
                if let Some(manifest) = &self.manifest {
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
        let Some(manifest) = &self.manifest else { return Ok(None) };
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
        let (mut index, split) = match file.parse_with(format::parse).await? {
            Parsed::File(index) => (index, None),
            Parsed::WithData(..) => {
                return Err(
                    self.place(shard, malformed("a file that names further files is named as a file of a model"))
                );
            }
            Parsed::Part(index, split) => (index, Some(split)),
            Parsed::Manifest(_) => {
                return Err(self.place(shard, malformed("a manifest names another manifest as a file of the model")));
            }
            // The length and the digest in the manifest would be those of the compressed file.
            Parsed::Packed(_) => {
                let what = "a manifest names a file that is compressed as a whole";
                return Err(self.place(shard, Error::new(ErrorKind::Unsupported, what)));
            }
        };
        if let Some(first) = &self.split {
            first.check_part(split.as_ref(), shard).map_err(|e| self.place(shard, e))?;
        }
        check_footer(file)?;
        check_length(part.as_ref(), file.length()).map_err(|e| self.place(shard, e))?;
        check_catalog(&index, self.manifest.as_ref(), shard).map_err(|e| self.place(shard, e))?;
        if let Some(manifest) = &self.manifest {
            manifest.describe(shard, &mut index);
        }
        self.options.digests.expect_contents(file, &index);
        let open = Rc::new(OpenShard::of(file, index, shard));
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
        let open = OpenShard::of(&file, index, shard);
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
    fn of<S: Source>(file: &ModelFile<S>, mut index: Index, shard: usize) -> Self {
        for (start, blocks) in std::mem::take(&mut index.blocks) {
            file.blocks.set_table(start, Some(blocks));
        }
        index.tensors.set_shard(shard);
        index.tensors.index_names();
        OpenShard { index }
    }
}

/// Checks that no name occurs in two files.
pub(super) fn check_unique(opened: &[Rc<OpenShard>]) -> Result<()> {
    let mut shard_of_name: HashMap<&str, usize> = HashMap::new();
    for (shard, open) in opened.iter().enumerate() {
        for name in open.index.tensors.names() {
            if let Some(other) = shard_of_name.insert(name, shard) {
                return Err(malformed(format!("it is in two files of the model, {other} and {shard}")).in_tensor(name));
            }
        }
    }
    Ok(())
}

/// Checks that a file is complete if its footer was read together with the header, as in small files.
pub(super) fn check_footer<S: Source>(file: &ModelFile<S>) -> Result<()> {
    if file.length().is_some() {
        file.try_parse(format::check_tail)?;
    }
    Ok(())
}

/// Checks that a file has the length that the manifest states.
pub(crate) fn check_length(part: Option<&Part>, length: Option<u64>) -> Result<()> {
    match (part.and_then(|part| part.byte_length), length) {
        (Some(stated), Some(length)) if stated != length => {
            let kind = if length < stated { ErrorKind::Truncated } else { ErrorKind::Format };
            let error = Error::new(kind, format!("the manifest says {stated} bytes, but the file has {length}"));
            Err(error.advise("The manifest and this file do not belong together: upload all files of the model again."))
        }
        _ => Ok(()),
    }
}
