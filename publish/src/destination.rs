//! The place that a model is published at.

use super::options::PublishOptions;
use crate::object::{Store, key_of, split_name};
use object_store::path::Path as ObjectPath;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use weightstream::internals::format::{Format, apr};
use weightstream::internals::names;
use weightstream::internals::output;
use weightstream::internals::output::{CreatedFolders, Existing, Target};
use weightstream::internals::write::{Input, format_of_name};
use weightstream::{Error, ErrorKind, Result};

/// The name of the entry if the destination is a folder, without its extension.
const ENTRY_STEM: &str = "model";

/// The formats whose models have a manifest.
const FORMATS: [&str; 4] = ["aero", "apr", "safetensors", "ztensor"];

/// The number of threads that send files. One encrypts while the other waits.
const THREADS: usize = 2;

/// An open store, and the names of the files in it.
pub(super) struct Destination {
    pub(super) store: Arc<Store>,
    folder: ObjectPath,
    /// The file name of the entry.
    pub(super) entry: String,
    /// The extension of the files of tensors, without its dot.
    pub(super) extension: &'static str,
    /// Runs the requests.
    pub(super) runtime: Runtime,
    /// Removes what a failed run created, after its requests have ended.
    _created: CreatedFolders,
}

impl Destination {
    /// Opens the store, and chooses the name of the entry and, unless it is given, the format.
    pub(super) fn open(place: &str, options: &mut PublishOptions) -> Result<Self> {
        let is_entry = |name: &str| format_of_name(Path::new(name)).is_some();
        let (folder, entry) = match is_url(place) {
            true => split_name(place, is_entry)?,
            false => split_path(place, is_entry),
        };
        let named = entry.as_deref().and_then(|name| format_of_name(Path::new(name)));
        let format = *options.convert.format.get_or_insert(named.unwrap_or(&apr::FORMAT));
        if !is_publishable(format) {
            let what = format!("a model in {} has no manifest, which names the files that never change", format.name);
            let error = Error::new(ErrorKind::InvalidArgument, what).in_file(place);
            return Err(error.advise(format!("Publish it in one of {}.", FORMATS.join(", "))));
        }
        let extension = format.extensions.first().copied().unwrap_or_default().trim_start_matches('.');
        let entry = entry.unwrap_or_else(|| format!("{ENTRY_STEM}.{extension}"));
        let mut created = CreatedFolders::default();
        let (store, folder) = open_folder(&folder, &options.headers, &mut created)?;
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        Ok(Destination { store: Arc::new(store), folder, entry, extension, runtime, _created: created })
    }

    /// Replaces the name of the entry by that of the manifest: `model.safetensors.index.json` for `model.safetensors`.
    pub(super) fn name_entry(&mut self, target: &dyn Target) {
        let manifest = target.sharded().and_then(|format| format.manifest());
        let path = manifest.map(|manifest| manifest.manifest_path(Path::new(&self.entry)));
        if let Some(name) = path.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
            self.entry = name.to_owned();
        }
    }

    /// The key of a file.
    ///
    /// # Errors
    /// Those of [`key_of`].
    pub(super) fn key_of(&self, name: &str) -> Result<ObjectPath> {
        key_of(&self.folder, name)
    }

    /// Checks that writing a file would neither change the input nor replace anything other than a file.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub(super) fn refuse_input(&self, name: &str, input: &dyn Input) -> Result<()> {
        let key = self.key_of(name)?;
        if let Some(path) = self.store.path_of(&key) {
            return output::check(&path, &input.paths(), Existing::Replace);
        }
        let url = self.store.url_of(&key);
        match input.urls().iter().any(|input| names::decoded(input) == names::decoded(&url)) {
            true => Err(output::is_input(&url)),
            false => Ok(()),
        }
    }

    /// The URL or path of a file.
    ///
    /// # Errors
    /// Those of [`key_of`].
    pub(super) fn url_of(&self, name: &str) -> Result<String> {
        Ok(self.store.url_of(&self.key_of(name)?))
    }

    /// The http(s) URL of a file, if it has one.
    ///
    /// # Errors
    /// Those of [`key_of`].
    pub(super) fn http_url_of(&self, name: &str) -> Result<Option<String>> {
        Ok(self.store.http_url_of(&self.key_of(name)?))
    }
}

/// Whether models of a format can be published.
#[doc(hidden)]
pub fn is_publishable(format: &Format) -> bool {
    FORMATS.contains(&format.name)
}

/// Whether a place is a URL, and not a path.
pub(super) fn is_url(place: &str) -> bool {
    place
        .split_once("://")
        .is_some_and(|(scheme, _)| scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Divides a path into the folder and the name of the entry, if the last segment is one.
fn split_path(place: &str, is_entry: impl Fn(&str) -> bool) -> (String, Option<String>) {
    let (folder, name) = match place.rsplit_once(['/', std::path::MAIN_SEPARATOR]) {
        Some((folder, name)) => (place.get(..folder.len() + 1).unwrap_or(folder), name),
        None => (".", place),
    };
    match is_entry(name) {
        true => (folder.to_owned(), Some(name.to_owned())),
        false => (place.to_owned(), None),
    }
}

fn open_folder(
    folder: &str,
    headers: &[(String, String)],
    created: &mut CreatedFolders,
) -> Result<(Store, ObjectPath)> {
    if is_url(folder) {
        return Store::open(folder, headers);
    }
    if !headers.is_empty() {
        let what = "headers can be added only to requests of http and https URLs";
        return Err(Error::new(ErrorKind::InvalidArgument, what).in_file(folder));
    }
    created.create(Path::new(folder))?;
    Ok((Store::folder(Path::new(folder))?, ObjectPath::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_may_be_the_entry() {
        let split = |place: &str| split_path(place, |name| name.ends_with(".apr"));
        assert_eq!(split("out/m.apr"), ("out/".to_owned(), Some("m.apr".to_owned())));
        assert_eq!(split("m.apr"), (".".to_owned(), Some("m.apr".to_owned())));
        assert_eq!(split("out/m"), ("out/m".to_owned(), None));
        assert_eq!(split("m.apr/"), ("m.apr/".to_owned(), None));
    }

    #[test]
    fn a_path_with_a_colon_is_not_a_url() {
        assert!(is_url("s3://bucket") && is_url("https://host/") && !is_url("C:\\models") && !is_url("a:b/c"));
    }
}
