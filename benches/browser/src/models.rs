//! Synthetic models for benchmarks, converted by the library's writers. They are cached in the target folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, json};
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions, DigestAlgorithm};

use crate::content::{Content, TENSOR_BYTES};
use crate::layouts::{self, LAYOUTS};
use crate::quantized::{self, Q4_K, Q8_0};
use crate::streams;
use xtask::project::Project;

/// Must be renamed whenever the models change, so that no outdated file is measured.
const FOLDER: &str = "bench-models-4";

pub(super) const TENSORS: usize = 64;

/// The total size in bytes of the tensors of each large model.
pub(super) const PAYLOAD_BYTES: u64 = TENSORS as u64 * TENSOR_BYTES as u64;

/// The number of tensors of the model with the long index.
pub(super) const MANY: usize = 100_000;

/// The number of tokens of the vocabulary.
pub(super) const TOKENS: u32 = 150_000;

pub(super) const RAW: &str = "raw.safetensors";
pub(super) const FIRST_TENSOR: &str = "layers.0.weight";
pub(super) const LONG_INDEX: &str = "long-index.safetensors";
pub(super) const VOCABULARY: &str = "vocabulary.gguf";

/// Generates missing models and returns their folder.
pub(super) fn ready(project: &Project) -> Result<PathBuf> {
    let folder = project.target.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let digest = |digest| ConvertOptions::default().digest(digest);
    let lz4 = || ConvertOptions::default().compression(Compression::Lz4);
    let zstd = digest(DigestAlgorithm::None).compression(Compression::Zstd);
    let models = [
        (RAW, Content::Floats, None),
        ("raw.apr", Content::Floats, Some(ConvertOptions::default())),
        ("blake3.aero", Content::Floats, Some(digest(DigestAlgorithm::Blake3))),
        ("sha256.zt", Content::Floats, Some(digest(DigestAlgorithm::Sha256))),
        ("crc32c.zt", Content::Floats, Some(digest(DigestAlgorithm::Crc32c))),
        ("bf16.apr", Content::Bf16Planes, Some(lz4())),
        ("q8.apr", Content::Q8, Some(lz4())),
        ("sparse.apr", Content::Sparse, Some(lz4())),
        ("q8.zt", Content::Q8, Some(zstd)),
    ];
    for (name, content, conversion) in models {
        let path = folder.join(name);
        if path.exists() {
            continue;
        }
        eprintln!("bench: generating {name} …");
        let Some(options) = conversion else {
            write_if_missing(&path, |path| write_tensors(path, content))?;
            continue;
        };
        let own = tempfile::Builder::new().suffix(".safetensors").tempfile_in(&folder)?;
        let source = match content {
            Content::Floats => folder.join(RAW),
            _ => {
                write_tensors(own.path(), content)?;
                own.path().to_owned()
            }
        };
        let reader = Reader::open(&source)?;
        write::convert(&reader, &path, &options, &()).with_context(|| format!("cannot generate {name}"))?;
    }
    write_if_missing(&folder.join(Q8_0.file), |path| quantized::write(path, &Q8_0))?;
    write_if_missing(&folder.join(Q4_K.file), |path| quantized::write(path, &Q4_K))?;
    for layout in LAYOUTS {
        write_if_missing(&folder.join(layout.file()), |path| layout.write(path))?;
    }
    write_if_missing(&folder.join(layouts::ADAPTER), layouts::write_adapter)?;
    write_if_missing(&folder.join(LONG_INDEX), |path| write_long_index(path, MANY))?;
    write_if_missing(&folder.join(VOCABULARY), write_vocabulary)?;
    streams::ready(project, &folder)?;
    Ok(folder)
}

/// Generates a model with tensors of this many bytes in total, if it is missing. Returns its name.
pub(super) fn scaled_payload(folder: &Path, bytes: u64) -> Result<String> {
    let name = format!("bytes-{bytes}.safetensors");
    let byte_length = usize::try_from(bytes)? / TENSORS;
    write_if_missing(&folder.join(&name), |path| write_equal_tensors(path, Content::Floats, byte_length))?;
    Ok(name)
}

/// Generates a model with this many tensors, if it is missing. Returns its name.
pub(super) fn scaled_index(folder: &Path, tensors: usize) -> Result<String> {
    let name = format!("tensors-{tensors}.safetensors");
    write_if_missing(&folder.join(&name), |path| write_long_index(path, tensors))?;
    Ok(name)
}

/// Splits the data of the raw model, without its header, into files of this many tensors each. Returns their names.
pub(super) fn bare_shards(folder: &Path, tensors: usize) -> Result<Vec<String>> {
    let start = header_end(&folder.join(RAW))?;
    let length = (tensors * TENSOR_BYTES) as u64;
    let mut names = Vec::new();
    for number in 0..(TENSORS / tensors) as u64 {
        let name = format!("raw-{number}.bin");
        write_if_missing(&folder.join(&name), |path| {
            let mut raw = File::open(folder.join(RAW))?;
            raw.seek(SeekFrom::Start(start + number * length))?;
            io::copy(&mut raw.take(length), &mut File::create(path)?)?;
            Ok(())
        })?;
        names.push(name);
    }
    Ok(names)
}

