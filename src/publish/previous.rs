//! The previous revision of a model that is published again.

use super::destination::{Destination, is_url};
use super::options::PublishOptions;
use super::upload;
use crate::dtype::Dtype;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Tensor;
use crate::index::publication::KEY;
use crate::loader::Options;
use crate::native::{Reader, RemoteReader};
use crate::source::object::{ObjectSource, Store};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The number of earlier revisions that an entry lists. A client that holds an older one fetches the whole model.
const MAX_REVISIONS: usize = 8;

/// The maximum size of an entry, as for readers of manifests.
const MAX_ENTRY_BYTES: u64 = 64 << 20;

/// A revision that was published earlier.
pub(super) struct Previous {
    /// The file, dtype and shape of each tensor.
    tensors: HashMap<String, (usize, Dtype, Vec<u64>)>,
    /// The names of its files.
    files: Vec<String>,
    /// What its entry states for clients: its chunks, and the revisions before it. Empty if its files are in another
    /// folder, where clients that read this entry do not look for them.
    stated: Map<String, Value>,
    pub(super) warning: Option<String>,
}

impl Previous {
    /// Reads the entry and the heads of the files.
    ///
    /// # Errors
    /// Those of reading the model.
    pub(super) fn read(place: &str, destination: &Destination, options: &PublishOptions) -> Result<Self> {
        let (tensors, files, document, folder) = match is_url(place) {
            true => {
                let (store, path) = Store::open(place, if place.starts_with("http") { &options.headers } else { &[] })?;
                let store = Arc::new(store);
                let source = ObjectSource::in_store(Arc::clone(&store), path.clone());
                let reader = RemoteReader::open_source(source, Options::default())?;
                let files = reader.files().map(|(name, _)| file_name(name)).collect();
                let document = destination.runtime.block_on(upload::read(&store, &path))?;
                (places(reader.tensors()), files, document, store.url_of(&path.parent().unwrap_or_default()))
            }
            false => {
                let reader = Reader::open(place)?;
                let files = reader.files().map(|(name, _)| file_name(name)).collect();
                let document = crate::native::read_file(Path::new(place), MAX_ENTRY_BYTES)?;
                let folder = Path::new(place).parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
                (places(reader.tensors()), files, document, folder.display().to_string())
            }
        };
        let document: Map<String, Value> = serde_json::from_slice(&document).map_err(|_| {
            let error =
                Error::new(ErrorKind::InvalidArgument, "the previous revision is not an entry, but a single file");
            error.advise("`--from` takes the entry that `publish` has written.").in_file(place)
        })?;
        let is_beside = destination.folder_url().trim_end_matches('/') == folder.trim_end_matches('/');
        let stated = document.get(KEY).and_then(Value::as_object).filter(|_| is_beside);
        let warning = (!is_beside).then(|| {
            format!("{place} is in another folder: its division into files is kept, but clients cannot use its files")
        });
        Ok(Previous { tensors, files, stated: stated.cloned().unwrap_or_default(), warning })
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

    /// The earlier revisions that a new entry lists, newest first, each with its files that the new one does not have.
    pub(super) fn revisions(&self, new_files: &HashSet<&str>) -> Vec<Value> {
        let Some(chunks) = self.stated.get("chunks") else { return Vec::new() };
        let own = self.files.iter().map(|name| Value::from(name.as_str())).collect();
        let own = json!({ "chunks": chunks, "files": Value::Array(own) });
        let older = self.stated.get("previous").and_then(Value::as_array).into_iter().flatten().cloned();
        let without_new = |mut revision: Value| {
            let files = revision.get_mut("files").and_then(Value::as_array_mut)?;
            files.retain(|name| name.as_str().is_some_and(|name| !new_files.contains(name)));
            Some(revision).filter(|revision| revision.get("files").is_some_and(|files| *files != json!([])))
        };
        std::iter::once(own).chain(older).filter_map(without_new).take(MAX_REVISIONS).collect()
    }
}

fn places(tensors: &[Tensor]) -> HashMap<String, (usize, Dtype, Vec<u64>)> {
    let place = |tensor: &Tensor| (tensor.name.clone(), (tensor.shard, tensor.dtype.clone(), tensor.shape.to_vec()));
    tensors.iter().map(place).collect()
}

fn file_name(name: &str) -> String {
    name.rsplit(['/', std::path::MAIN_SEPARATOR]).next().unwrap_or(name).to_owned()
}
