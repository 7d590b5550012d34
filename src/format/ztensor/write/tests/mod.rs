//! Tests of the zTensor writer.

mod byte_streams;
mod in_memory;

use crate::ErrorKind;
use crate::dtype::Dtype;
use crate::format::ztensor;
use crate::index::{Encoding, Layout};
use crate::native::Reader;
use crate::testing::corpus::{fixtures, root};
use crate::testing::model::{Folder, content, noise, safetensors_file, varied};
use crate::write::{self, Compression, ConvertOptions, DigestAlgorithm, convert_with as convert};
use in_memory::Model;
use serde_json::json;
use std::fs;

fn options() -> ConvertOptions {
    ConvertOptions { format: Some(&ztensor::FORMAT), ..ConvertOptions::default() }
}

fn compressed(compression: Compression) -> ConvertOptions {
    options().compression(compression)
}

/// Uncompressed fixtures, with the digest algorithm that their tools used.
const UNCOMPRESSED: [(&str, DigestAlgorithm); 8] = [
    ("py123_alltypes.zt", DigestAlgorithm::Crc32c),
    ("py123_basic.zt", DigestAlgorithm::None),
    ("zt123_alltypes_sha.zt", DigestAlgorithm::Sha256),
    ("zt123_appended.zt", DigestAlgorithm::Crc32c),
    ("zt123_basic.zt", DigestAlgorithm::None),
    ("zt123_empty.zt", DigestAlgorithm::Crc32c),
    ("zt123_shapes.zt", DigestAlgorithm::Crc32c),
    ("zt123_unicode.zt", DigestAlgorithm::Crc32c),
];

#[test]
fn uncompressed_files_of_the_tools_round_trip_byte_for_byte() {
    let folder = Folder::new();
    for (name, digest) in UNCOMPRESSED {
        let path = root().join("ztensor").join(name);
        folder.convert(&path, "again.zt", &options().digest(Some(digest))).unwrap();
        assert!(fs::read(folder.path("again.zt")).unwrap() == fs::read(path).unwrap(), "{name}");
    }
}

/// Uncompressed fixtures of earlier versions, with the version.
const EARLIER: [(&str, &str); 12] = [
    ("py100_alltypes.zt", "1.0"),
    ("py100_basic.zt", "1.0"),
    ("py100_big.zt", "1.0"),
    ("py100_sparse.zt", "1.0"),
    ("py101_alltypes.zt", "1.0"),
    ("py101_basic.zt", "1.0"),
    ("py101_big.zt", "1.0"),
    ("py101_sparse.zt", "1.0"),
    ("py111_alltypes.zt", "1.1"),
    ("py111_basic.zt", "1.1"),
    ("py111_big.zt", "1.1"),
    ("py111_sparse.zt", "1.1"),
];

