//! Files that were chosen together: which of them to open, and where the files lie that it names. Their order means
//! nothing.

use super::stream::broken;
use crate::browser::type_tag::tag;
use crate::error::{Error, ErrorKind, Result};
use crate::format;
use crate::index::{Parsed, Part};
use crate::window::{Stop, Window};
use js_sys::{Array, Reflect, Uint8Array};
use std::collections::BTreeSet;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

/// The least that is read of a head at a time; it doubles, since a parser begins anew after each read.
const LEAST_READ_BYTES: u64 = 64 << 10;

/// An error lists so many names.
const MAX_NAMES_LISTED: usize = 20;

/// One file of a choice.
#[derive(Debug, Clone)]
pub(super) struct ChosenFile {
    pub(super) blob: Blob,
    /// With the folders that it lies in, where the browser tells them.
    pub(super) path: String,
}

/// What a file is to a model.
enum Head {
    /// It names the files of a model: a manifest, or a part that knows its siblings.
    Names(Vec<String>),
    /// It holds tensors, and names no other file.
    Alone,
    /// It cannot be opened.
    Unreadable(Error),
}

impl ChosenFile {
    /// The files of an array or a FileList: each a File, or a pair of a File and its path.
    pub(super) fn all_of(value: &JsValue) -> Result<Vec<Self>> {
        let items: Array = if Array::is_array(value) { value.clone().unchecked_into() } else { Array::from(value) };
        let files: Vec<_> = items.iter().map(|item| ChosenFile::of(&item)).collect::<Result<_>>()?;
        if files.is_empty() {
            return Err(refuse("no file was chosen").advise("Choose all files of a model."));
        }
        Ok(files)
    }

    fn of(item: &JsValue) -> Result<Self> {
        let (file, path) = match item.dyn_ref::<Array>() {
            Some(pair) => (pair.get(0), pair.get(1).as_string()),
            None => (item.clone(), None),
        };
        if tag(&file) != "[object File]" {
            return Err(refuse("the source is an array, but not of Files"));
        }
        let text = |name: &str| Reflect::get(&file, &name.into()).ok().and_then(|text| text.as_string());
        let path = path.or_else(|| text("webkitRelativePath")).filter(|path| !path.is_empty());
        let path = path.or_else(|| text("name")).unwrap_or_default();
        Ok(ChosenFile { blob: file.unchecked_into(), path })
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Ends in a slash; empty where no folder is known.
    fn folder(&self) -> &str {
        self.path.strip_suffix(self.name()).unwrap_or_default()
    }

    async fn head(&self) -> Head {
        let parsed = match self.parse().await {
            Ok(Parsed::Manifest(manifest)) => Ok(manifest.parts),
            Ok(Parsed::Part(index, split)) => split.manifest(&index, Some(self.name())).map(|manifest| manifest.parts),
            Ok(Parsed::File(_) | Parsed::Packed(_)) => return Head::Alone,
            Err(error) => Err(error),
        };
        match parsed {
            Ok(parts) => Head::Names(parts.into_iter().map(path_of).collect()),
            Err(error) => Head::Unreadable(error.in_file(&self.path)),
        }
    }

    async fn parse(&self) -> Result<Parsed> {
        let length = self.blob.size() as u64;
        let mut window = Window::new(Some(length));
        let mut read_bytes = LEAST_READ_BYTES;
        loop {
            let needed = match format::parse(&window) {
                Ok(parsed) => return Ok(parsed),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Need(needed)) => window.missing(&needed),
            };
            let end = needed.end.max(needed.start.saturating_add(read_bytes)).min(length);
            if needed.start >= end {
                return Err(Error::new(ErrorKind::Truncated, "the file ends within its head"));
            }
            window.insert(needed.start, &self.read(needed.start, end).await?);
            read_bytes = read_bytes.saturating_mul(2);
        }
    }

    async fn read(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        let failed = |cause| broken("the file cannot be read, or was changed since it was chosen", cause);
        let piece = self.blob.slice_with_f64_and_f64(start as f64, end as f64).map_err(failed)?;
        let bytes = JsFuture::from(piece.array_buffer()).await.map_err(failed)?;
        Ok(Uint8Array::new(&bytes).to_vec())
    }
}

/// The place of the file at `path`, as `from` names it. Folders decide, where those of both are known; else the name.
pub(super) fn find(files: &[ChosenFile], from: &ChosenFile, path: &str) -> Result<Option<usize>> {
    let exact = format!("{}{path}", from.folder());
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_near = |file: &ChosenFile| file.name() == name && (from.folder().is_empty() || file.folder().is_empty());
    let one_of = |matches: &dyn Fn(&ChosenFile) -> bool| {
        let mut found = files.iter().enumerate().filter(|(_, file)| matches(file));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(Some(at)),
            (None, _) => Ok(None),
            _ => Err(ambiguous(name, path)),
        }
    };
    Ok(match one_of(&|file| file.path == exact)? {
        Some(at) => Some(at),
        None => one_of(&is_near)?,
    })
}

