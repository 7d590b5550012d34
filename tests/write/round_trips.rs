//! Conversions from a format to another and back. The table in docs/formats.md shows what each pair loses.

use super::corpus::{fixtures, root};
use super::model::{Content, Folder, content, required_by, required_by_embd, to, varied_for};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use weightstream::Dtype;
use weightstream::internals::format::{Format, burnpack, safetensors, ztensor};
use weightstream::internals::index::Tensor;
use weightstream::internals::native::Reader;
use weightstream::internals::write;

/// What the format of a model requires, which the tests add to every model.
fn is_given(key: &str) -> bool {
    key == "general.architecture" || required_by_embd().contains_key(key)
}

/// What two conversions should preserve: tensors, their attributes, and metadata.
type Model = (Vec<Content>, BTreeMap<String, Map<String, Value>>, Map<String, Value>);

fn model(reader: &Reader) -> Model {
    let attributes = reader.tensors().iter().map(|tensor| {
        let mut attributes = tensor.attributes.clone();
        attributes.retain(|key, _| !(key.starts_with("quant_") && is_of_ggml(tensor)));
        (tensor.name.clone(), attributes)
    });
    let mut metadata = reader.metadata().metadata.clone();
    metadata.retain(|key, _| !is_given(key));
    if reader.metadata().format == "safetensors" && metadata.contains_key("total_size") {
        metadata.remove("weightstream.source"); // the number in the index of several files became text
    }
    if reader.metadata().format == "aero" {
        metadata.remove("uuid"); // each file has its own
        metadata.remove("model"); // has the name that is given to EMBD
        metadata.retain(|key, _| key != "quant_descriptors" || !reader.tensors().iter().any(is_of_ggml));
    }
    (content(reader), attributes.collect(), metadata)
}

/// Whether the type of ggml says all about the quantization of a tensor.
fn is_of_ggml(tensor: &Tensor) -> bool {
    let params = tensor.attributes.get("quant_params").and_then(Value::as_object);
    params.is_some_and(|params| params.keys().eq(["ggml_type"])) && tensor.dtype.block().is_some()
}

fn writable(reader: &Reader) -> Option<&'static Format> {
    write::formats().find(|format| format.name == reader.metadata().format)
}

/// Converts every fixture through every other format, and compares the result with the file that its own format's
/// writer makes of it. With `UPDATE_DOCS=1` in the environment, the test updates the tables.
#[test]
fn only_what_the_table_lists_is_lost_on_the_way_through_another_format() {
    let folder = Folder::new();
    let mut lost: BTreeMap<(&str, &str), BTreeSet<Loss>> = BTreeMap::new();
    for fixture in fixtures() {
        let Ok(reader) = Reader::open(root().join(&fixture.path)) else { continue }; // other files are missing
        let Some(own) = writable(&reader) else { continue };
        if folder.convert(root().join(&fixture.path), "same", &to(own)).is_err() {
            assert!(fixture.path == "apr/quantized.apr", "{} is not written by its own format", fixture.path);
            continue;
        }
        let before = model(&folder.open("same"));
        for other in write::formats().filter(|other| other.name != own.name) {
            let through = format!("{} through {}", fixture.path, other.name);
            let lost = lost.entry((own.name, other.name)).or_default();
            let converted = folder.convert("same", "other", &to(other).allow_loss(true)).unwrap();
            let warnings = converted.warnings.iter().filter(|warning| !warning.starts_with("only weightstream reads"));
            lost.extend(warnings.clone().map(|warning| loss(&folder.open("same"), warning)));
            folder.convert("other", "back", &to(own)).unwrap_or_else(|error| panic!("{through}: {error}"));
            if warnings.count() > 0 {
                assert!(folder.convert("same", "refused", &to(other)).is_err(), "{through}: a loss is not refused");
                continue;
            }
            let after = model(&folder.open("back"));
            assert!(after.0 == before.0, "{through}: the tensors differ");
            assert_eq!(after.2, before.2, "{through}: the metadata differs");
            for (name, attributes) in &before.1 {
                if *attributes != after.1[name] {
                    lost.insert(Loss::Attribute);
                }
            }
        }
    }
    check_table(&table(&lost));
}

/// A table of the kinds of losses of each pair, and one of the dtypes that each format does not have.
fn table(lost: &BTreeMap<(&str, &str), BTreeSet<Loss>>) -> String {
    let title = |format: &Format| format.title.split(' ').next().unwrap_or_default().to_owned();
    let titles: Vec<_> = write::formats().map(title).collect();
    let mut table = format!("| through | {} |\n|{}\n", titles.join(" | "), " --- |".repeat(titles.len() + 1));
    for own in write::formats() {
        let cells = write::formats().map(|other| match lost.get(&(own.name, other.name)) {
            None => String::new(),
            Some(lost) if lost.is_empty() => "–".to_owned(),
            Some(lost) => {
                lost.iter().map(Loss::letter).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
            }
        });
        table += &format!("| {} | {} |\n", title(own), cells.collect::<Vec<_>>().join(" | "));
    }
    table += "\n| format | dtypes of the fixtures that it does not have |\n| --- | --- |\n";
    for other in write::formats() {
        let missing = lost.iter().filter(|((_, target), _)| *target == other.name).flat_map(|(_, lost)| lost);
        let missing: BTreeSet<_> =
            missing.filter_map(|loss| if let Loss::Dtype(name) = loss { Some(&**name) } else { None }).collect();
        let missing = missing.into_iter().collect::<Vec<_>>().join(", ");
        table += &format!("| {} | {} |\n", title(other), if missing.is_empty() { "–" } else { &missing });
    }
    table
}

