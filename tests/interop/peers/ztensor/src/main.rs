//! The crate `ztensor`.

use ciborium::Value as Cbor;
use exchange::{Component, Listing, Noise, Tensor};
use serde_json::{Value, json};
use std::path::Path;
use ztensor::models::{DType, Format};
use ztensor::writer::Compression;
use ztensor::{Checksum, Reader, Writer};

const CHECKSUMS: [(Checksum, &str); 3] =
    [(Checksum::None, ""), (Checksum::Crc32c, "crc32c"), (Checksum::Sha256, "sha256")];

/// The dtype of weightstream, the logical type in the file, and the dtype in which it is stored.
const LOGICAL: [(&str, &str, DType); 8] = [
    ("F8_E4M3", "f8_e4m3fn", DType::U8),
    ("F8_E5M2", "f8_e5m2", DType::U8),
    ("F8_E4M3FNUZ", "f8_e4m3fnuz", DType::U8),
    ("F8_E5M2FNUZ", "f8_e5m2fnuz", DType::U8),
    ("F8_E8M0", "f8_e8m0", DType::U8),
    ("F4", "f4_e2m1", DType::U8),
    ("C64", "complex64", DType::F32),
    ("C128", "complex128", DType::F64),
];

fn main() {
    exchange::run(write, read);
}

fn write(noise: &mut Noise, folder: &Path) {
    write_dense(noise, &folder.join("dense.zt"));
    write_logical(noise, &folder.join("logical.zt"));
    write_sparse(noise, &folder.join("sparse.zt"));
    let empty = folder.join("empty.zt");
    Writer::create(&empty).unwrap().finish().unwrap();
    Listing::default().expect(&empty);
}

/// Every dtype, raw and compressed, with each digest.
fn write_dense(noise: &mut Noise, file: &Path) {
    let mut writer = Writer::create(file).unwrap();
    let metadata = json!({ "naïve ✓": "\"層\"\n", "list": [1, -2, 0.5, true, null], "map": { "": u64::MAX } });
    let attributes = metadata.as_object().unwrap().iter().map(|(key, value)| (key.clone(), to_cbor(value)));
    writer.set_attributes(attributes.collect());
    let tensors = noise.plain();
    for (at, tensor) in tensors.iter().enumerate() {
        let (dtype, compression) = (stored(&tensor.dtype), compression(at));
        let checksum = CHECKSUMS[at / 3 % 3].0;
        writer.add_bytes(&tensor.name, tensor.shape.clone(), dtype, compression, tensor.data(), checksum).unwrap();
    }
    writer.finish().unwrap();
    let metadata = metadata.as_object().cloned();
    Listing { tensors, metadata, checksums: vec!["crc32c", "sha256"] }.expect(file);
}

/// Logical types, which are stored in other dtypes.
fn write_logical(noise: &mut Noise, file: &Path) {
    let mut writer = Writer::create(file).unwrap();
    let mut tensors = Vec::new();
    // F4 is skipped: two of its elements share a byte.
    for (dtype, logical, stored) in LOGICAL.into_iter().filter(|(dtype, ..)| *dtype != "F4") {
        let bytes = if stored == DType::U8 { 1 } else { 2 * stored.byte_size() as u64 };
        for (at, tensor) in noise.tensors(dtype, bytes).into_iter().enumerate() {
            let parts = [("data", stored, Some(logical), tensor.data())];
            let (shape, compression) = (tensor.shape.clone(), compression(at));
            writer.add_object(&tensor.name, shape, Format::Dense, &parts, None, compression, Checksum::None).unwrap();
            tensors.push(tensor);
        }
    }
    writer.finish().unwrap();
    Listing { tensors, ..Listing::default() }.expect(file);
}