#[test]
fn files_of_earlier_versions_round_trip_byte_for_byte() {
    let folder = Folder::new();
    let mut compared = 0;
    for (name, version) in EARLIER {
        let path = root().join("ztensor").join(name);
        let original = Reader::open(&path).unwrap();
        let digest = match original.tensors()[0].components[0].digest {
            None => DigestAlgorithm::None,
            Some(_) => DigestAlgorithm::Crc32c,
        };
        let has_zstd = original.tensors().iter().any(|tensor| tensor.components[0].encoding == Encoding::Zstd);
        let version = options().format_version(Some(version.to_owned())).digest(Some(digest));
        folder.convert(&path, "again.zt", &version).unwrap();
        assert_eq!(content(&folder.open("again.zt")), content(&original), "{name}");
        if !has_zstd {
            assert!(fs::read(folder.path("again.zt")).unwrap() == fs::read(path).unwrap(), "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn earlier_versions_refuse_what_they_lack_by_name() {
    let folder = Folder::new();
    let convert = |fixture: &str, version: &str| {
        let options = options().format_version(Some(version.to_owned()));
        folder.convert(root().join(fixture), "out.zt", &options).unwrap_err()
    };
    for (fixture, version, what) in [
        ("ztensor/zt212_alltypes.zt", "1.1", "zTensor 1.1 has no dtype"),
        ("gguf/quant.gguf", "1.0", "zTensor 1.0 has no dtype"),
        ("ztensor/zt212_alltypes.zt", "1.0", "zTensor 1.0 has no dtype"),
    ] {
        let error = convert(fixture, version);
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.what.contains(what), "{error}");
    }
    let error = convert("apr/basic.apr", "2.0");
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(
        error
            .to_string()
            .contains("the value 2.0 of `ConvertOptions::format_version`. Supported values: 1.2, 1.1, 1.0."),
        "{error}"
    );
}

#[test]
fn earlier_versions_compress_and_store_attributes_as_text() {
    let folder = Folder::new();
    let path = root().join("apr/basic.apr");
    let before = Reader::open(&path).unwrap();
    for (version, stated) in [("1.0", "1.0"), ("1.1", "1.1.0")] {
        let options = compressed(Compression::Zstd).format_version(Some(version.to_owned()));
        folder.convert(&path, "out.zt", &options).unwrap();
        let after = folder.open("out.zt");
        assert_eq!(after.metadata().version, stated);
        assert_eq!(content(&after), content(&before));
        after.verify(&()).unwrap();
        let size = &after.metadata().metadata["hidden_size"];
        assert_eq!(*size, if version == "1.0" { json!("64") } else { json!(64) });
        folder.write("zeros.safetensors", &safetensors_file(json!({}), &[("z", "F32", &[1000], vec![0; 4000])]));
        let options = compressed(Compression::Zstd).format_version(Some(version.to_owned()));
        folder.convert("zeros.safetensors", "zeros.zt", &options).unwrap();
        let zeros = folder.open("zeros.zt");
        assert_eq!(zeros.tensors()[0].components[0].encoding, Encoding::Zstd);
        zeros.verify(&()).unwrap();
    }
}

#[test]
fn every_fixture_keeps_tensors_attributes_and_metadata_with_every_compression() {
    let folder = Folder::new();
    let mut refused = Vec::new();
    for fixture in fixtures() {
        let path = root().join(&fixture.path);
        let Ok(before) = Reader::open(&path) else { continue }; // sets with files at other URLs
        for compression in [Compression::None, Compression::Zstd, Compression::Auto] {
            if let Err(error) = folder.convert(&path, "out.zt", &compressed(compression)) {
                refused.push(format!("{}: {error}", fixture.path));
                continue;
            }
            let after = folder.open("out.zt");
            assert_eq!((after.metadata().format, &*after.metadata().version), ("ztensor", "1.2.0"));
            assert_eq!(content(&after), content(&before), "{}", fixture.path);
            for tensor in before.tensors() {
                assert_eq!(after.tensor(&tensor.name).unwrap().attributes, tensor.attributes, "{}", fixture.path);
            }
            if !fixture.path.starts_with("apr") {
                let mut metadata = after.metadata().metadata.clone();
                metadata.shift_remove("weightstream.gguf_types"); // `convert` adds it to the metadata of GGUF
                let mut expected = before.metadata().metadata.clone();
                // How a model is divided into files.
                expected.retain(|key, value| !(key.starts_with("split.") || key == "total_size" && value.is_number()));
                if before.metadata().format == "aero" {
                    // Of the file, and a copy of other entries.
                    ["uuid", "model", "quant_descriptors"].iter().for_each(|key| _ = expected.shift_remove(*key));
                    metadata.shift_remove("model");
                }
                assert_eq!(metadata, expected, "{}", fixture.path);
            }
            after.verify(&()).unwrap();
        }
    }
    // A fixture that consists of tensors of a dtype that zTensor does not have.
    refused.retain(|refused| !(refused.starts_with("onnx/float6.onnx") && refused.contains("no dtype F6_E2M3")));
    assert_eq!(refused, [""; 0]);
}

#[test]
fn every_dtype_round_trips_as_matrix_scalar_and_empty_tensor() {
    let mut model = Model::new();
    let unknown_dtype = Dtype::Other("QFLOAT_Q4S".into());
    let unsupported = [Dtype::F6_E2M3, Dtype::F6_E3M2];
    for dtype in Dtype::ALL.iter().filter(|dtype| !unsupported.contains(dtype)).chain([&unknown_dtype]) {
        let elements = dtype.block().map_or(1, |block| block.elements);
        model.add_dense(&format!("{dtype}"), dtype, &[3, 2 * elements]);
        if elements == 1 && *dtype != unknown_dtype {
            model.add_dense(&format!("{dtype} scalar"), dtype, &[]);
            model.add_dense(&format!("{dtype} of nothing"), dtype, &[2, 0]);
        }
    }
    for compression in [Compression::None, Compression::Zstd, Compression::Auto] {
        model.round_trips(&compressed(compression));
    }
}

#[test]
fn layouts_keep_their_components_and_attributes() {
    let mut model = Model::new();
    let [u64s, i32s] = [Dtype::U64, Dtype::I32];
    let csr = vec![
        ("values", Dtype::C64, noise(1, 24)),
        ("indices", i32s.clone(), [0i32, 8, 3].map(i32::to_le_bytes).concat()),
        ("indptr", u64s.clone(), [0u64, 2, 3].map(u64::to_le_bytes).concat()),
    ];
    model.add("csr/行", Layout::SparseCsr, &[2, 9], csr);
    let coo = vec![("values", Dtype::BF16, noise(4, 8)), ("coords", u64s.clone(), vec![0; 96])];
    model.add("coo", Layout::SparseCoo, &[5, 5, 5], coo);
    let nothing = vec![("values", Dtype::F64, vec![]), ("coords", u64s, vec![])];
    model.add("coo of nothing", Layout::SparseCoo, &[5, 5], nothing);
    let group = vec![("packed_weight", i32s, noise(5, 256)), ("scales", Dtype::F16, noise(6, 32))];
    model.add("group", Layout::Other("quantized_group".into()), &[16, 32], group);
    let attributes = json!({ "bits": 4, "axis": [0, -1, null], "scale": 0.1, "deep": { "a": [true, {}] }, "": "" });
    model.tensors[3].attributes = attributes.as_object().unwrap().clone();
    for digest in [DigestAlgorithm::None, DigestAlgorithm::Crc32c, DigestAlgorithm::Sha256] {
        for compression in [Compression::None, Compression::Zstd, Compression::Auto] {
            model.round_trips(&compressed(compression).digest(Some(digest)));
        }
    }
}

#[test]
fn ggml_blocks_are_written_as_bytes() {
    let mut model = Model::new();
    model.add_dense("q", &Dtype::Q8_0, &[4, 64]);
    let folder = Folder::new();
    convert(&model, &folder.path("m.zt"), &options(), &()).unwrap();
    let file = fs::read(folder.path("m.zt")).unwrap();
    let manifest_length = u64::from_le_bytes(file[file.len() - 16..file.len() - 8].try_into().unwrap()) as usize;
    let manifest = &file[file.len() - 16 - manifest_length..];
    for part in [
        &b"\x65shape\x82\x04\x18\x40\x66format\x6bgguf.q8_0/1\x6aattributes\xa2"[..],
        b"\x6felems_per_block\x18\x20\x6bblock_bytes\x18\x22",
        b"\x64data\xa4\x65dtype\x62u8\x66offset\x18\x40\x66length\x19\x01\x10\x66digest",
    ] {
        assert!(manifest.windows(part.len()).any(|window| window == part), "{}", String::from_utf8_lossy(manifest));
    }
}

#[test]
fn incompressible_tensors_are_stored_raw() {
    let folder = Folder::new();
    let tensors = [
        ("a", "U8", &[100_000][..], vec![1; 100_000]),
        ("noise", "U8", &[300_000][..], noise(1, 300_000)),
        ("z", "U8", &[100_000][..], vec![2; 100_000]),
    ];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    for compression in [Compression::Auto, Compression::Zstd] {
        folder.convert("m.safetensors", "m.zt", &compressed(compression)).unwrap();
        let reader = folder.open("m.zt");
        let encodings: Vec<_> = reader.tensors().iter().map(|tensor| tensor.components[0].encoding).collect();
        assert_eq!(encodings, [Encoding::Zstd, Encoding::Raw, Encoding::Zstd]);
        assert_eq!(content(&reader), content(&folder.open("m.safetensors")));
        reader.verify(&()).unwrap();
        assert!(fs::metadata(folder.path("m.zt")).unwrap().len() < 302_000);
    }
}

#[test]
fn writes_the_requested_digests_which_detect_damage() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    let algorithms =
        [(None, "crc32c"), (Some(DigestAlgorithm::Crc32c), "crc32c"), (Some(DigestAlgorithm::Sha256), "sha256")];
    for (digest, expected) in algorithms {
        folder.convert("m.safetensors", "m.zt", &compressed(Compression::Zstd).digest(digest)).unwrap();
        let mut file = fs::read(folder.path("m.zt")).unwrap();
        let reader = folder.open("m.zt");
        let digests = reader.tensors().iter().map(|tensor| tensor.components[0].digest.unwrap().digest.algorithm());
        assert!(digests.into_iter().all(|algorithm| algorithm.name() == expected));
        let last_byte = reader.tensor("encoder.weight").unwrap().components[0].range.end - 1;
        file[last_byte as usize] ^= 1;
        folder.write("damaged.zt", &file);
        assert_eq!(folder.open("damaged.zt").verify(&()).unwrap_err().kind, ErrorKind::Checksum);
    }
    let none = options().digest(Some(DigestAlgorithm::None));
    folder.convert("m.safetensors", "m.zt", &none).unwrap();
    assert!(folder.open("m.zt").tensors().iter().all(|tensor| tensor.components[0].digest.is_none()));
}

#[test]
fn metadata_keeps_its_types() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({ "format": "pt" }), &[]));
    let given = json!({
        "n_layer": 6, "eps": 1e-5, "half": 1.5, "big": u64::MAX, "small": i64::MIN, "none": null,
        "deep": { "labels": ["a", "ü"], "of": [[], {}, false] },
    });
    let metadata = given.as_object().unwrap().clone();
    folder.convert("m.safetensors", "m.zt", &options().metadata(metadata.clone())).unwrap();
    let mut expected = metadata;
    expected.insert("format".to_owned(), "pt".into());
    assert_eq!(folder.open("m.zt").metadata().metadata, expected);
}

