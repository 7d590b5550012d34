//! The crate `apr-format`: APR v2 and APRN.

use apr_format::types::Compression;
use apr_format::v2::{
    AprV2Metadata, AprV2Reader, AprV2StreamingWriter, AprV2Writer, ShardInfo, ShardManifest, TensorDType,
};
use apr_format::{ModelType, SaveOptions};
use exchange::{Listing, Noise, Tensor};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const PLAIN: [TensorDType; 8] = [
    TensorDType::F32,
    TensorDType::F16,
    TensorDType::BF16,
    TensorDType::F64,
    TensorDType::I32,
    TensorDType::I64,
    TensorDType::I8,
    TensorDType::U8,
];

const COMPRESSIONS: [(&str, Compression); 4] = [
    ("none", Compression::None),
    ("zstd", Compression::ZstdDefault),
    ("zstd19", Compression::ZstdMax),
    ("lz4", Compression::Lz4),
];

fn main() {
    exchange::run(write, read);
}

fn write(noise: &mut Noise, folder: &Path) {
    write_whole(noise, &folder.join("whole.apr"));
    write_streamed(noise, &folder.join("streamed.apr"));
    write_sharded(noise, folder);
    for (name, compression) in COMPRESSIONS {
        write_aprn(noise, compression, &folder.join(format!("aprn_{name}.apr")));
    }
    let empty = folder.join("empty.apr");
    fs::write(&empty, AprV2Writer::new(AprV2Metadata::new("none")).write().unwrap()).unwrap();
    Listing::default().expect(&empty);
}

fn write_whole(noise: &mut Noise, file: &Path) {
    let tensors = all(noise);
    let metadata = metadata();
    let mut writer = AprV2Writer::new(metadata.clone());
    // Only sets a flag: the writer does not compress.
    writer.with_lz4_compression();
    for tensor in &tensors {
        writer.add_tensor(&tensor.name, apr_dtype(&tensor.dtype), shape(tensor), tensor.data().to_vec());
    }
    fs::write(file, writer.write().unwrap()).unwrap();
    Listing { tensors, metadata: metadata_map(&metadata), checksums: vec!["crc32"] }.expect(file);
}

fn write_streamed(noise: &mut Noise, file: &Path) {
    let tensors = all(noise);
    let metadata = metadata();
    let mut writer = AprV2StreamingWriter::new(metadata.clone()).unwrap();
    for tensor in tensors.iter().rev() {
        writer.add_tensor(&tensor.name, apr_dtype(&tensor.dtype), shape(tensor), tensor.data()).unwrap();
    }
    writer.finalize(file).unwrap();
    Listing { tensors, metadata: metadata_map(&metadata), checksums: vec!["crc32"] }.expect(file);
}

/// A model in three files, with a manifest of the crate.
fn write_sharded(noise: &mut Noise, folder: &Path) {
    let tensors = all(noise);
    let mut manifest = ShardManifest::new(3);
    for (index, part) in tensors.chunks(tensors.len().div_ceil(3)).enumerate() {
        let mut writer = AprV2Writer::new(metadata());
        writer.with_sharding(3, index);
        for tensor in part {
            writer.add_tensor(&tensor.name, apr_dtype(&tensor.dtype), shape(tensor), tensor.data().to_vec());
        }
        let bytes = writer.write().unwrap();
        let filename = format!("sharded-{:05}-of-00003.apr", index + 1);
        fs::write(folder.join(&filename), &bytes).unwrap();
        let names = part.iter().map(|tensor| tensor.name.clone()).collect();
        manifest.add_shard(ShardInfo { filename, index, size: bytes.len() as u64, tensors: names });
    }
    let file = folder.join("sharded.apr.json");
    fs::write(&file, manifest.to_json().unwrap()).unwrap();
    Listing { tensors, metadata: None, checksums: vec!["crc32"] }.expect(&file);
}

