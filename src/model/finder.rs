//! Finds the model among the files of a folder, a repository or a store, by their names.
//!
//! The finder does no I/O. It names a file only if there is no other choice: otherwise, it returns all choices. A
//! caller that can read files says what is in those that may be manifests; the names alone decide for the others.

mod names;

use crate::format::{self, FileNames};
use crate::index::MAX_PARTS;
use crate::index::split::Split;
use crate::sorting::gather;
use names::{JSON, Kind, kind_of, split_folder};
use std::collections::{BTreeMap, BTreeSet};

/// What transformers reads. Files with other names are then of other formats, or of other programs.
const USUAL_NAMES: [&str; 2] = ["model.safetensors.index.json", "model.safetensors"];

/// What transformers reads of PyTorch. Files with other names are then optimizers and other parts of a training.
const USUAL_CHECKPOINTS: [&str; 2] = ["pytorch_model.bin.index.json", "pytorch_model.bin"];

/// The extensions of PyTorch checkpoints.
const PYTORCH: [&str; 3] = [".bin", ".pt", ".pth"];

/// The number of names that an error lists.
const MAX_NAMES: usize = 12;

/// The maximum length of a JSON document with any name that is taken for a manifest. Manifests of 10,000 tensors have
/// about 1 MB.
const MAX_UNNAMED_MANIFEST_BYTES: u64 = 2 << 20;

/// What a file contains, as far as the caller says.
#[derive(Debug)]
pub enum Content {
    /// The caller has not read it.
    Unknown,
    /// It names files of a model, by their paths relative to its folder.
    Manifest(Vec<String>),
    /// It is no manifest.
    Other,
}

/// The model among some files.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The path of the only file to open.
    One(&'a str),
    /// The paths of the files to choose from.
    Several(Vec<&'a str>),
    /// There is only a part of a model, and no file that names the others.
    Part(&'a str),
    /// There is no model.
    Nothing,
}

/// Finds the model among files, given by their paths with `/`. Files in hidden folders, and hidden files, are skipped.
pub fn find<'a>(paths: &[&'a str], content: &dyn Fn(&str) -> Content) -> Found<'a> {
    let mut models = usual_models(paths, &USUAL_NAMES);
    for choice in [Choice::First, Choice::Last] {
        if models.is_empty() && choice == Choice::Last {
            models = usual_models(paths, &USUAL_CHECKPOINTS);
        }
        if models.is_empty() && choice == Choice::Last {
            let documents = documents(paths).into_iter();
            models = documents.map(|path| Model { path, can_open: true, may_name_files: true }).collect();
        }
        if models.is_empty() {
            models = Files::of(paths, choice).models(content);
            remove_parts(&mut models, content);
        }
    }
    match models.as_slice() {
        [] => Found::Nothing,
        [Model { path, can_open: true, .. }] => Found::One(path),
        [Model { path, .. }] => Found::Part(path),
        several => {
            let mut paths: Vec<&str> = Vec::new();
            for Model { path, .. } in several {
                paths.insert(paths.partition_point(|other| other <= path), path); // less code than sorting
            }
            Found::Several(paths)
        }
    }
}

/// Which formats are considered: those of models, or those whose files often lie beside models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    First,
    Last,
}

/// Those of `names` that exist. The first of them is the manifest of others.
fn usual_models<'a>(paths: &[&'a str], names: &[&str]) -> Vec<Model<'a>> {
    let usual = paths.iter().filter(|path| names.contains(path));
    usual.map(|path| Model { path, can_open: true, may_name_files: false }).collect()
}

/// The names of all files of a model in numbered files, such as `x-00002-of-00003.gguf`, from the name of one of them.
/// `None` for other names, and for formats that have a manifest instead.
#[cfg_attr(not(npm), allow(dead_code, reason = "only the npm package lists cached models"))]
pub(crate) fn numbered_set(name: &str) -> Option<Vec<String>> {
    let (names, kind) = kind_of(name)?;
    let Kind::Numbered { before, after, number, count } = kind else { return None };
    let is_set = names.is_split_by_number && (2..=MAX_PARTS).contains(&count) && (1..=count).contains(&number);
    let stem = |number| format!("{before}{}{after}", Split::mark(number, count));
    let extension = is_set.then(|| name.strip_prefix(&stem(number - 1)))??;
    Some((0..count).map(|number| stem(number) + extension).collect())
}

