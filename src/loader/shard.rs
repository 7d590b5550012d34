//! The files of a model: opened when the first tensor of them is looked for.

use crate::error::{Error, ErrorKind, Result, malformed};
use crate::format;
use crate::index::{Index, Manifest, Parsed, Part, Tensor, check_elsewhere};
use crate::loader::Loader;
use crate::loader::digests::Digests;
use crate::loader::transfer::file::ModelFile;
use crate::names::Names;
use crate::source::Source;
use futures::lock::Mutex;
use std::collections::HashMap;
use std::rc::Rc;

/// Memory is given back so many tensors at a time.
const GIVEN_BACK_TENSORS: usize = 4096;

/// A file of the model, and its head once that was read.
pub(crate) struct Shard<S: Source> {
    pub(super) file: Rc<ModelFile<S>>,
    pub(super) part: Option<Part>,
    pub(super) opened: Mutex<Option<Rc<OpenShard>>>,
}

/// The head of a file.
pub(crate) struct OpenShard {
    pub(crate) index: Index,
    pub(super) tensors: Vec<Rc<Tensor>>,
    /// Where the tensors are in `tensors`: a map of their names would take longer to make than all but the parse, and
    /// as much memory again.
    names: Names,
}

impl<S: Source> Loader<S> {
    /// The tensor of that name, opening only the file that the manifest says it is in.
    pub(super) async fn find(&self, name: &str) -> Result<Rc<Tensor>> {
        let candidates = self.stated_part(name).await?.map_or(0..self.shards.len(), |shard| shard..shard + 1);
        for shard in candidates {
            let open = self.open_shard(shard).await?;
            if let Some(tensor) = open.find(name) {
                return Ok(Rc::clone(tensor));
            }
        }
        Err(Error::new(ErrorKind::NotFound, "the model has no tensor of this name").in_tensor(name))
    }

    /// The file that the tensor of that name is in, if the manifest or its catalog says.
    async fn stated_part(&self, name: &str) -> Result<Option<usize>> {
        let Some(manifest) = &self.manifest else { return Ok(None) };
        match (manifest.tensor_parts.get(name), &manifest.catalog) {
            (Some(part), _) => Ok(Some(*part)),
            (None, Some(catalog)) => {
                let open = self.open_shard(catalog.part).await?;
                open.index.elsewhere.get(name).map(|shard| catalog.part_of(name, *shard)).transpose()
            }
            (None, None) => Ok(None),
        }
    }

    pub(super) async fn open_shard(&self, shard: usize) -> Result<Rc<OpenShard>> {
        let Shard { file, part, opened } = self.shards.get(shard).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("file {shard} of {} was to be opened", self.shards.len()))
        })?;
        let mut opened = opened.lock().await;
        if let Some(open) = &*opened {
            return Ok(Rc::clone(open));
        }
        let (index, split) = match file.parse_with(format::parse).await? {
            Parsed::File(index) => (index, None),
            Parsed::Part(index, split) => (index, Some(split)),
            Parsed::Manifest(_) => {
                return Err(self.place(shard, malformed("a manifest names another manifest as a file of the model")));
            }
            // Its length and its digest, as the manifest states them, would be those of the packed file.
            Parsed::Packed(_) => {
                let what = "a manifest names a file that is compressed as a whole, which no tool writes";
                return Err(self.place(shard, Error::new(ErrorKind::Unsupported, what)));
            }
        };
        if let Some(first) = &self.split {
            first.check_part(split.as_ref(), shard).map_err(|e| self.place(shard, e))?;
        }
        check_footer(file)?;
        check_length(part.as_ref(), file.length()).map_err(|e| self.place(shard, e))?;
        check_elsewhere(&index, self.manifest.as_ref(), shard).map_err(|e| self.place(shard, e))?;
        self.options.digests.expect_contents(file, &index);
        let open = Rc::new(OpenShard::new(index, shard));
        *opened = Some(Rc::clone(&open));
        Ok(open)
    }

    pub(super) fn place(&self, shard: usize, error: Error) -> Error {
        match self.shards.get(shard) {
            Some(shard) => error.in_file(shard.file.source.name()),
            None => error,
        }
    }
}

impl<S: Source> Shard<S> {
    /// A file whose head was read.
    pub(super) fn opened(file: Rc<ModelFile<S>>, index: Index, shard: usize, digests: &Digests) -> Self {
        digests.expect_contents(&file, &index);
        Shard { file, part: None, opened: Mutex::new(Some(Rc::new(OpenShard::new(index, shard)))) }
    }

    /// The files that a manifest names, beside `file` and not yet read.
    pub(super) fn parts(file: &ModelFile<S>, manifest: &Manifest, digests: &Digests) -> Result<Vec<Self>> {
        let part = |part: &Part| {
            let file = Rc::new(file.part(part)?);
            file.expect_whole(digests.of_whole_file(&file.source, Some(part)));
            Ok(Shard { file, part: Some(part.clone()), opened: Mutex::new(None) })
        };
        manifest.parts.iter().map(part).collect()
    }
}

impl OpenShard {
    pub(super) fn new(mut index: Index, shard: usize) -> Self {
        let tensors = shared(std::mem::take(&mut index.tensors), shard);
        let names = Names::new(tensors.len(), &|at| name_at(&tensors, at));
        OpenShard { index, tensors, names }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Rc<Tensor>> {
        self.tensors.get(self.names.find(name, &|at| name_at(&self.tensors, at))?)
    }
}

/// Checks that no name occurs in two files.
pub(super) fn check_unique(opened: &[Rc<OpenShard>]) -> Result<()> {
    let mut shard_of_name: HashMap<&str, usize> = HashMap::new();
    for tensor in opened.iter().flat_map(|open| &open.tensors) {
        if let Some(other) = shard_of_name.insert(&tensor.name, tensor.shard) {
            let what = format!("it is in two files of the model, {other} and {}", tensor.shard);
            return Err(malformed(what).in_tensor(&tensor.name));
        }
    }
    Ok(())
}

/// Moves tensors from the end on, giving their memory back meanwhile: it would be needed twice.
fn shared(mut tensors: Vec<Tensor>, shard: usize) -> Vec<Rc<Tensor>> {
    let mut shared = Vec::with_capacity(tensors.len());
    while let Some(tensor) = tensors.pop() {
        shared.push(Rc::new(Tensor { shard, ..tensor }));
        if tensors.len().is_multiple_of(GIVEN_BACK_TENSORS) {
            tensors.shrink_to_fit();
        }
    }
    shared.reverse();
    shared
}

fn name_at(tensors: &[Rc<Tensor>], at: usize) -> &str {
    tensors.get(at).map_or("", |tensor| tensor.name.as_str())
}

/// A file so small that its footer came with the head is checked at once for being whole.
pub(super) fn check_footer<S: Source>(file: &ModelFile<S>) -> Result<()> {
    if file.length().is_some() {
        file.try_parse(format::check_tail)?;
    }
    Ok(())
}

/// Checks that a file is as long as its manifest says.
pub(crate) fn check_length(part: Option<&Part>, length: Option<u64>) -> Result<()> {
    match (part.and_then(|part| part.byte_length), length) {
        (Some(stated), Some(length)) if stated != length => {
            let kind = if length < stated { ErrorKind::Truncated } else { ErrorKind::Format };
            let error = Error::new(kind, format!("the manifest says {stated} bytes, but the file has {length}"));
            Err(error
                .advise("The manifest and this file do not belong together: upload the model again, all files of it."))
        }
        _ => Ok(()),
    }
}