/// A value that the crate serializes: a list of bytes, which bincode stores after its length.
fn write_aprn(noise: &mut Noise, compression: Compression, file: &Path) {
    let length = noise.below(100_000);
    let model = noise.data(length);
    let options = SaveOptions::new().with_compression(compression).with_name("naïve ✓").with_quality_score(90);
    apr_format::save(&model, ModelType::Custom, file, options).unwrap();
    let metadata = json!({ "model_name": "naïve ✓", "quality_score": 90, "model_type": ModelType::Custom as u16 });
    let metadata = metadata.as_object().cloned();
    Listing { tensors: vec![payload(&model)], metadata, checksums: vec!["crc32"] }.expect(file);
}

fn read(file: &Path) -> Listing {
    if file.extension().is_some_and(|extension| extension == "json") {
        let manifest = ShardManifest::from_json(&fs::read_to_string(file).unwrap()).unwrap();
        let files = manifest.shards.iter().map(|shard| file.with_file_name(&shard.filename));
        return Listing { tensors: files.flat_map(|file| read(&file).tensors).collect(), ..Listing::default() };
    }
    let bytes = fs::read(file).unwrap();
    if bytes.starts_with(b"APRN") {
        let model: Vec<u8> = apr_format::load(file, ModelType::Custom).unwrap();
        return Listing { tensors: vec![payload(&model)], ..Listing::default() };
    }
    let reader = AprV2Reader::from_bytes(&bytes).unwrap();
    let convert = |entry: &apr_format::v2::TensorIndexEntry| {
        let shape = entry.shape.iter().map(|size| *size as u64).collect();
        let data = reader.get_tensor_data(&entry.name).unwrap().to_vec();
        Tensor::dense(entry.name.clone(), &entry.dtype.to_string(), shape, data)
    };
    let tensors = reader.tensor_index().iter().map(convert).collect();
    Listing { tensors, metadata: metadata_map(reader.metadata()), ..Listing::default() }
}

/// Tensors of every dtype. Shapes of quantized tensors fill whole blocks.
fn all(noise: &mut Noise) -> Vec<Tensor> {
    let size = |dtype| match dtype {
        TensorDType::F64 | TensorDType::I64 => 8,
        TensorDType::F32 | TensorDType::I32 => 4,
        TensorDType::F16 | TensorDType::BF16 => 2,
        _ => 1,
    };
    let mut tensors: Vec<_> =
        PLAIN.into_iter().flat_map(|dtype| noise.tensors(&dtype.to_string(), size(dtype))).collect();
    for at in 0..3 {
        let rows = 1 + noise.below(5);
        let elements = rows * 256;
        let lengths = [
            (TensorDType::AprQ4, elements / 32 * 18),
            (TensorDType::AprQ8, 4 + elements),
            (TensorDType::Q4K, elements / 256 * 144),
            (TensorDType::Q6K, elements / 256 * 210),
        ];
        for (dtype, length) in lengths {
            let (name, data) = (noise.name(&format!("{dtype}.{at}")), noise.data(length));
            tensors.push(Tensor::dense(name, &dtype.to_string(), vec![rows, 256], data));
        }
    }
    tensors
}

fn metadata() -> AprV2Metadata {
    let mut metadata = AprV2Metadata::new("transformer");
    metadata.name = Some("naïve ✓".to_owned());
    metadata.hidden_size = Some(384);
    metadata.custom.insert("層".to_owned(), json!(["\"a\"\n", 1, -0.5, null]));
    metadata
}

fn metadata_map(metadata: &AprV2Metadata) -> Option<serde_json::Map<String, Value>> {
    Some(serde_json::from_slice(&metadata.to_json().unwrap()).unwrap())
}

fn payload(model: &[u8]) -> Tensor {
    let bytes = [&(model.len() as u64).to_le_bytes(), model].concat();
    Tensor::dense("payload".to_owned(), "U8", vec![bytes.len() as u64], bytes)
}

fn apr_dtype(dtype: &str) -> TensorDType {
    (0..=u8::MAX).filter_map(TensorDType::from_u8).find(|found| found.to_string() == dtype).unwrap()
}

fn shape(tensor: &Tensor) -> Vec<usize> {
    tensor.shape.iter().map(|size| *size as usize).collect()
}
