//! The previous revision of a model that is published again.

use super::destination::is_url;
use super::options::PublishOptions;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::loader::Options;
use crate::native::{Reader, RemoteReader};
use crate::source::object::{ObjectSource, Store};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A revision that was published earlier: the file, dtype and shape of each tensor.
pub(super) struct Previous(HashMap<String, (usize, Dtype, Vec<u64>)>);

impl Previous {
    /// Reads the entry and the heads of the files.
    ///
    /// # Errors
    /// Those of reading the model; `INVALID_ARGUMENT` if it is a single file.
    pub(super) fn read(place: &str, options: &PublishOptions) -> Result<Self> {
        let (previous, name) = match is_url(place) {
            true => {
                let headers = if place.starts_with("http") { &*options.headers } else { &[] };
                let (store, path) = Store::open(place, headers)?;
                let source = ObjectSource::in_store(Arc::new(store), path);
                let reader = RemoteReader::open_source(source, Options::default())?;
                let name = reader.files().next().map(|(name, _)| name.to_owned());
                (Previous::of(reader.tensors()), name)
            }
            false => {
                let reader = Reader::open(place)?;
                let name = reader.files().next().map(|(name, _)| name.to_owned());
                (Previous::of(reader.tensors()), name)
            }
        };
        if name.is_some_and(|name| name == place) {
            let error = Error::new(ErrorKind::InvalidArgument, "the previous revision is not an entry, but a file");
            return Err(error.advise("`--from` takes the entry that `publish` has written.").in_file(place));
        }
        Ok(previous)
    }

    fn of(tensors: &[Tensor]) -> Self {
        let place =
            |tensor: &Tensor| (tensor.name.clone(), (tensor.shard, tensor.dtype.clone(), tensor.shape.to_vec()));
        Previous(tensors.iter().map(place).collect())
    }

    /// Divides tensors into those of each earlier file that still have the same dtype and shape, and the others.
    pub(super) fn keep_files(&self, tensors: Vec<Tensor>) -> (Vec<Vec<Tensor>>, Vec<Tensor>) {
        let mut kept: BTreeMap<usize, Vec<Tensor>> = BTreeMap::new();
        let mut rest = Vec::new();
        for tensor in tensors {
            match self.0.get(&tensor.name) {
                Some((file, dtype, shape)) if (dtype, shape) == (&tensor.dtype, &tensor.shape) => {
                    kept.entry(*file).or_default().push(tensor);
                }
                _ => rest.push(tensor),
            }
        }
        (kept.into_values().collect(), rest)
    }
}