#[test]
fn tensors_begin_at_the_requested_alignment() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    for alignment in [64, 4096] {
        let options = options().alignment(Some(alignment));
        folder.convert("m.safetensors", "m.zt", &options).unwrap();
        let reader = folder.open("m.zt");
        assert!(reader.tensors().iter().all(|tensor| tensor.first_byte() % alignment == 0));
        assert_eq!(reader.tensors()[0].first_byte(), alignment);
    }
}

#[test]
fn a_model_in_several_files_has_an_index() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    let before = folder.open("m.safetensors");
    for compression in [Compression::None, Compression::Auto] {
        let metadata = serde_json::Map::from_iter([("key".to_owned(), json!([1]))]);
        let options = compressed(compression).max_shard_bytes(Some(4000)).metadata(metadata);
        folder.convert("m.safetensors", "m.zt", &options).unwrap();
        let after = folder.open("m.zt.index.json");
        assert!(after.files().count() > 2);
        assert_eq!(after.metadata().format, "ztensor");
        assert_eq!(after.metadata().metadata["key"], json!([1]));
        assert_eq!(content(&after), content(&before));
        for (path, length) in after.files() {
            assert!(length <= 4000 || after.tensors().iter().any(|tensor| tensor.stored_length() > 3000), "{path}");
        }
        after.verify(&()).unwrap();
    }
}

