//! The files of a model, and their headers.

use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::{DataFile, Index, Manifest, Part, Tensor};
use crate::loader::digests::Digests;
use crate::loader::transfer::file::ModelFile;
use crate::loader::transfer::joined::join;
use crate::model::assembly::{Assembly, Opened, PartContent};
use crate::source::ModelSource;
use futures::lock::Mutex;
use std::rc::Rc;

/// A file of the model, and its header once that was read.
pub(crate) struct Shard<S: ModelSource> {
    pub(super) file: Rc<ModelFile<S>>,
    /// What names and describes the file, or the files that follow each other in it; empty for the file that was
    /// opened.
    pub(super) parts: Vec<Part>,
    pub(crate) opened: Mutex<Option<Rc<OpenShard>>>,
}

/// The header and index of a file.
pub(crate) struct OpenShard {
    pub(crate) index: Index,
    /// Tensors in the file that are not those of the model.
    pub(crate) shadowed: Vec<Tensor>,
    /// Tensors in the file that are parts of quantized ones. They can be found by name, but are not listed.
    pub(crate) parts: Vec<Tensor>,
}

impl<S: ModelSource> Shard<S> {
    /// What describes the file as a whole; `None` for the file that was opened, and for several in one.
    pub(super) fn part(&self) -> Option<&Part> {
        match self.parts.as_slice() {
            [part] => Some(part),
            _ => None,
        }
    }

    /// The files with tensors of a model, whose first file is `file`. Those of a manifest are not opened yet.
    ///
    /// # Errors
    /// Those of the source, for names of files that it cannot have.
    pub(super) fn all(
        file: &Rc<ModelFile<S>>,
        assembly: &Assembly,
        opened: Opened,
        digests: &Digests,
    ) -> Result<Vec<Self>> {
        let mut shards = match &assembly.manifest {
            Some(manifest) => Shard::parts(file, manifest, digests)?,
            None => Vec::new(),
        };
        match opened {
            Opened::Tensors(index, number) => {
                let own = Shard::opened(Rc::clone(file), index, number, digests);
                match shards.get_mut(number) {
                    Some(shard) => *shard = own,
                    None => shards.push(own),
                }
            }
            Opened::WithData(index, data) => {
                for (number, data) in data.into_iter().enumerate() {
                    shards.push(Shard::data(file, data, &index, number + 1, digests)?);
                }
                shards.insert(0, Shard::opened(Rc::clone(file), index, 0, digests));
            }
            Opened::Document => {}
        }
        Ok(shards)
    }

    /// A file whose header was read.
    pub(super) fn opened(file: Rc<ModelFile<S>>, index: Index, shard: usize, digests: &Digests) -> Self {
        digests.expect_contents(&file, &index);
        let open = OpenShard::of(&file, PartContent { index, shadowed: Vec::new() }, shard);
        Shard { file, parts: Vec::new(), opened: Mutex::new(Some(Rc::new(open))) }
    }

    /// A file of raw bytes that `file` names, or several that follow each other. They are not read yet.
    pub(super) fn data(
        file: &ModelFile<S>,
        data: DataFile,
        listed_in: &Index,
        shard: usize,
        digests: &Digests,
    ) -> Result<Self> {
        let open = |part: &Part| {
            let file = file.raw_part(part)?;
            file.expect_whole(file.signed_digest().or_else(|| digests.of_whole_file(&file.source, Some(part))));
            Ok(file)
        };
        let parts = data.parts.clone();
        let file = match parts.as_slice() {
            [part] => open(part)?,
            parts => {
                let files = parts.iter().map(open).collect::<Result<Vec<_>>>()?;
                check_not_pinned(&files, parts, digests)?;
                let first = parts.first().ok_or_else(|| Error::new(ErrorKind::Internal, "a data file has no parts"))?;
                join(file, first, files)?
            }
        };
        let file = Rc::new(file);
        let index = data.into_index(listed_in, None).map_err(|e| e.in_file(file.source.name()))?;
        Ok(Shard { parts, ..Shard::opened(file, index, shard, digests) })
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
            Ok(Shard { file: opened, parts: vec![part.clone()], opened: Mutex::new(None) })
        };
        manifest.parts.iter().map(part).collect()
    }
}

impl OpenShard {
    /// The content of a file, which gets what the index states about its blocks.
    pub(super) fn of<S: ModelSource>(file: &ModelFile<S>, content: PartContent, shard: usize) -> Self {
        let PartContent { mut index, shadowed } = content;
        for (start, blocks) in std::mem::take(&mut index.blocks) {
            file.blocks.set_table(start, Some(blocks));
        }
        index.tensors.set_shard(shard);
        index.tensors.index_names();
        OpenShard { index, shadowed, parts: Vec::new() }
    }
}

/// Checks that the caller has pinned no digest of files that are read as one: it would not be compared.
///
/// # Errors
/// `UNSUPPORTED` for a file with such a digest.
fn check_not_pinned<S: ModelSource>(files: &[ModelFile<S>], parts: &[Part], digests: &Digests) -> Result<()> {
    let pinned = |(file, part): &(&ModelFile<S>, &Part)| digests.of_file(&file.source, Some(part)).is_some();
    match files.iter().zip(parts).find(pinned) {
        Some((file, _)) => {
            let what = "`digests` has this file, which is read together with those that continue it";
            let error = Error::new(ErrorKind::Unsupported, what).in_file(file.source.name());
            Err(error.advise("State the digests of tensors, or write the weights to one file."))
        }
        None => Ok(()),
    }
}

/// Checks that a file is complete if its footer was read together with the header, as in small files.
pub(super) fn check_footer<S: ModelSource>(file: &ModelFile<S>) -> Result<()> {
    if file.length().is_some() {
        file.try_parse(format::check_tail)?;
    }
    Ok(())
}
