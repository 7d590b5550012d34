//! Files that are selected together: finds the file to open, and the files that it references. The order of the files
//! does not matter.

use super::stream::network_error;
use crate::browser::host::BrowserHost;
use crate::browser::type_tag::tag;
use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::host::Host;
use crate::index::{Parsed, Part};
use crate::model::finder::{self, Content, Found};
use crate::quantization::ModelConfig;
use crate::sorting::sort;
use crate::window::{Stop, Window};
use js_sys::{Array, Reflect, Uint8Array};
use std::collections::BTreeSet;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

/// Minimum length of the first read of a head. It doubles with each read that continues the last one, because the
/// parser restarts after each.
const MIN_READ_BYTES: u64 = 64 << 10;

/// Maximum number of names in an error message.
const MAX_NAMES_LISTED: usize = 20;

/// A selected file.
#[derive(Debug, Clone)]
pub(super) struct SelectedFile {
    pub(super) blob: Blob,
    /// Path with folders, if the browser provides them.
    pub(super) path: String,
}

/// The role of a file in a model.
enum Head {
    /// It references the files of a model: a manifest, or a part that lists the other parts.
    References(Vec<String>),
    /// It contains tensors and references no other file.
    SingleFile,
    /// It cannot be opened.
    Unreadable(Error),
}

impl SelectedFile {
    /// Converts an array or a FileList. Each item is a File, or a pair of a File and its path.
    pub(super) fn all_of(value: &JsValue) -> Result<Vec<Self>> {
        let items: Array = if Array::is_array(value) { value.clone().unchecked_into() } else { Array::from(value) };
        let files: Vec<_> = items.iter().map(|item| SelectedFile::of(&item)).collect::<Result<_>>()?;
        if files.is_empty() {
            return Err(invalid("no file was selected").advise("Select all files of a model."));
        }
        Ok(files)
    }

    fn of(item: &JsValue) -> Result<Self> {
        let (file, path) = match item.dyn_ref::<Array>() {
            Some(pair) => (pair.get(0), pair.get(1).as_string()),
            None => (item.clone(), None),
        };
        if tag(&file) != "[object File]" {
            return Err(invalid("the source is an array with items that are not Files"));
        }
        let text = |name: &str| Reflect::get(&file, &name.into()).ok().and_then(|text| text.as_string());
        let path = path.or_else(|| text("webkitRelativePath")).filter(|path| !path.is_empty());
        let path = path.or_else(|| text("name")).unwrap_or_default();
        Ok(SelectedFile { blob: file.unchecked_into(), path })
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The folder with a trailing slash, or an empty string if it is unknown.
    fn folder(&self) -> &str {
        self.path.strip_suffix(self.name()).unwrap_or_default()
    }

    async fn head(&self) -> Head {
        let parsed = match self.parse().await {
            Ok(Parsed::Manifest(manifest)) => Ok(manifest.parts),
            Ok(Parsed::Part(index, split)) => split.manifest(&index, Some(self.name())).map(|manifest| manifest.parts),
            Ok(Parsed::WithData(_, data)) => Ok(data.into_iter().flat_map(|data| data.parts).collect()),
            Ok(Parsed::File(_) | Parsed::Packed(_)) => return Head::SingleFile,
            Err(error) => Err(error),
        };
        match parsed {
            Ok(parts) => Head::References(parts.into_iter().map(path_of).collect()),
            Err(error) => Head::Unreadable(error.in_file(&self.path)),
        }
    }

    async fn parse(&self) -> Result<Parsed> {
        let length = self.blob.size() as u64;
        let mut window = Window::new(Some(length));
        let (mut read_end, mut read_bytes) = (0, MIN_READ_BYTES / 2);
        loop {
            let needed = match format::parse(&window) {
                Ok(parsed) => return Ok(parsed),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Deferred(code)) => {
                    BrowserHost.load_code(code).await?;
                    continue;
                }
                Err(Stop::Need(needed)) => window.missing(&needed),
            };
            // A parser that steps over tensors does not continue at the end of the last read.
            read_bytes = if needed.start == read_end { read_bytes.saturating_mul(2) } else { MIN_READ_BYTES };
            let end = needed.end.max(needed.start.saturating_add(read_bytes)).min(length);
            if needed.start >= end {
                return Err(Error::new(ErrorKind::Truncated, "the file ends within its header"));
            }
            window.insert(needed.start, &self.read(needed.start, end).await?);
            read_end = end;
        }
    }

