//! Tests of the Burnpack writer.

use crate::dtype::Dtype;
use crate::format::{burnpack, safetensors};
use crate::index::{Component, Metadata, Tensor};
use crate::loader::ModelMetadata;
use crate::native::Reader;
use crate::testing::corpus::{Fixture, fixtures, root};
use crate::testing::model::{Folder, Given, content, noise, safetensors_file};
use crate::write::{Compression, ConvertOptions, DigestAlgorithm, Input, convert_with as convert};
use crate::{ErrorKind, Result};
use serde_json::{Value, json};
use std::fs;

fn options() -> ConvertOptions {
    ConvertOptions { format: Some(&burnpack::FORMAT), ..ConvertOptions::default() }
}

fn files_of_burn() -> Vec<Fixture> {
    fixtures().into_iter().filter(|fixture| fixture.folder() == "burnpack").collect()
}

fn attributes(reader: &Reader) -> Vec<(String, Metadata)> {
    let mut all: Vec<_> =
        reader.tensors().iter().map(|tensor| (tensor.name.clone(), tensor.attributes.clone())).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

/// Files of 0.19 have another layout, and 0.20 spells a Bool differently.
#[test]
fn files_of_burn_round_trip_byte_for_byte() {
    let folder = Folder::new();
    let mut unchanged = 0;
    for fixture in files_of_burn() {
        if fixture.path.contains("bs019") || fixture.path.contains("bs020_alltypes") {
            continue;
        }
        folder.convert(root().join(&fixture.path), "out.bpk", &options()).unwrap();
        assert!(fs::read(folder.path("out.bpk")).unwrap() == **fixture.bytes(), "{}", fixture.path);
        unchanged += 1;
    }
    assert!(unchanged >= 20, "{unchanged}");
}

#[test]
fn files_of_every_version_keep_tensors_metadata_and_attributes() {
    let folder = Folder::new();
    for fixture in files_of_burn() {
        let before = Reader::open(root().join(&fixture.path)).unwrap();
        folder.convert(root().join(&fixture.path), "out.bpk", &options()).unwrap();
        let after = folder.open("out.bpk");
        assert_eq!(content(&after), content(&before), "{}", fixture.path);
        assert_eq!(after.metadata().metadata, before.metadata().metadata, "{}", fixture.path);
        let mut expected = attributes(&before);
        for (_, attributes) in &mut expected {
            if attributes.get("dtype").is_some_and(|dtype| dtype == "Bool") {
                attributes["dtype"] = json!({ "Bool": "Native" });
            }
        }
        assert_eq!(attributes(&after), expected, "{}", fixture.path);
        assert!(after.tensors().iter().all(|tensor| tensor.first_byte() % 256 == 0), "{}", fixture.path);
        after.verify(&()).unwrap();
    }
}

#[test]
fn every_dtype_of_burn_round_trips() {
    let dtypes = [
        ("F64", 8),
        ("F32", 4),
        ("F16", 2),
        ("BF16", 2),
        ("I64", 8),
        ("I32", 4),
        ("I16", 2),
        ("I8", 1),
        ("U64", 8),
        ("U32", 4),
        ("U16", 2),
        ("U8", 1),
        ("BOOL", 1),
    ];
    let names: Vec<[String; 3]> =
        dtypes.iter().map(|(dtype, _)| ["矩阵", "scalar", "empty"].map(|kind| format!("{kind}.{dtype}"))).collect();
    let mut tensors: Vec<Given> = Vec::new();
    for ((dtype, bytes), [matrix, scalar, empty]) in dtypes.into_iter().zip(&names) {
        let of = |elements: usize| if dtype == "BOOL" { vec![1; elements] } else { noise(7, elements * bytes) };
        tensors.push((empty, dtype, &[4, 0, 2], Vec::new()));
        tensors.push((matrix, dtype, &[3, 5, 1, 1, 2], of(30)));
        tensors.push((scalar, dtype, &[], of(1)));
    }
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    folder.convert("m.safetensors", "m.bpk", &options()).unwrap();
    let written = folder.open("m.bpk");
    assert_eq!(content(&written), content(&folder.open("m.safetensors")));
    written.verify(&()).unwrap();
}

#[test]
fn empty_tensors_keep_their_order() {
    let folder = Folder::new();
    let tensors =
        [("z", "U8", &[0][..], Vec::new()), ("a", "U8", &[3][..], noise(1, 3)), ("last", "F32", &[0], Vec::new())];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    folder.convert("m.safetensors", "once.bpk", &options()).unwrap();
    let once = folder.open("once.bpk");
    let starts: Vec<_> = once.tensors().iter().map(|tensor| (&*tensor.name, tensor.first_byte())).collect();
    assert_eq!(starts, [("z", 256), ("a", 256), ("last", 512)]);
    folder.convert("once.bpk", "twice.bpk", &options()).unwrap();
    let [once, twice] = ["once.bpk", "twice.bpk"].map(|name| fs::read(folder.path(name)).unwrap());
    assert_eq!(once.len(), 512); // Burn counts the padding before the last tensor
    assert_eq!(once, twice);
}

#[test]
fn metadata_is_text_and_scalars_keep_their_types() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({ "format": "pt" }), &[]));
    let scalars = json!({
        "z": { "UInt": u64::MAX }, "y": { "Int": -3 }, "x": { "Float": 0.1 }, "w": { "Bool": false },
        "v": { "Float": "NaN" }, "u": { "Float": "-inf" },
    });
    let given = json!({ "n_layer": 6, "labels": ["a", "b"], "scalars": scalars }).as_object().unwrap().clone();
    folder.convert("m.safetensors", "m.bpk", &options().metadata(given)).unwrap();
    let mut written = folder.open("m.bpk").metadata().metadata.clone();
    assert_eq!(
        written.remove("weightstream.source").unwrap(),
        r#"{"format":"safetensors","json":["n_layer","labels"]}"#
    );
    let written = Value::Object(written);
    let texts = json!({ "format": "pt", "labels": r#"["a","b"]"#, "n_layer": "6", "scalars": scalars });
    assert_eq!(written, texts);

    // A conversion through a format with only text values loses nothing.
    let to = |format| ConvertOptions { format: Some(format), ..options() };
    folder.convert("m.bpk", "back.safetensors", &to(&safetensors::FORMAT)).unwrap();
    folder.convert("back.safetensors", "again.bpk", &options()).unwrap();
    let mut again = folder.open("again.bpk").metadata().metadata.clone();
    again.remove("weightstream.source").unwrap();
    assert_eq!(Value::Object(again), texts);
}

#[test]
fn invalid_scalars_are_written_as_text() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    for scalars in [json!("three"), json!({ "a": 3 }), json!({ "a": { "UInt": -3 } }), json!({ "a": { "Big": 3 } })] {
        let metadata = json!({ "scalars": scalars }).as_object().unwrap().clone();
        folder.convert("m.safetensors", "m.bpk", &options().metadata(metadata)).unwrap();
        let text = scalars.as_str().map_or(scalars.to_string(), str::to_owned);
        assert_eq!(folder.open("m.bpk").metadata().metadata["scalars"], text);
    }
}

