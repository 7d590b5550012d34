//! Opens models: on disk, mapped, or in memory.

use super::Reader;
use super::adapters;
use super::file::{FileBytes, TensorFile};
#[cfg(native)]
use super::folder::model_path;
use super::quantized::{self, Grouped};
#[cfg(native)]
use crate::adapter::Adapter;
use crate::adapter::AdapterFile;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{DataFile, Index, Manifest, Part, Tensor};
use crate::loader::ModelMetadata;
use crate::model::assembly::{Assembly, Opened};
use crate::name_index::NameIndex;
use crate::quantization::ModelConfig;
use std::collections::HashSet;
#[cfg(native)]
use std::path::Path;
use std::sync::{Arc, OnceLock};

impl Reader {
    /// Opens a file of tensors, with the other parts of a split model in the same folder, or a manifest with the files
    /// that it names. Of a folder, opens the model in it: `model.safetensors.index.json` or `model.safetensors`, as in
    /// repositories of Hugging Face, or else the only model in it and in the folders in it.
    ///
    /// Reads the heads of the files now, and tensors on demand, with positioned reads. If another process replaces a
    /// file by renaming, the reader keeps the original file; if it truncates a file, reads return `TRUNCATED`. In a
    /// model of many files, some files are reopened for each read: reads of a replaced file return `CHANGED`.
    ///
    /// # Errors
    /// `NOT_FOUND` and `IO` if a file cannot be opened; `INVALID_ARGUMENT` for a folder without one model;
    /// `TRUNCATED`, `FORMAT` and others if a head, a length or the
    /// manifest is invalid. The bytes of tensors are not checked: see [`Reader::verify`].
    #[cfg(native)]
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        Reader::open_with(path, None, &[])
    }

    /// Like [`Reader::open`], with the `config.json` that states how tensors are quantized, and with adapters whose
    /// updates are added to the weights. Without `config`, the file of that name beside the model is read if a tensor
    /// is ambiguous.
    ///
    /// # Errors
    /// As for [`Reader::open`]; `UNSUPPORTED`, `NOT_FOUND` and `FORMAT` for what is no adapter of this model.
    #[cfg(native)]
    pub fn open_with(path: impl AsRef<Path>, config: Option<&ModelConfig>, adapters: &[Adapter]) -> Result<Reader> {
        let path = &*model_path(path.as_ref())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let open_part = |part: &Part| FileBytes::open(&folder.join(&part.path));
        let adapters = adapters::open(adapters)?;
        Reader::new(FileBytes::open(path)?, config, adapters, open_part)
    }

    /// Like [`Reader::open`], but maps the files into memory: raw tensors are borrowed from the map without a copy.
    ///
    /// # Safety
    /// While the reader exists, no process may write to the files or truncate them. An access to a page beyond the end
    /// of a truncated file terminates this process with a bus error. A write to a file changes bytes behind `&[u8]`,
    /// which is undefined behavior. Replacing a file by renaming is allowed: the reader keeps the original file.
    ///
    /// # Errors
    /// As for [`Reader::open`].
    #[cfg(maps)]
    #[allow(unsafe_code, reason = "an unsafe constructor with a safety requirement")]
    pub unsafe fn open_mapped(path: impl AsRef<Path>) -> Result<Reader> {
        let path = &*model_path(path.as_ref())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        // SAFETY: the caller guarantees the requirement of `FileBytes::map` for all files of the model.
        let open_part = |part: &Part| unsafe { FileBytes::map(&folder.join(&part.path)) };
        // SAFETY: as above.
        Reader::new(unsafe { FileBytes::map(path) }?, None, Vec::new(), open_part)
    }

    /// Opens the first of `files` (name and content). The others are treated as files in the same folder.
    ///
    /// # Errors
    /// As for `open`, except `IO`.
    pub fn from_bytes(files: Vec<(String, Vec<u8>)>) -> Result<Reader> {
        Reader::from_shared(files.into_iter().map(|(name, bytes)| (name, Arc::new(bytes))))
    }

    /// Like [`Reader::from_bytes`], but shares the contents with other readers.
    pub(crate) fn from_shared(files: impl Iterator<Item = (String, Arc<Vec<u8>>)>) -> Result<Reader> {
        let mut files = files.map(|(name, bytes)| FileBytes::in_memory(name, bytes));
        let first = files.next().ok_or_else(|| Error::new(ErrorKind::NotFound, "no file was given"))?;
        let mut others: Vec<_> = files.collect();
        Reader::new(first, None, Vec::new(), |part| match others.iter().position(|file| file.name == part.path) {
            Some(at) => Ok(others.swap_remove(at)),
            None => Err(Error::new(ErrorKind::NotFound, "this file of the model was not given").in_file(&part.path)),
        })
    }

    fn new(
        first: FileBytes,
        config: Option<&ModelConfig>,
        adapters: Vec<(FileBytes, AdapterFile)>,
        mut open_part: impl FnMut(&Part) -> Result<FileBytes>,
    ) -> Result<Reader> {
        let name = first.name.clone();
        #[cfg(native)]
        let mut manifest = None;
        let (first, parsed) = first.unpack(None)?;
        let (mut assembly, opened) = Assembly::of(parsed, first.file_name()).map_err(|e| e.in_file(&name))?;
        let mut files = Vec::new();
        let mut own = None;
        match opened {
            Opened::Tensors(index, number) => own = Some((TensorFile::new(first, index)?, number)),
            Opened::WithData(index, data) => {
                let data = data_files(data, &index, &mut open_part)?;
                files.push(TensorFile::new(first, index)?);
                files.extend(data);
            }
            Opened::Document => {
                #[cfg(native)]
                {
                    manifest = Some(Arc::new(first));
                }
            }
        }
        match &assembly.manifest {
            None => files.extend(own.map(|(file, _)| file)),
            Some(manifest) => {
                for (number, part) in manifest.parts.iter().enumerate() {
                    files.push(match own.take_if(|(_, own)| *own == number) {
                        Some((file, _)) => file,
                        None => TensorFile::part(open_part(part)?, part, number, &assembly)?,
                    });
                }
            }
        }
        let contents: Vec<_> = files.iter().map(|file| (file.bytes.name.as_str(), &file.index)).collect();
        assembly.check(&contents).map_err(|e| e.in_file(&name))?;
        let Grouped { mut parts, config } = quantized::group(&mut files, config, &mut open_part)?;
        parts.extend(adapters::apply(&mut files, adapters)?);
        let mut reader = Reader {
            name,
            #[cfg(native)]
            manifest,
            metadata: join_metadata(assembly.manifest.as_mut(), files.first_mut()),
            files,
            tensors: Vec::new(),
            names: NameIndex::new(0, &|_| ""),
            cached: Vec::new(),
            listed: 0,
            config,
        };
        reader.join_tensors(parts);
        Ok(reader)
    }

    /// Collects the tensors of all files, and the parts of quantized ones that have other names.
    fn join_tensors(&mut self, parts: Vec<Tensor>) {
        for (shard, file) in self.files.iter_mut().enumerate() {
            let tensors = std::mem::take(&mut file.index.tensors);
            self.tensors.extend(tensors.into_vec().into_iter().map(|tensor| Tensor { shard, ..tensor }));
        }
        self.listed = self.tensors.len();
        let quantized = self.tensors.iter().filter(|tensor| tensor.quantized().is_some());
        let names: HashSet<String> = quantized.map(|tensor| tensor.name.clone()).collect();
        self.tensors.extend(parts.into_iter().filter(|part| !names.contains(&part.name)));
        let name_at = &|at: usize| self.tensors.get(at).map_or("", |tensor| tensor.name.as_str());
        self.names = NameIndex::new(self.tensors.len(), name_at);
        let slots = |tensor: &Tensor| tensor.components.iter().map(|_| OnceLock::new()).collect();
        self.cached = self.tensors.iter().map(slots).collect();
    }
}