    async fn read(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        let failed = |cause| network_error("the file is unreadable, or has changed since it was selected", cause);
        let piece = self.blob.slice_with_f64_and_f64(start as f64, end as f64).map_err(failed)?;
        let bytes = JsFuture::from(piece.array_buffer()).await.map_err(failed)?;
        Ok(Uint8Array::new(&bytes).to_vec())
    }
}

/// Returns the index of the file at `path` relative to `from`. Compares paths if the folders of both files are known,
/// else file names.
pub(super) fn find(files: &[SelectedFile], from: &SelectedFile, path: &str) -> Result<Option<usize>> {
    let exact = format!("{}{path}", from.folder());
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_name = |file: &SelectedFile| file.name() == name && (from.folder().is_empty() || file.folder().is_empty());
    let one_of = |matches: &dyn Fn(&SelectedFile) -> bool| {
        let mut found = files.iter().enumerate().filter(|(_, file)| matches(file));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(Some(at)),
            (None, _) => Ok(None),
            _ => Err(ambiguous(name, path)),
        }
    };
    Ok(match one_of(&|file| file.path == exact)? {
        Some(at) => Some(at),
        None => one_of(&has_name)?,
    })
}

/// Returns the index of the file to open. In a selected folder, it is the only one whose name is that of a model.
/// Otherwise, checks that exactly the files of one model are selected.
pub(super) async fn find_root(files: &[SelectedFile]) -> Result<usize> {
    if let Some((at, file)) = named_root(files).and_then(|at| Some((at, files.get(at)?))) {
        match file.head().await {
            Head::References(paths) if Model::of(files, at, &paths)?.missing.is_empty() => return Ok(at),
            Head::SingleFile => return Ok(at),
            _ => {} // the error says what is missing or damaged
        }
    }
    let mut smallest_first: Vec<_> = files.iter().enumerate().collect();
    sort(&mut smallest_first, |(_, file)| (file.blob.size() as u64, 0, 0));
    let mut heads = Heads::default();
    let Heads { named, alone, unreadable } = &mut heads;
    for (at, file) in smallest_first {
        match file.head().await {
            Head::References(paths) => {
                let model = Model::of(files, at, &paths)?;
                if model.missing.is_empty() && model.files.len() == files.len() {
                    return Ok(at); // the other files need not be read
                }
                named.push(model);
            }
            Head::SingleFile => alone.push(at),
            Head::Unreadable(error) => unreadable.push((at, error)),
        }
    }
    choose(files, &heads)
}

/// What the heads of files say, each with the index of its file.
#[derive(Default)]
struct Heads {
    /// The models of files that reference others.
    named: Vec<Model>,
    /// Files that have all their tensors.
    alone: Vec<usize>,
    unreadable: Vec<(usize, Error)>,
}