/// Whether a file of this name and length may name other files of a model. A large JSON document without the name of a
/// manifest is taken for another one, such as a tokenizer, because parsing it would slow down every list of files.
#[cfg_attr(not(npm), allow(dead_code, reason = "only the npm package lists cached models"))]
pub(crate) fn may_name_files(name: &str, byte_length: u64) -> bool {
    match kind_of(name) {
        Some((names, Kind::Whole { may_name_files, .. })) => may_name_files || names.has_data_files,
        Some((_, Kind::Numbered { .. } | Kind::Named(_))) => false,
        Some((_, Kind::Manifest(_))) => true,
        None if format::file_names().iter().any(|names| names.document_names.contains(&name)) => true,
        None => name.to_ascii_lowercase().ends_with(JSON) && byte_length <= MAX_UNNAMED_MANIFEST_BYTES,
    }
}

/// The documents with the name of one that stands for a model, such as `model.json`. In each folder, the first name of
/// a format counts.
fn documents<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    let is_visible = |path: &&&str| !path.split('/').any(|segment| segment.starts_with('.'));
    let mut found: Vec<&str> = Vec::new();
    let names = format::file_names().iter().flat_map(|names| names.document_names);
    for name in names {
        for path in paths.iter().filter(is_visible) {
            let (folder, file) = split_folder(path);
            if file == *name && found.iter().all(|other| split_folder(other).0 != folder) {
                found.push(path);
            }
        }
    }
    found
}

/// What to do about files without a model.
pub fn advice(found: &Found<'_>, paths: &[&str]) -> Option<String> {
    if let Found::Part(part) = found {
        return Some(format!(
            "{part} is a part of a model: also download the others, and the manifest that names them."
        ));
    }
    let is_pytorch = |path: &&&str| PYTORCH.iter().any(|extension| path.ends_with(extension));
    let checkpoint = paths.iter().find(is_pytorch)?;
    Some(format!("{checkpoint} may be a PyTorch checkpoint: specify this file to read it."))
}

/// Lists names in an error.
pub fn list<T: AsRef<str>>(names: &[T]) -> String {
    let shown = names.iter().take(MAX_NAMES).map(|name| name.as_ref()).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MAX_NAMES) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// A file that stands for a model.
struct Model<'a> {
    path: &'a str,
    /// Whether it can be opened: a part that does not lead to the others cannot.
    can_open: bool,
    may_name_files: bool,
}

/// Removes the models that are files of another one, whatever they are named.
fn remove_parts(models: &mut Vec<Model<'_>>, content: &dyn Fn(&str) -> Content) {
    let manifests: Vec<_> = models.iter().filter(|model| model.may_name_files).map(|model| model.path).collect();
    for manifest in manifests {
        if models.len() < 2 || !models.iter().any(|model| model.path == manifest) {
            continue;
        }
        if let Content::Manifest(parts) = content(manifest) {
            let (folder, _) = split_folder(manifest);
            let parts: BTreeSet<_> = gather(parts.iter().map(|part| format!("{folder}{part}")));
            models.retain(|model| model.path == manifest || !parts.contains(model.path));
        }
    }
}

/// Files that may belong to models, by what their names say.
#[derive(Default)]
struct Files<'a> {
    /// Manifests with names of their own, such as `model.safetensors.index.json`.
    manifests: Vec<(Place<'a>, &'a str)>,
    /// Files that are models, and whether they may be manifests instead.
    whole: BTreeMap<Place<'a>, Vec<(&'a str, bool)>>,
    /// The files of numbered sets, by set and number.
    numbered: BTreeMap<(Place<'a>, &'a str), Numbered<'a>>,
    /// Files with names that only manifests contain.
    named: Vec<(Place<'a>, &'a str)>,
}