/// Sparse layouts, a quantized one and an unknown one.
fn write_sparse(noise: &mut Noise, file: &Path) {
    let mut writer = Writer::create(file).unwrap();
    let mut tensors = Vec::new();
    for at in 0..8 {
        let (checksum, compression) = (CHECKSUMS[at % 3].0, compression(at / 2));
        let (rows, columns, count) =
            (1 + noise.below(9), 1 + noise.below(9), if at == 0 { 0 } else { noise.below(20) });
        let values = noise.data(count * 4);

        let indices: Vec<u64> = (0..count).map(|_| noise.below(columns)).collect();
        let mut starts: Vec<u64> = (1..rows).map(|_| noise.below(count + 1)).chain([0, count]).collect();
        starts.sort_unstable();
        let (name, shape) = (noise.name(&format!("csr.{at}")), vec![rows, columns]);
        writer
            .add_csr_bytes(&name, shape.clone(), DType::F32, &values, &indices, &starts, compression, checksum)
            .unwrap();
        let parts =
            [("values", "F32", values.clone()), ("indices", "U64", bytes(&indices)), ("indptr", "U64", bytes(&starts))];
        tensors.push(of_parts(name, "F32", shape, "sparse_csr", &parts));

        let coords: Vec<u64> = (0..count * 3).map(|_| noise.below(2)).collect();
        let (name, shape) = (noise.name(&format!("coo.{at}")), vec![2, 2, 2]);
        writer.add_coo_bytes(&name, shape.clone(), DType::F32, &values, &coords, compression, checksum).unwrap();
        tensors.push(of_parts(
            name,
            "F32",
            shape,
            "sparse_coo",
            &[("values", "F32", values), ("coords", "U64", bytes(&coords))],
        ));
    }
    for (layout, format) in
        [("quantized_group", Format::QuantizedGroup), ("überraschung", Format::Other("überraschung".into()))]
    {
        let attributes = json!({ "bits": 4, "group_size": 32, "packing": "8_per_i32" });
        let (packed, scales) = (noise.data(256), noise.data(32));
        let name = noise.name(layout);
        let parts = [("packed_weight", DType::I32, None, packed.as_slice()), ("scales", DType::F16, None, &scales)];
        let of_cbor =
            attributes.as_object().unwrap().iter().map(|(key, value)| (key.clone(), to_cbor(value))).collect();
        writer
            .add_object(&name, vec![16, 32], format, &parts, Some(of_cbor), Compression::Zstd(3), Checksum::Crc32c)
            .unwrap();
        let parts = [("packed_weight", "I32", packed.clone()), ("scales", "F16", scales.clone())];
        let tensor = of_parts(name, "I32", vec![16, 32], layout, &parts);
        tensors.push(Tensor { attributes: attributes.as_object().unwrap().clone(), ..tensor });
    }
    writer.finish().unwrap();
    Listing { tensors, checksums: vec!["crc32c", "sha256"], ..Listing::default() }.expect(file);
}

fn read(file: &Path) -> Listing {
    let reader = Reader::open(file).unwrap();
    let mut listing = Listing::default();
    for (name, object) in reader.tensors() {
        let components: Vec<_> = object
            .components
            .iter()
            .map(|(role, component)| {
                let dtype = weightstream_dtype(component.dtype, component.r#type.as_deref());
                Component::new(role, &dtype, reader.read_component(component).unwrap())
            })
            .collect();
        let main = components.iter().find(|c| ["data", "values"].contains(&c.role.as_str())).unwrap_or(&components[0]);
        let layout = if object.format == Format::Dense { "" } else { object.format.as_str() };
        let attributes = object.attributes.iter().flatten().map(|(key, value)| (key.clone(), to_json(value)));
        // The crate reports ggml blocks, which the registry of version 2 defines, as an unknown layout.
        let blocks = layout.strip_prefix("gguf.").and_then(|layout| layout.strip_suffix("/1"));
        listing.tensors.push(Tensor {
            name: name.clone(),
            dtype: blocks.map_or_else(|| main.dtype.clone(), str::to_uppercase),
            shape: object.shape.clone(),
            layout: if blocks.is_some() { String::new() } else { layout.to_owned() },
            attributes: attributes.collect(),
            components,
        });
    }
    let attributes = reader.manifest.attributes.iter().flatten();
    listing.metadata = Some(attributes.map(|(key, value)| (key.clone(), to_json(value))).collect());
    listing
}

fn of_parts(name: String, dtype: &str, shape: Vec<u64>, layout: &str, parts: &[(&str, &str, Vec<u8>)]) -> Tensor {
    let components = parts.iter().map(|(role, dtype, data)| Component::new(role, dtype, data.clone())).collect();
    Tensor { layout: layout.to_owned(), components, ..Tensor::dense(name, dtype, shape, Vec::new()) }
}

fn compression(at: usize) -> Compression {
    [Compression::Raw, Compression::Zstd(3), Compression::Zstd(19)][at % 3]
}

/// The dtype of the crate with weightstream's name.
fn stored(dtype: &str) -> DType {
    serde_json::from_value(json!(dtype.to_lowercase())).unwrap()
}

/// The dtype of a component. A logical type that is not in the list has weightstream's name already.
fn weightstream_dtype(stored: DType, logical: Option<&str>) -> String {
    let Some(logical) = logical else { return stored.as_str().to_uppercase() };
    let known = LOGICAL.iter().find(|(_, name, _)| *name == logical);
    known.map_or(logical, |(dtype, ..)| dtype).to_owned()
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn to_cbor(value: &Value) -> Cbor {
    Cbor::serialized(value).unwrap()
}

fn to_json(value: &Cbor) -> Value {
    value.deserialized().unwrap()
}