/// Opens the files of raw bytes that a file with this index names.
fn data_files(
    data: Vec<DataFile>,
    index: &Index,
    open_part: &mut dyn FnMut(&Part) -> Result<FileBytes>,
) -> Result<Vec<TensorFile>> {
    let open = |data: DataFile| {
        let files = data.parts.iter().map(&mut *open_part).collect::<Result<Vec<_>>>()?;
        TensorFile::data(files, data, index)
    };
    data.into_iter().map(open).collect()
}

/// Takes the metadata of the manifest and of the first file, so that a vocabulary is not in memory twice.
fn join_metadata(manifest: Option<&mut Manifest>, first: Option<&mut TensorFile>) -> ModelMetadata {
    let mut joined = match manifest {
        Some(manifest) => ModelMetadata {
            format: manifest.format,
            version: manifest.version.clone(),
            metadata: std::mem::take(&mut manifest.metadata),
        },
        None => ModelMetadata { format: "", version: String::new(), metadata: Default::default() },
    };
    if let Some(TensorFile { index, .. }) = first {
        (joined.format, joined.version) = (index.format, index.version.clone());
        let metadata = index.take_metadata();
        if joined.metadata.is_empty() {
            joined.metadata = metadata;
        } else {
            joined.metadata.extend(metadata);
        }
    }
    joined
}