#[test]
fn unsupported_dtypes_are_rejected_by_name() {
    let folder = Folder::new();
    let tensors = [("good", "U8", &[1][..], vec![1]), ("bad", "F8_E4M3", &[2][..], vec![1, 2])];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    let error = folder.convert("m.safetensors", "out.bpk", &options()).unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Unsupported, Some("bad")));
    assert!(
        error.to_string().contains("Burnpack has no dtype F8_E4M3 (`ConvertOptions::allow_loss` leaves it out)"),
        "{error}"
    );
    assert_eq!(folder.names(), ["m.safetensors"]);

    let converted = folder.convert("m.safetensors", "out.bpk", &options().allow_loss(true)).unwrap();
    assert_eq!(converted.warnings, [r#"left out: tensor "bad": Burnpack has no dtype F8_E4M3"#]);
    assert_eq!(folder.open("out.bpk").tensors().len(), 1);
}

#[test]
fn unsupported_attributes_are_rejected_by_name() {
    let folder = Folder::new();
    let to_safetensors = ConvertOptions { format: Some(&safetensors::FORMAT), ..options() };
    let error = folder.convert(root().join("burnpack/bp022_single.bpk"), "out", &to_safetensors).unwrap_err();
    assert_eq!(
        error.what,
        "SafeTensors cannot store its attribute `param_id` (`ConvertOptions::allow_loss` leaves it out)"
    );
}

/// A model whose tensors must not be read.
struct Listed {
    metadata: ModelMetadata,
    tensors: Vec<Tensor>,
}

impl Listed {
    fn new(lengths: impl Iterator<Item = u64>) -> Self {
        let tensor = |(at, length)| {
            Tensor::dense(format!("t{at}"), Dtype::U8, vec![length], Component::raw(Dtype::U8, 0..length))
        };
        let metadata = ModelMetadata::new("none", "", Metadata::new());
        Listed { metadata, tensors: lengths.enumerate().map(tensor).collect() }
    }
}

impl Input for Listed {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    fn read_pieces(&self, tensor: &Tensor, _: &str, _: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        panic!("{} was read", tensor.name)
    }
}

#[test]
fn files_beyond_the_limits_of_burn_are_rejected_before_writing() {
    let folder = Folder::new();
    let mut model = Listed::new(std::iter::empty());
    model.metadata.metadata.insert("key".to_owned(), "x".repeat(100 << 20).into());
    let refused = [
        (Listed::new(std::iter::once((10 << 30) + 1)), "it has 10737418241 bytes, and Burn reads tensors of at most"),
        (Listed::new(std::iter::repeat_n(10 << 30, 10)), "the file would have 107374183168 bytes; Burn reads at most"),
        (Listed::new(std::iter::repeat_n(0, 100_001)), "the file would have 100001 tensors; Burn reads at most 100000"),
        (model, "bytes of names and metadata; Burn reads at most 104857600"),
    ];
    for (model, words) in refused {
        let error = convert(&model, &folder.path("out.bpk"), &options(), &()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit, "{error}");
        assert!(error.what.contains(words), "{error}");
        assert_eq!(folder.names(), [""; 0]);
    }
}

#[test]
fn unsupported_options_are_rejected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[]));
    for wrong in [
        options().compression(Compression::Zstd),
        options().digest(Some(DigestAlgorithm::Sha256)),
        options().alignment(Some(64)),
        options().max_shard_bytes(Some(1000)),
    ] {
        let error = folder.convert("m.safetensors", "out.bpk", &wrong).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(folder.names(), ["m.safetensors"]);
}
