//! Conversions with a target dtype (`--dtype`).

use super::model::{Folder, Given, noise, safetensors_file};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use weightstream::Dtype;
use weightstream::ErrorKind;
use weightstream::internals::format::safetensors;
use weightstream::internals::write::{Compression, ConvertOptions};

fn to(dtype: Dtype) -> ConvertOptions {
    ConvertOptions::default().dtype(dtype)
}

/// Floats with a known value as F16 and BF16: 1.0, and 1.0 + 2^-20, which both types round to 1.0.
fn floats(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|at| if at.is_multiple_of(2) { 1.0f32 } else { 1.0 + f32::EPSILON * 8.0 }.to_le_bytes())
        .collect()
}

#[test]
fn only_matrices_of_floats_are_cast() {
    let folder = Folder::new();
    let tensors: [Given; 5] = [
        ("matrix", "F32", &[300, 64], floats(300 * 64)),
        ("ragged", "F32", &[3, 33], floats(99)),
        ("vector", "F32", &[64], floats(64)),
        ("scalar", "F32", &[], floats(1)),
        ("integers", "I32", &[2, 32], noise(1, 256)),
    ];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    for (dtype, one) in [(Dtype::F16, 0x3c00u16), (Dtype::BF16, 0x3f80)] {
        let converted = folder.convert("m.safetensors", "m.apr", &to(dtype.clone())).unwrap();
        assert_eq!(converted.warnings, [""; 0]);
        let reader = folder.open("m.apr");
        reader.verify(&()).unwrap();
        assert_eq!(reader.tensor_slice("matrix").unwrap(), one.to_le_bytes().repeat(300 * 64));
        assert_eq!(reader.tensor("ragged").unwrap().dtype, dtype);
        for (name, stays, _, bytes) in &tensors[2..] {
            assert_eq!(reader.tensor(name).unwrap().dtype.name(), *stays);
            assert_eq!(reader.tensor_slice(name).unwrap(), bytes);
        }
    }
}

#[test]
fn rows_that_do_not_fill_blocks_are_not_cast_and_cause_a_warning() {
    let folder = Folder::new();
    let tensors: [Given; 2] = [("matrix", "F32", &[3, 64], floats(3 * 64)), ("ragged", "F32", &[3, 33], floats(99))];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    let options = to(Dtype::Q8_0).compression(Compression::Lz4);
    let converted = folder.convert("m.safetensors", "m.apr", &options).unwrap();
    assert!(converted.warnings.len() == 1 && converted.warnings[0].contains("\"ragged\""), "{:?}", converted.warnings);
    let reader = folder.open("m.apr");
    assert_eq!(reader.tensor("ragged").unwrap().dtype, Dtype::F32);
    let blocks = reader.tensor_slice("matrix").unwrap();
    assert_eq!(blocks.len(), 6 * 34);
    // All elements are about 1: the scale is 1/127 as an F16, and the quantized values are 127.
    assert_eq!(&blocks[..34], [&[0x08, 0x20][..], &[127; 32]].concat());
}

/// The target format must support the requested dtype, not that of the source.
#[test]
fn a_cast_to_an_unsupported_dtype_is_rejected() {
    let folder = Folder::new();
    folder.write("m.safetensors", &safetensors_file(json!({}), &[("matrix", "F32", &[1, 32], floats(32))]));
    let options = to(Dtype::Q8_0).format(Some(&safetensors::FORMAT));
    let error = folder.convert("m.safetensors", "out.safetensors", &options).unwrap_err();
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Unsupported, Some("matrix")));
    assert_eq!(folder.names(), ["m.safetensors"]);
}

/// The digests are those of `gguf.quants.dequantize`.
#[test]
fn quantized_tensors_become_the_floats_of_the_reference() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let expected = fs::read(fixtures.join("dequantize/quant.gguf.json")).unwrap();
    let expected: BTreeMap<String, String> = serde_json::from_slice(&expected).unwrap();
    let folder = Folder::new();
    folder.write("quant.gguf", &fs::read(fixtures.join("gguf/quant.gguf")).unwrap());
    let converted = folder.convert("quant.gguf", "m.safetensors", &to(Dtype::F32)).unwrap();
    assert_eq!(converted.warnings, [""; 0]);
    let reader = folder.open("m.safetensors");
    for (name, sha256) in &expected {
        assert_eq!(reader.tensor(name).unwrap().dtype, Dtype::F32, "{name}");
        let found = Sha256::digest(reader.tensor_slice(name).unwrap());
        assert_eq!(found.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), *sha256, "{name}");
    }
    let quantized = reader.tensors().iter().filter(|tensor| tensor.name.starts_with("q.")).count();
    assert!(quantized > 0 && expected.keys().filter(|name| name.starts_with("q.")).count() == quantized);
}

#[test]
fn tensors_that_cannot_be_decoded_cause_a_warning_that_names_their_dtype() {
    let folder = Folder::new();
    let tensors: [Given; 2] =
        [("known", "F8_E4M3", &[40], noise(1, 40)), ("scales", "F8_E8M0", &[2, 32], noise(2, 64))];
    folder.write("m.safetensors", &safetensors_file(json!({}), &tensors));
    let options = to(Dtype::F16).format(Some(&safetensors::FORMAT));
    let converted = folder.convert("m.safetensors", "out.safetensors", &options).unwrap();
    let warning = "not cast to F16: 1 tensor of F8_E8M0, because this dtype cannot be decoded; the first is \
                   \"scales\". Convert them with the tool that wrote the model.";
    assert_eq!(converted.warnings, [warning]);
    let reader = folder.open("out.safetensors");
    assert_eq!(reader.tensor("known").unwrap().dtype, Dtype::F16);
    assert_eq!(reader.tensor_slice("scales").unwrap(), tensors[1].3);
}