/// The place of the file to open, once it is sure that all files of the model were given, and no others.
pub(super) async fn choose(files: &[ChosenFile]) -> Result<usize> {
    let mut smallest_first: Vec<_> = files.iter().enumerate().collect();
    smallest_first.sort_by_key(|(_, file)| file.blob.size() as u64);
    let (mut named, mut alone, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for (at, file) in smallest_first {
        match file.head().await {
            Head::Names(paths) => {
                let model = Model::of(files, at, &paths)?;
                if model.missing.is_empty() && model.files.len() == files.len() {
                    return Ok(at); // the rest need not be read
                }
                named.push(model);
            }
            Head::Alone => alone.push(at),
            Head::Unreadable(error) => unreadable.push((at, error)),
        }
    }
    // What came with its folder and is in no model's format was not picked for itself: a README, a tokenizer. Where no
    // file names the others, one that is damaged may have been meant to.
    let came_along = |at: &usize| {
        let Some(file) = files.get(*at).filter(|file| !file.folder().is_empty()) else { return false };
        let error = unreadable.iter().find(|(it, _)| it == at).map(|(_, error)| error.kind);
        error.is_some_and(|kind| !named.is_empty() || kind == ErrorKind::Unsupported || file.blob.size() == 0.0)
    };
    let others = |own: &BTreeSet<usize>| {
        let others = (0..files.len()).filter(|at| !own.contains(at) && !came_along(at));
        others.filter_map(|at| files.get(at)).map(|file| file.path.as_str()).collect::<Vec<_>>()
    };
    if let Some(model) = named.iter().rev().max_by_key(|model| model.files.len()) {
        let others = others(&model.files);
        return match (model.missing.is_empty(), others.is_empty()) {
            (true, true) => Ok(model.root),
            (true, false) => Err(strangers(&others)),
            (false, _) => Err(missing(&model.missing, &others)),
        };
    }
    match (alone.as_slice(), unreadable.iter().find(|(_, error)| error.kind != ErrorKind::Unsupported)) {
        (&[], _) if files.len() == 1 => Ok(0), // to open it tells what is wrong
        (&[], Some((_, error))) => Err(error.clone()),
        (&[], None) => {
            let what = format!("none of the files is a model: {}", list(&others(&BTreeSet::new())));
            Err(Error::new(ErrorKind::Unsupported, what))
        }
        (&[one], _) => match others(&BTreeSet::from([one])) {
            others if others.is_empty() => Ok(one),
            others => Err(strangers(&others)),
        },
        (several, _) => {
            let names: Vec<_> = several.iter().filter_map(|at| files.get(*at)).map(|file| file.path.as_str()).collect();
            let error =
                refuse(format!("each of these files holds tensors, and no file names them all: {}", list(&names)));
            Err(error.advise(
                "Choose one of them if each is a model; else choose the file that names them, such as \
                 model.safetensors.index.json, together with them.",
            ))
        }
    }
}

/// The files of a model, as one of them names them.
struct Model {
    root: usize,
    /// The root and all that were found.
    files: BTreeSet<usize>,
    missing: Vec<String>,
}

impl Model {
    fn of(files: &[ChosenFile], root: usize, paths: &[String]) -> Result<Self> {
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

/// The path of a part; where the manifest has only a URL, the name that it ends in.
fn path_of(part: Part) -> String {
    match part.url {
        Some(url) if part.path.is_empty() => name_in(&url).to_owned(),
        _ => part.path,
    }
}

/// The name of a file at a URL.
pub(super) fn name_in(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}

fn refuse(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, what)
}

fn ambiguous(name: &str, path: &str) -> Error {
    let what = format!("several files are called \"{name}\", and the model has one at \"{path}\"");
    refuse(what).advise("Choose the folder of the model instead of its files, so that their paths are known.")
}

fn strangers(names: &[&str]) -> Error {
    refuse(format!("these files do not belong to the model: {}", list(names))).advise("Leave them out.")
}

fn missing(names: &[String], others: &[&str]) -> Error {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut what = format!("files of the model were not given: {}", list(&names));
    if !others.is_empty() {
        what.push_str(&format!("; these do not belong to it: {}", list(others)));
    }
    Error::new(ErrorKind::NotFound, what)
        .advise("Choose all files of the model together: the manifest and every file that it names.")
}

fn list(names: &[&str]) -> String {
    let listed: Vec<_> = names.iter().take(MAX_NAMES_LISTED).map(|name| format!("\"{name}\"")).collect();
    match names.len().checked_sub(MAX_NAMES_LISTED) {
        Some(more) if more > 0 => format!("{} and {more} more", listed.join(", ")),
        _ => listed.join(", "),
    }
}