/// Writes a file if it is missing. A partially written file has another name.
pub(super) fn write_if_missing(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let partial = path.with_extension("partial");
    make(&partial)?;
    Ok(fs::rename(partial, path)?)
}

/// Writes a SafeTensors file.
fn write_tensors(path: &Path, content: Content) -> Result<()> {
    write_equal_tensors(path, content, TENSOR_BYTES)
}

/// Writes a SafeTensors file with the first `byte_length` bytes of each tensor.
fn write_equal_tensors(path: &Path, content: Content, byte_length: usize) -> Result<()> {
    let (dtype, element_bytes) = content.dtype();
    let names = (0..TENSORS).map(|i| format!("layers.{i}.weight"));
    let mut file = begin_safetensors(path, names, dtype, &[byte_length / 1024 / element_bytes, 1024], byte_length)?;
    let block = content.tensor();
    let block = block.get(..byte_length).context("`byte_length` exceeds the length of a tensor")?;
    for tensor in 0..TENSORS {
        // Rotates the bytes, so that each tensor differs but is equally compressible.
        let (start, end) = block.split_at(tensor * (byte_length / TENSORS) * content.may_rotate());
        file.write_all(end)?;
        file.write_all(start)?;
    }
    Ok(file.flush()?)
}

fn write_long_index(path: &Path, tensors: usize) -> Result<()> {
    let names = (0..tensors).map(|i| format!("model.layers.{}.mlp.experts.{}.down_proj.weight", i / 1000, i % 1000));
    let mut file = begin_safetensors(path, names, "F32", &[1], 4)?;
    file.write_all(&vec![0; 4 * tensors])?;
    Ok(file.flush()?)
}

/// Starts a SafeTensors file of tensors with one dtype and shape: writes everything before the data.
pub(super) fn begin_safetensors(
    path: &Path,
    names: impl Iterator<Item = String>,
    dtype: &str,
    shape: &[usize],
    byte_length: usize,
) -> Result<BufWriter<File>> {
    let entry = |(i, name)| {
        let offsets = [i * byte_length, (i + 1) * byte_length];
        (name, json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }))
    };
    let mut header = serde_json::to_vec(&names.enumerate().map(entry).collect::<Map<_, _>>())?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    Ok(file)
}

/// Writes a GGUF file with one tensor and the three arrays of a tokenizer.
fn write_vocabulary(path: &Path) -> Result<()> {
    const ALIGNMENT: usize = 32;
    let (string_type, array_type, f32_type, i32_type) = (8_u32, 9_u32, 6_u32, 5_u32);
    let mut head = Vec::new();
    let string = |to: &mut Vec<u8>, text: &str| {
        to.extend((text.len() as u64).to_le_bytes());
        to.extend(text.as_bytes());
    };
    head.extend(b"GGUF");
    head.extend(3_u32.to_le_bytes());
    head.extend(1_u64.to_le_bytes()); // tensors
    head.extend(4_u64.to_le_bytes()); // keys
    string(&mut head, "general.architecture");
    head.extend(string_type.to_le_bytes());
    string(&mut head, "llama");
    let array = |to: &mut Vec<u8>, key: &str, of: u32| {
        string(to, key);
        to.extend([array_type, of].map(u32::to_le_bytes).as_flattened());
        to.extend(u64::from(TOKENS).to_le_bytes());
    };
    array(&mut head, "tokenizer.ggml.tokens", string_type);
    (0..TOKENS).for_each(|token| string(&mut head, &format!("▁t{token}")));
    array(&mut head, "tokenizer.ggml.scores", f32_type);
    (0..TOKENS).for_each(|token| head.extend((-(token as f32)).to_le_bytes()));
    array(&mut head, "tokenizer.ggml.token_type", i32_type);
    (0..TOKENS).for_each(|_| head.extend(1_i32.to_le_bytes()));
    string(&mut head, "output_norm.weight");
    head.extend(1_u32.to_le_bytes()); // dimensions
    head.extend(8_u64.to_le_bytes());
    head.extend(0_u32.to_le_bytes()); // F32
    head.extend(0_u64.to_le_bytes()); // offset
    head.resize(head.len().next_multiple_of(ALIGNMENT) + ALIGNMENT, 0);
    Ok(fs::write(path, head)?)
}

/// The offset of the data in a SafeTensors file.
pub(super) fn header_end(path: &Path) -> Result<u64> {
    let mut length = [0; 8];
    File::open(path)?.read_exact(&mut length)?;
    Ok(8 + u64::from_le_bytes(length))
}