/// The names of the format's files, and the paths of a set by number.
type Numbered<'a> = (&'a FileNames, BTreeMap<u64, &'a str>);

/// The folder of a file, its format's first extension, and what the names of the model's files begin with.
type Place<'a> = (&'a str, &'a str, &'a str);

impl<'a> Files<'a> {
    fn of(paths: &[&'a str], choice: Choice) -> Self {
        let mut files = Files::default();
        for path in paths {
            if !path.split('/').any(|segment| segment.starts_with('.')) {
                files.add(path, choice);
            }
        }
        files
    }

    fn add(&mut self, path: &'a str, choice: Choice) {
        let (folder, name) = split_folder(path);
        let Some((names, kind)) = kind_of(name) else { return };
        if names.is_last_choice != (choice == Choice::Last) || is_ambiguous(name) {
            return;
        }
        let format = names.extensions.first().copied().unwrap_or_default();
        match kind {
            Kind::Manifest(stem) => self.manifests.push(((folder, format, stem), path)),
            Kind::Whole { stem, may_name_files } => {
                self.whole.entry((folder, format, stem)).or_default().push((path, may_name_files));
            }
            Kind::Numbered { before, after, number, .. } => {
                let set = self.numbered.entry(((folder, format, before), after));
                set.or_insert_with(|| (names, BTreeMap::new())).1.insert(number, path);
            }
            Kind::Named(stem) => self.named.push(((folder, format, stem), path)),
        }
    }

    fn models(&self, content: &dyn Fn(&str) -> Content) -> Vec<Model<'a>> {
        // `x.safetensors.json` beside `x.safetensors` describes that file.
        let describes = |place: &Place<'a>, path: &str| {
            let described = path.get(..path.len() - JSON.len());
            self.whole.get(place).is_some_and(|paths| paths.iter().any(|(path, _)| Some(*path) == described))
        };
        let manifests = self.manifests.iter().filter(|(place, path)| !describes(place, path));
        let manifests: BTreeMap<_, _> = gather(manifests.map(|(place, path)| (*path, *place)));
        let places: BTreeSet<_> = gather(manifests.values().copied());
        let folders: BTreeSet<_> = gather(places.iter().map(|(folder, format, _)| (*folder, *format)));
        let is_manifest = |place: &Place<'a>| {
            let is_one =
                |(path, may_name_files): &(&str, bool)| *may_name_files && !matches!(content(path), Content::Other);
            self.whole.get(place).is_some_and(|paths| paths.iter().any(is_one))
        };
        let model = |path| Model { path, can_open: true, may_name_files: false };
        let manifest = |path| Model { may_name_files: true, ..model(path) };
        let whole = |(path, may_name_files): &(&'a str, bool)| Model { may_name_files: *may_name_files, ..model(path) };
        let mut models: Vec<_> = manifests.into_keys().map(manifest).collect();
        models.extend(self.whole.values().flatten().map(whole));
        for ((place, _), (names, set)) in &self.numbered {
            let is_part = folders.contains(&(place.0, place.1)) || is_manifest(place);
            if let Some((number, first)) = set.first_key_value().filter(|_| !is_part) {
                models.push(Model { can_open: names.is_split_by_number && *number == 1, ..model(first) });
            }
        }
        let is_part = |place: &Place<'a>| places.contains(place) || is_manifest(place);
        models.extend(self.named.iter().filter(|(place, _)| !is_part(place)).map(|(_, path)| model(path)));
        models
    }
}

/// Whether a name does not say that the file is a checkpoint: many programs have files with the extension `.bin`.
fn is_ambiguous(name: &str) -> bool {
    name.contains(BIN) && !CHECKPOINT_NAMES.iter().any(|part| name.contains(part))
}

/// The extension of the checkpoints of transformers.
const BIN: &str = ".bin";

/// What the names of these checkpoints contain.
const CHECKPOINT_NAMES: [&str; 2] = ["pytorch_model", "adapter_model"];

#[cfg(all(test, feature = "formats", native))]
mod tests;
