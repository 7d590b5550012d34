//! Finds the model among the files of a folder, a repository or a store, by their names.
//!
//! The finder does no I/O. It names a file only if there is no other choice: otherwise, it returns all choices. A
//! caller that can read files says what is in those that may be manifests; the names alone decide for the others.

use crate::format::{self, FileNames};
use crate::index::MAX_PARTS;
use crate::index::split::Split;
use crate::sorting::gather;
use std::collections::{BTreeMap, BTreeSet};

/// What transformers reads. Files with other names are then of other formats, or of other programs.
const USUAL_NAMES: [&str; 2] = ["model.safetensors.index.json", "model.safetensors"];

/// The extension of manifests.
const JSON: &str = ".json";

/// The extensions of PyTorch checkpoints.
const PYTORCH: [&str; 3] = [".bin", ".pt", ".pth"];

/// The number of names that an error lists.
const MAX_NAMES: usize = 12;

/// The length of the digest in the name of a published file: see `content_name` in `output::shards`.
const DIGEST_DIGITS: usize = 16;

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
    let usual = paths.iter().filter(|path| USUAL_NAMES.contains(path));
    let mut models: Vec<_> = usual.map(|path| Model { path, can_open: true, may_name_files: false }).collect();
    if models.is_empty() {
        models = Files::of(paths).models(content);
        remove_parts(&mut models, content);
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
        None => name.to_ascii_lowercase().ends_with(JSON) && byte_length <= MAX_UNNAMED_MANIFEST_BYTES,
    }
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
    Some(format!("{checkpoint} may be a PyTorch checkpoint: convert it with `save_file` of `safetensors.torch`."))
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
    fn of(paths: &[&'a str]) -> Self {
        let mut files = Files::default();
        for path in paths {
            if !path.split('/').any(|segment| segment.starts_with('.')) {
                files.add(path);
            }
        }
        files
    }

    fn add(&mut self, path: &'a str) {
        let (folder, name) = split_folder(path);
        let Some((names, kind)) = kind_of(name) else { return };
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
        let model = |path, can_open, may_name_files| Model { path, can_open, may_name_files };
        let mut models: Vec<_> = manifests.into_keys().map(|path| model(path, true, true)).collect();
        models.extend(self.whole.values().flatten().map(|(path, may_name_files)| model(path, true, *may_name_files)));
        for ((place, _), (names, set)) in &self.numbered {
            let is_part = folders.contains(&(place.0, place.1)) || is_manifest(place);
            if let Some((number, first)) = set.first_key_value().filter(|_| !is_part) {
                models.push(model(first, names.is_split_by_number && *number == 1, false));
            }
        }
        let is_part = |place: &Place<'a>| places.contains(place) || is_manifest(place);
        models.extend(self.named.iter().filter(|(place, _)| !is_part(place)).map(|(_, path)| model(path, true, false)));
        models
    }
}

/// The role of a file, by its name.
enum Kind<'a> {
    /// A document that names the files of a model. Their names begin with this.
    Manifest(&'a str),
    /// One of several files: `before-00001-of-00003after`.
    Numbered { before: &'a str, after: &'a str, number: u64, count: u64 },
    /// A file of a model whose other files begin with this: `model-7d0f3c2a91b84e65.apr`, `model.index.aero`.
    Named(&'a str),
    /// A model of one file, or a manifest with the extension of the format.
    Whole { stem: &'a str, may_name_files: bool },
}

/// The format and the role of a file; `None` for a file with another extension.
fn kind_of(name: &str) -> Option<(&'static FileNames, Kind<'_>)> {
    let lower = name.to_ascii_lowercase(); // of the same length
    let stem_of = |name: &str| {
        let names = format::file_names().iter();
        let fitting = |names: &'static FileNames| {
            let extension = names.extensions.iter().find(|extension| name.ends_with(**extension))?;
            Some((names, *extension, name.len() - extension.len()))
        };
        { names }.find_map(fitting).filter(|(_, _, end)| *end > 0)
    };
    if let Some(base) = lower.strip_suffix(JSON) {
        // The index of a variant: `model.safetensors.index.fp16.json`.
        let base = match base.rsplit_once(".index") {
            Some((base, variant)) if variant.is_empty() || variant.starts_with('.') => base,
            _ => base,
        };
        let (names, _, end) = stem_of(base).filter(|(names, ..)| names.has_manifest)?;
        return Some((names, Kind::Manifest(name.get(..end)?)));
    }
    let (names, extension, end) = stem_of(&lower)?;
    let stem = name.get(..end)?;
    let kind = numbered(stem).or_else(|| names.has_manifest.then(|| named(stem)).flatten().map(Kind::Named));
    let may_name_files = names.manifest_extensions.contains(&extension);
    Some((names, kind.unwrap_or(Kind::Whole { stem, may_name_files })))
}

/// The parts of a name such as `model-00001-of-00003` or `model-00001-of-00003.fp16`.
fn numbered(stem: &str) -> Option<Kind<'_>> {
    let (before, after) = stem.rsplit_once("-of-")?;
    let (before, number) = before.rsplit_once('-')?;
    let (count, after) = after.split_at(after.find('.').unwrap_or(after.len()));
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    Some(Kind::Numbered { before, after, number: digits(number)?, count: digits(count)? })
}

