//! Finds tensors. Each file is opened on the first access to one of its tensors.

use crate::deferred::Code;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Component, Tensor};
use crate::loader::Loader;
use crate::loader::shard::{OpenShard, Shard, check_footer};
use crate::loader::tensor_list::TensorList;
use crate::loader::transfer::file::ModelFile;
use crate::model::assembly;
use crate::quantization::may_be_quantized;
use crate::similar_names::no_tensor;
use crate::source::ModelSource;
use futures::future::{FutureExt, LocalBoxFuture};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::rc::Rc;
use std::sync::Arc;

impl<S: ModelSource> Loader<S> {
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
            if let Some(part) = open.parts.iter().find(|part| part.name == name) {
                return Ok(Arc::new(part.clone()));
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

    /// The head of a file, with one tensor for each quantized tensor of several parts.
    pub(super) async fn open_shard(&self, shard: usize) -> Result<Rc<OpenShard>> {
        let open = self.read_shard(shard).await?;
        if !self.may_be_quantized(&open) {
            return Ok(open);
        }
        let files = self.grouped_files().await?;
        Ok(files.get(shard).map_or(open, Rc::clone))
    }

    /// The list of the tensors with one tensor for each quantized tensor of several parts, if there may be any.
    pub(super) async fn grouped_list(&self, stored: &TensorList) -> Result<Option<TensorList>> {
        match stored.files().iter().any(|open| self.may_be_quantized(open)) {
            true => self.grouped_files().await.map(|files| Some(TensorList::new(files))),
            false => Ok(None),
        }
    }

    /// The heads of all files, with one tensor for each quantized tensor of several parts.
    fn grouped_files(&self) -> LocalBoxFuture<'_, Result<Vec<Rc<OpenShard>>>> {
        let group = async move {
            let mut grouped = self.grouped.lock().await;
            if let Some(files) = &*grouped {
                return Ok(files.clone());
            }
            if let Some(shard) = self.shards.first() {
                shard.file.source.host().load_code(Code::Quantization).await?;
            }
            let files = self.group_quantized().await?;
            *grouped = Some(files.clone());
            Ok(files)
        };
        group.boxed_local()
    }

    /// The number of files without those of adapters.
    pub(super) fn own_files(&self) -> usize {
        self.shards.len() - self.adapters.len()
    }

    /// Whether updates of adapters are added to weights.
    pub(super) fn has_adapters(&self) -> bool {
        !self.adapters.is_empty()
    }

    fn may_be_quantized(&self, open: &OpenShard) -> bool {
        if self.has_adapters() {
            return true;
        }
        let manifest = self.assembly.manifest.as_ref().filter(|_| self.shards.len() > 1);
        match manifest {
            Some(manifest) => {
                let mut names = manifest.tensor_parts.keys().map(String::as_str);
                may_be_quantized(&open.index, Some(&mut names))
            }
            None => may_be_quantized(&open.index, None),
        }
    }

    /// The heads of all files. Those of adapters are the last ones.
    pub(super) async fn read_shards(&self) -> Result<Vec<Rc<OpenShard>>> {
        let reading = stream::iter(0..self.shards.len()).map(|shard| self.read_shard(shard));
        reading.buffered(self.options.concurrency).try_collect().await
    }

    /// The head of a file as it is.
    pub(super) async fn read_shard(&self, shard: usize) -> Result<Rc<OpenShard>> {
        let found = self.shards.get(shard).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("there is no file {shard}: the model has {}", self.shards.len()))
        })?;
        let (Shard { file, opened, .. }, part) = (found, found.part());
        let mut opened = opened.lock().await;
        if let Some(open) = &*opened {
            return Ok(Rc::clone(open));
        }
        let check = |is_packed: bool| {
            assembly::check_length(part, file.length())?;
            if is_packed { assembly::check_packed(part) } else { Ok(()) }
        };
        let parsed = file.parse_checked(&|is_packed| check(is_packed).map_err(|e| self.place(shard, e))).await?;
        let content = self.assembly.part(shard, parsed).map_err(|e| self.place(shard, e))?;
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

    /// The file that contains a component of the tensor.
    pub(super) fn file_with(&self, tensor: &Tensor, component: &Component) -> Result<Rc<ModelFile<S>>> {
        let file = self.shards.get(tensor.shard_of(component)).map(|shard| Rc::clone(&shard.file));
        file.ok_or_else(|| Error::new(ErrorKind::Internal, "a component is in a file that does not exist"))
    }

    pub(super) fn place(&self, shard: usize, error: Error) -> Error {
        match self.shards.get(shard) {
            Some(shard) => error.in_file(shard.file.source.name()),
            None => error,
        }
    }
}