/// Returns the index of the file to open, if exactly the files of one model are selected.
fn choose(files: &[SelectedFile], Heads { named, alone, unreadable }: &Heads) -> Result<usize> {
    // Unreadable files in a selected folder, such as a README or a tokenizer, are ignored. If no file references the
    // others, a damaged file is not ignored, because it may be the manifest.
    let is_ignored = |at: &usize| {
        let Some(file) = files.get(*at) else { return false };
        if files.len() > 1 && name_in(&file.path) == ModelConfig::FILE_NAME {
            return true; // it states how tensors are quantized
        }
        if file.folder().is_empty() {
            return false;
        }
        let error = unreadable.iter().find(|(it, _)| it == at).map(|(_, error)| error.kind);
        error.is_some_and(|kind| !named.is_empty() || kind == ErrorKind::Unsupported || file.blob.size() == 0.0)
    };
    let others = |own: &BTreeSet<usize>| {
        let others = (0..files.len()).filter(|at| !own.contains(at) && !is_ignored(at));
        others.filter_map(|at| files.get(at)).map(|file| file.path.as_str()).collect::<Vec<_>>()
    };
    if let Some(model) = named.iter().rev().max_by_key(|model| model.files.len()) {
        let others = others(&model.files);
        return match (model.missing.is_empty(), others.is_empty()) {
            (true, true) => Ok(model.root),
            (true, false) => Err(unrelated(&others)),
            (false, _) => Err(missing(&model.missing, &others)),
        };
    }
    match (alone.as_slice(), unreadable.iter().find(|(_, error)| error.kind != ErrorKind::Unsupported)) {
        (&[], _) if files.len() == 1 => Ok(0), // opening it returns the error
        (&[], Some((_, error))) => Err(error.clone()),
        (&[], None) => {
            let what = format!("none of the files is a model: {}", list(&others(&BTreeSet::new())));
            Err(Error::new(ErrorKind::Unsupported, what))
        }
        (&[one], _) => match others(&BTreeSet::from([one])) {
            others if others.is_empty() => Ok(one),
            others => Err(unrelated(&others)),
        },
        (several, _) => {
            let names: Vec<_> = several.iter().filter_map(|at| files.get(*at)).map(|file| file.path.as_str()).collect();
            let names = list(&names);
            let error =
                invalid(format!("each of these files contains tensors, and no file references all of them: {names}"));
            Err(error.advise(
                "Select one of them if each is a model; otherwise also select the file that references them, such as \
                 model.safetensors.index.json.",
            ))
        }
    }
}

/// Returns the index of the file to open in a selected folder, if the names of its files leave no choice.
fn named_root(files: &[SelectedFile]) -> Option<usize> {
    let top = files.first()?.path.split_once('/')?.0;
    let relative = |file: &SelectedFile| file.path.strip_prefix(top)?.strip_prefix('/').map(str::to_owned);
    let paths = files.iter().map(relative).collect::<Option<Vec<_>>>()?;
    let names: Vec<_> = paths.iter().map(String::as_str).collect();
    match finder::find(&names, &|_| Content::Unknown) {
        Found::One(root) => names.iter().position(|name| *name == root),
        _ => None,
    }
}

/// The files of a model that one of them references.
struct Model {
    root: usize,
    /// Indices of the root and all referenced files that were found.
    files: BTreeSet<usize>,
    missing: Vec<String>,
}

impl Model {
    fn of(files: &[SelectedFile], root: usize, paths: &[String]) -> Result<Self> {
        let mut model = Model { root, files: BTreeSet::new(), missing: Vec::new() };
        let Some(from) = files.get(root) else { return Ok(model) };
        for path in paths {
            match find(files, from, path)? {
                Some(at) if !model.files.insert(at) => return Err(ambiguous(from.name(), path)),
                Some(_) => {}
                None => model.missing.push(path.clone()),
            }
        }
        model.files.insert(root);
        Ok(model)
    }
}

/// The path of a part, or the file name of its URL if the manifest contains only a URL.
fn path_of(part: Part) -> String {
    match part.url {
        Some(url) if part.path.is_empty() => name_in(&url).to_owned(),
        _ => part.path,
    }
}

/// The file name in a URL.
pub(super) fn name_in(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

fn ambiguous(name: &str, path: &str) -> Error {
    let what = format!("several files are named \"{name}\", and the model has one at \"{path}\"");
    invalid(what).advise("Select the folder of the model instead of its files, so that their paths are known.")
}

fn unrelated(names: &[&str]) -> Error {
    invalid(format!("these files do not belong to the model: {}", list(names))).advise("Deselect them.")
}

fn missing(names: &[String], others: &[&str]) -> Error {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut what = format!("files of the model were not selected: {}", list(&names));
    if !others.is_empty() {
        what.push_str(&format!("; these files do not belong to it: {}", list(others)));
    }
    Error::new(ErrorKind::NotFound, what)
        .advise("Select all files of the model together: the manifest and every file that it references.")
}

fn list(names: &[&str]) -> String {
    let listed: Vec<_> = names.iter().take(MAX_NAMES_LISTED).map(|name| format!("\"{name}\"")).collect();
    match names.len().checked_sub(MAX_NAMES_LISTED) {
        Some(more) if more > 0 => format!("{} and {more} more", listed.join(", ")),
        _ => listed.join(", "),
    }
}
