//! The previous revision of a model that is published again.

use super::destination::{Destination, is_url};
use super::options::PublishOptions;
use super::upload;
use crate::object::{ObjectSource, Store, is_same_origin};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use weightstream::Dtype;
use weightstream::internals::index::Tensor;
use weightstream::internals::loader::Options;
use weightstream::internals::names;
use weightstream::internals::native::{Reader, RemoteReader};
use weightstream::internals::source::Source;
use weightstream::{Error, ErrorKind, Result};

/// A revision that was published earlier.
pub(super) struct Previous {
    /// The file, dtype and shape of each tensor.
    tensors: HashMap<String, (usize, Dtype, Vec<u64>)>,
    /// The URL or path of the entry.
    pub(super) entry: String,
    /// The URLs or paths of its files.
    paths: Vec<String>,
}

impl Previous {
    /// Reads the entry and the heads of the files. The headers for `destination` are sent only to its origin.
    ///
    /// # Errors
    /// Those of reading the model; `INVALID_ARGUMENT` if it is a single file.
    pub(super) fn read(place: &str, destination: &str, options: &PublishOptions) -> Result<Self> {
        let previous = match is_url(place) {
            true => {
                // The headers are those of the destination.
                let is_trusted = is_same_origin(place, destination);
                let headers = if is_trusted { &*options.headers } else { &[] };
                let (store, path) = Store::open(place, headers)?;
                let source = ObjectSource::in_store(Arc::new(store), path);
                let entry = source.name().to_owned();
                let reader = RemoteReader::open_source(source, Options::default())?;
                let paths = reader.files().map(|(name, _)| name.to_owned()).collect();
                Previous::new(entry, reader.tensors(), paths)
            }
            false => {
                let reader = Reader::open(place)?;
                // A folder stands for the entry in it.
                let entry = reader.paths().next().unwrap_or(Path::new(place)).canonicalize()?.display().to_string();
                let paths = reader.files().map(|(name, _)| name.to_owned()).collect();
                Previous::new(entry, reader.tensors(), paths)
            }
        };
        if previous.is_single_file() {
            let error = Error::new(ErrorKind::InvalidArgument, "the previous revision is not an entry, but a file");
            return Err(error
                .advise("`PublishOptions::previous` takes the entry that `publish` has written.")
                .in_file(place));
        }
        Ok(previous)
    }

    /// Whether the entry is a file of tensors.
    fn is_single_file(&self) -> bool {
        self.names().next() == Some(self.entry_name())
    }

    fn new(entry: String, tensors: &[Tensor], paths: Vec<String>) -> Self {
        let place =
            |tensor: &Tensor| (tensor.name.clone(), (tensor.shard, tensor.dtype.clone(), tensor.shape.to_vec()));
        Previous { tensors: tensors.iter().map(place).collect(), entry, paths }
    }

    /// The file name of the entry.
    pub(super) fn entry_name(&self) -> String {
        file_name(&self.entry)
    }

    /// The names of its files.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.paths.iter().map(|path| file_name(path))
    }

    /// Whether one of its files has this name.
    pub(super) fn has_file(&self, name: &str) -> bool {
        self.names().any(|file| file == name)
    }

    /// The name of the file with the tensor of the same name, dtype and shape.
    pub(super) fn file_of(&self, tensor: &Tensor) -> Option<String> {
        let (file, dtype, shape) = self.tensors.get(&tensor.name)?;
        let is_same = (dtype, shape) == (&tensor.dtype, &tensor.shape);
        self.paths.get(*file).filter(|_| is_same).map(|path| file_name(path))
    }

    /// The entry, which must be at the destination.
    ///
    /// # Errors
    /// Those of reading it.
    pub(super) fn read_entry(&self, destination: &Destination) -> Result<Vec<u8>> {
        let Destination { store, runtime, .. } = destination;
        runtime.block_on(upload::read(store, &destination.key_of(&self.entry_name())?))
    }

    /// Divides tensors into those of each earlier file that still have the same dtype and shape, and the others.
    pub(super) fn keep_files(&self, tensors: Vec<Tensor>) -> (Vec<Vec<Tensor>>, Vec<Tensor>) {
        let mut kept: BTreeMap<usize, Vec<Tensor>> = BTreeMap::new();
        let mut rest = Vec::new();
        for tensor in tensors {
            match self.tensors.get(&tensor.name) {
                Some((file, dtype, shape)) if (dtype, shape) == (&tensor.dtype, &tensor.shape) => {
                    kept.entry(*file).or_default().push(tensor);
                }
                _ => rest.push(tensor),
            }
        }
        (kept.into_values().collect(), rest)
    }
}

/// The name of the file at a URL of a store or a path.
fn file_name(place: &str) -> String {
    let name = |separators: &[char]| place.rsplit(separators).next().unwrap_or(place).to_owned();
    match is_url(place) {
        true => names::decoded(&name(&['/'])).unwrap_or_default(),
        false => name(&['/', std::path::MAIN_SEPARATOR]),
    }
}