/// What precedes the digest of the content in the name of a published file, or `.index` in that of AERO's index file.
fn named(stem: &str) -> Option<&str> {
    let is_digest = |text: &str| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        text.len() == DIGEST_DIGITS && text.bytes().all(is_digit)
    };
    let indexed = stem.strip_suffix(".index");
    match indexed.unwrap_or(stem).rsplit_once('-') {
        Some((before, digest)) if is_digest(digest) && !before.is_empty() => Some(before),
        _ => indexed.filter(|stem| !stem.is_empty()),
    }
}

/// Splits a path into its folder, with a slash at its end, and its name.
fn split_folder(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |slash| slash + 1))
}

#[cfg(all(test, feature = "formats", native))]
mod tests {
    use super::Found::{Nothing, One, Part, Several};
    use super::*;

    /// What the names alone say.
    fn found<'a>(paths: &[&'a str]) -> Found<'a> {
        find(paths, &|_| Content::Unknown)
    }

    #[test]
    fn finds_the_only_model() {
        for (model, others) in [
            ("model.safetensors", &["x.gguf", "README.md", "sub/model.safetensors"][..]),
            ("model.safetensors.index.json", &["model-00001-of-00002.safetensors", "other.safetensors"]),
            ("q/x-q4_0.gguf", &["config.json", "x.gguf.txt"]),
            ("x-Q4.GGUF", &["LICENSE"]),
            ("m-00001-of-00002.gguf", &["m-00002-of-00002.gguf"]),
            ("M-00001-of-00002.GGUF", &["M-00002-of-00002.GGUF"]),
            ("voice.onnx", &["voice.onnx.json", "voice.onnx_data", "voice.onnx.data"]),
            ("x.safetensors", &["x.safetensors.json"]),
            ("x.zt", &[".git/x.safetensors", ".cache/a/x.gguf", "._x.gguf"]),
        ] {
            for paths in [[&[model], others].concat(), [others, &[model]].concat()] {
                assert_eq!(found(&paths), One(model), "{paths:?}");
            }
        }
    }

    #[test]
    fn an_index_stands_for_its_shards() {
        for (index, shards) in [
            ("x.safetensors.index.json", &["x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors"][..]),
            ("x.safetensors.index.fp16.json", &["x.fp16-00001-of-00001.safetensors"]),
            ("x.safetensors.index.fp16.json", &["x-00001-of-00002.fp16.safetensors"]),
            ("X.SafeTensors.Index.JSON", &["X-00001-of-00002.SafeTensors"]),
            ("x.apr", &["x-00001-of-00002.apr", "x-00002-of-00002.apr"]),
            ("x.aeroset.json", &["x-00001-of-00001.aero", "x.index.aero"]),
            ("x.aeroset", &["x-00001-of-00001.aero", "x.index.aero"]),
        ] {
            let paths = [&[index], shards].concat();
            assert_eq!(found(&paths), One(index), "{paths:?}");
            let paths: Vec<_> = paths.iter().map(|path| format!("sub/{path}")).collect();
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            assert_eq!(found(&paths), One(paths[0]), "{paths:?}");
        }
    }

    #[test]
    fn an_entry_stands_for_the_files_of_all_revisions() {
        for paths in [
            &["model.apr", "model-7d0f3c2a91b84e65.apr", "model-0000000000000000.apr", "model.sig"][..],
            &["m.safetensors.index.json", "m-7d0f3c2a91b84e65.safetensors"],
            &["m.aeroset.json", "m-7d0f3c2a91b84e65.aero", "m-7d0f3c2a91b84e66.index.aero"],
        ] {
            assert_eq!(found(paths), One(paths[0]), "{paths:?}");
        }
        let other = ["model.apr", "other-7d0f3c2a91b84e65.apr"];
        assert_eq!(found(&other), Several(other.to_vec()));
    }

    #[test]
    fn lists_the_models_of_a_pipeline() {
        let paths = [
            "model_index.json",
            "text_encoder/model.safetensors.index.fp16.json",
            "text_encoder/model.fp16-00001-of-00002.safetensors",
            "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
            "transformer/diffusion_pytorch_model.safetensors.index.json",
            "vae/diffusion_pytorch_model.safetensors",
        ];
        assert_eq!(found(&paths), Several(vec![paths[1], paths[4], paths[5]]));
    }

    #[test]
    fn parts_without_an_index_are_not_ignored() {
        let shards = ["t/x-00001-of-00002.safetensors", "t/x-00002-of-00002.safetensors"];
        assert_eq!(found(&shards), Part(shards[0]));
        assert_eq!(found(&["x-00002-of-00002.gguf"]), Part("x-00002-of-00002.gguf"));
        assert_eq!(found(&[shards[0], shards[1], "vae.safetensors"]), Several(vec![shards[0], "vae.safetensors"]));
        assert_eq!(found(&["README.md", "model.bin", "x.json"]), Nothing);
        assert_eq!(found(&[]), Nothing);
    }

    #[test]
    fn a_number_leads_to_all_files_of_a_set() {
        let set = ["q/x-00001-of-00002.GGUF", "q/x-00002-of-00002.GGUF"];
        for name in set {
            assert_eq!(numbered_set(name).unwrap(), set);
        }
        for name in [
            "x.gguf",
            "x-00001-of-00001.gguf",
            "x-00000-of-00002.gguf",
            "x-00003-of-00002.gguf",
            "x-1-of-2.gguf",
            "x-00001-of-00002.safetensors",
            "x-00001-of-99999.gguf",
            "x-00001-of-18446744073709551615.gguf",
            "",
        ] {
            assert_eq!(numbered_set(name), None, "{name}");
        }
    }

    #[test]
    fn says_which_files_may_name_others() {
        for name in ["x.safetensors.index.json", "x.json", "x.apr", "x.aeroset", "x.onnx", "X.ONNX"] {
            assert!(may_name_files(name, 2 << 20), "{name}");
        }
        for name in ["x.safetensors", "x.gguf", "x-7d0f3c2a91b84e65.apr", "x-00001-of-00002.apr", "x.bin", ""] {
            assert!(!may_name_files(name, 0), "{name}");
        }
        assert!(may_name_files("x.safetensors.index.json", u64::MAX) && !may_name_files("tokenizer.json", 3 << 20));
    }

    #[test]
    fn the_content_of_manifests_decides_if_it_is_known() {
        let named = |path: &str| match path {
            "x.safetensors.index.json" => Content::Manifest(vec!["language.safetensors".to_owned()]),
            "x.apr" => Content::Manifest(vec!["part.apr".to_owned()]),
            _ => Content::Other,
        };
        let index = ["x.safetensors.index.json", "language.safetensors"];
        assert_eq!(find(&index, &named), One(index[0]));
        assert_eq!(find(&["x.apr", "part.apr"], &named), One("x.apr"));
        let two = ["y.apr", "y-7d0f3c2a91b84e65.apr"];
        assert_eq!(find(&two, &named), Several(vec![two[1], two[0]]));
    }
}