/// What a conversion loses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    Attribute,
    Dims,
    Dtype(String),
    Layout,
    Metadata,
    Scalar,
}

impl Loss {
    /// The letter in the table.
    fn letter(&self) -> &'static str {
        match self {
            Loss::Attribute => "A",
            Loss::Dims => "N",
            Loss::Dtype(_) => "D",
            Loss::Layout => "L",
            Loss::Metadata => "M",
            Loss::Scalar => "S",
        }
    }
}

/// The loss that a warning of `convert` reports.
fn loss(reader: &Reader, warning: &str) -> Loss {
    let kinds = [
        ("the attribute `", Loss::Attribute),
        ("dimensions, and ggml allows 4", Loss::Dims),
        ("dimensions, and EMBD allows 4", Loss::Dims),
        ("its layout is ", Loss::Layout),
        ("without them: the metadata lacks", Loss::Metadata),
        ("it is a scalar", Loss::Scalar),
    ];
    if let Some((_, kind)) = kinds.iter().find(|(words, _)| warning.contains(words)) {
        return kind.clone();
    }
    let tensor = warning.split_once("tensor \"").and_then(|(_, rest)| rest.split_once("\": "));
    let (name, what) = tensor.unwrap_or_else(|| panic!("a loss of no known kind: {warning}"));
    let tensor = reader.tensor(name).unwrap();
    let dtype = match &*tensor.components {
        [stored] => &stored.dtype,
        _ => &tensor.dtype,
    };
    Loss::Dtype(match dtype {
        _ if what.contains("do not fill whole blocks") => format!("{dtype} of odd lengths"),
        _ if !what.contains("has no dtype") => panic!("a loss of no known kind: {warning}"),
        dtype if dtype.block().is_some_and(|block| block.elements > 1) => "quantized types".to_owned(),
        Dtype::Other(_) => "other types".to_owned(),
        dtype if dtype.name().starts_with("F8_") => "8-bit floats".to_owned(),
        dtype => dtype.to_string(),
    })
}

fn check_table(table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats.md");
    let text = fs::read_to_string(&path).unwrap();
    if text.contains(table) {
        return;
    }
    let advice = "update it with `UPDATE_DOCS=1 cargo test --test write round_trips`";
    assert!(std::env::var_os("UPDATE_DOCS").is_some(), "docs/formats.md should have this table ({advice}):\n\n{table}");
    let (start, end) = (text.find("| through |").unwrap(), text.find("\nThe tables are made by a test").unwrap());
    fs::write(&path, [&text[..start], table, &text[end..]].concat()).unwrap();
}

/// Metadata of every JSON type. Many of its values change in formats that have only text, or only floats of 32 bits.
fn metadata_of_every_type() -> Map<String, Value> {
    let metadata = json!({
        "text": "naïve ✓", "empty": "", "looks like a number": "3", "looks like JSON": "[1, null]",
        "true": true, "null": null, "zero": 0, "negative": -1, "u64": u64::MAX, "i64": i64::MIN, "tenth": 0.1,
        "large": 1e300, "small": 5e-324, "numbers": [1, -2, 3], "floats": [0.1, 2.5],
        "texts": ["a", ""], "mixed": [1, "a", null],
        "nested": { "a": { "b": [[], {}, [[1]]] } }, "empty array": [], "empty object": {}, "n_layer": 6,
        "vocabulary": { "tokens": ["[PAD]", "##x"] }, "name": "m", "architecture": "bert", "uuid": "mine",
    });
    metadata.as_object().unwrap().clone()
}

/// The model was made of a file in a third format, because metadata that are added during a conversion cannot be told
/// from those of the source when it is undone.
#[test]
fn metadata_of_every_type_returns_from_every_format() {
    let folder = Folder::new();
    for (own, other) in write::formats().flat_map(|own| write::formats().map(move |other| (own, other))) {
        if own.name == other.name {
            continue;
        }
        folder.write("m.safetensors", &varied_for(&[own, other]));
        let is_third = |format: &&Format| ![own.name, other.name].contains(&format.name);
        let made_of = [&safetensors::FORMAT, &ztensor::FORMAT, &burnpack::FORMAT].into_iter().find(is_third).unwrap();
        let mut given = metadata_of_every_type();
        given.extend(required_by(own));
        folder.convert("m.safetensors", "made of", &to(made_of).omit_metadata(true)).unwrap();
        folder.convert("made of", "own", &to(own).metadata(given)).unwrap();
        let before = model(&folder.open("own")).2;
        folder.convert("own", "other", &to(other)).unwrap();
        folder.convert("other", "back", &to(own)).unwrap();
        assert_eq!(model(&folder.open("back")).2, before, "{} through {}", own.name, other.name);
    }
}