#[test]
fn unsupported_options_are_rejected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &varied());
    for wrong in
        [compressed(Compression::Lz4), options().digest(Some(DigestAlgorithm::Blake3)), options().alignment(Some(32))]
    {
        let error = folder.convert("m.safetensors", "m.zt", &wrong).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(folder.names(), ["m.safetensors"]);
}

#[test]
fn errors_name_the_tensor_and_the_unsupported_property() {
    let blocks = || vec![("values", Dtype::Q4_0, noise(1, 18)), ("coords", Dtype::U64, noise(2, 512))];
    let list = || vec![("data", Dtype::U8, noise(1, 18))];
    let mut models: Vec<(Model, &str)> = Vec::new();
    let mut model = Model::new();
    model.add_dense("bad", &Dtype::F6_E2M3, &[4]);
    models.push((model, "no dtype F6_E2M3"));
    let mut model = Model::new();
    model.add_dense("bad", &Dtype::Other("float32".into()), &[4]); // would be read as F32
    models.push((model, "no dtype float32"));
    let mut model = Model::new();
    model.add("bad", Layout::SparseCoo, &[8, 8], blocks());
    models.push((model, "no dtype Q4_0 in the layout sparse_coo"));
    let mut model = Model::new();
    model.add("bad", Layout::Other("sparsecoo".into()), &[8, 8], list());
    model.tensors[0].dtype = Dtype::F32;
    models.push((model, "no layout sparsecoo of F32"));
    for (model, words) in models {
        let folder = Folder::new();
        let error = convert(&model, &folder.path("m.zt"), &options(), &()).unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Unsupported, Some("bad")), "{error}");
        assert!(error.what.contains(words), "{error}");
        assert_eq!(folder.names(), [""; 0]);
    }
}

/// The manifest is sorted by name, and an empty tensor has the offset of the next one.
#[test]
fn tensors_keep_their_order() {
    let folder = Folder::new();
    let names = ["z", "empty", "a"];
    let tensors = names.map(|name| match name {
        "empty" => (name, "F32", &[0][..], vec![]),
        _ => (name, "F32", &[1][..], noise(1, 4)),
    });
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    folder.convert("m.safetensors", "m.zt", &options()).unwrap();
    let reader = folder.open("m.zt");
    assert!(reader.tensors().iter().map(|tensor| &*tensor.name).eq(names));
}

/// The manifest is validated before it is written. Here, a sparse tensor has too few indices.
#[test]
fn invalid_files_are_not_published() {
    let mut model = Model::new();
    let components = vec![
        ("values", Dtype::F32, noise(1, 8)),
        ("indices", Dtype::U64, noise(2, 8)),
        ("indptr", Dtype::U64, noise(3, 24)),
    ];
    model.add("bad", Layout::SparseCsr, &[2, 9], components);
    let folder = Folder::new();
    let error = convert(&model, &folder.path("m.zt"), &options(), &()).unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("bad")), "{error}");
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn infers_the_format_from_file_names() {
    for name in ["m.zt", "a/M.ZTENSOR"] {
        assert_eq!(write::format_of_name(name.as_ref()).unwrap().name, "ztensor");
    }
}
