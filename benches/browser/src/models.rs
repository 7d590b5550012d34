//! Models to measure with: made up, and converted by our own writers. They stay in the target folder.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, json};
use weightstream::native::Reader;
use weightstream::write::{self, Compression, ConvertOptions, DigestAlgorithm};

use crate::made_up::{Content, TENSOR_BYTES};
use xtask::project::Project;

/// Another name whenever what is below changes, so that no old file is measured.
const FOLDER: &str = "bench-models-2";

pub(super) const TENSORS: usize = 64;

/// Bytes of the tensors of each large model.
pub(super) const PAYLOAD_BYTES: u64 = TENSORS as u64 * TENSOR_BYTES as u64;

/// Tensors of the model with the long index.
pub(super) const MANY: usize = 100_000;

/// Tokens of the vocabulary.
pub(super) const TOKENS: u32 = 150_000;

pub(super) const RAW: &str = "raw.safetensors";
pub(super) const FIRST_TENSOR: &str = "layers.0.weight";
pub(super) const LONG_INDEX: &str = "long-index.safetensors";
pub(super) const VOCABULARY: &str = "vocabulary.gguf";

/// Makes what is missing, and gives the folder.
pub(super) fn ready(project: &Project) -> Result<PathBuf> {
    let folder = project.target.join(FOLDER);
    fs::create_dir_all(&folder)?;
    let digest = |digest| ConvertOptions::default().with_digest(Some(digest));
    let lz4 = || ConvertOptions::default().with_compression(Compression::Lz4);
    let zstd = digest(DigestAlgorithm::None).with_compression(Compression::Zstd);
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
        eprintln!("bench: making {name} …");
        let Some(options) = conversion else {
            whole(&path, |path| write_tensors(path, content))?;
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
        write::convert(&reader, &path, &options, &()).with_context(|| format!("cannot make {name}"))?;
    }
    whole(&folder.join(LONG_INDEX), |path| write_long_index(path, MANY))?;
    whole(&folder.join(VOCABULARY), write_vocabulary)?;
    Ok(folder)
}

/// The name of a model of this many bytes of tensors.
pub(super) fn scaled_payload(folder: &Path, bytes: u64) -> Result<String> {
    let name = format!("bytes-{bytes}.safetensors");
    let byte_length = usize::try_from(bytes)? / TENSORS;
    whole(&folder.join(&name), |path| write_equal_tensors(path, Content::Floats, byte_length))?;
    Ok(name)
}

/// The name of a model of this many tensors.
pub(super) fn scaled_index(folder: &Path, tensors: usize) -> Result<String> {
    let name = format!("tensors-{tensors}.safetensors");
    whole(&folder.join(&name), |path| write_long_index(path, tensors))?;
    Ok(name)
}

/// The data of the raw model alone, in files of this many tensors each: their names.
pub(super) fn bare_shards(folder: &Path, tensors: usize) -> Result<Vec<String>> {
    let start = header_end(&folder.join(RAW))?;
    let length = (tensors * TENSOR_BYTES) as u64;
    let mut names = Vec::new();
    for number in 0..(TENSORS / tensors) as u64 {
        let name = format!("raw-{number}.bin");
        whole(&folder.join(&name), |path| {
            let mut raw = File::open(folder.join(RAW))?;
            raw.seek(SeekFrom::Start(start + number * length))?;
            io::copy(&mut raw.take(length), &mut File::create(path)?)?;
            Ok(())
        })?;
        names.push(name);
    }
    Ok(names)
}

/// Makes a file that is missing. It has its name only once it is whole.
fn whole(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let partial = path.with_extension("partial");
    make(&partial)?;
    Ok(fs::rename(partial, path)?)
}

/// As a SafeTensors file.
fn write_tensors(path: &Path, content: Content) -> Result<()> {
    write_equal_tensors(path, content, TENSOR_BYTES)
}

/// The first so many bytes of each tensor, at most all of them.
fn write_equal_tensors(path: &Path, content: Content, byte_length: usize) -> Result<()> {
    let (dtype, element_bytes) = content.dtype();
    let names = (0..TENSORS).map(|i| format!("layers.{i}.weight"));
    let mut file = begin(path, names, dtype, &[byte_length / 1024 / element_bytes, 1024], byte_length)?;
    let block = content.tensor();
    let block = block.get(..byte_length).context("a tensor is to be longer than all of them are")?;
    for tensor in 0..TENSORS {
        // Other bytes in each, as compressible as they were.
        let (start, end) = block.split_at(tensor * (byte_length / TENSORS) * content.may_turn());
        file.write_all(end)?;
        file.write_all(start)?;
    }
    Ok(file.flush()?)
}

fn write_long_index(path: &Path, tensors: usize) -> Result<()> {
    let names = (0..tensors).map(|i| format!("model.layers.{}.mlp.experts.{}.down_proj.weight", i / 1000, i % 1000));
    let mut file = begin(path, names, "F32", &[1], 4)?;
    file.write_all(&vec![0; 4 * tensors])?;
    Ok(file.flush()?)
}

/// A SafeTensors file up to its data: tensors of one dtype and shape.
fn begin(
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

/// A GGUF file of one tensor, with the three arrays that tokenizers have.
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

/// Where the data of a SafeTensors file begins.
pub(super) fn header_end(path: &Path) -> Result<u64> {
    let mut length = [0; 8];
    File::open(path)?.read_exact(&mut length)?;
    Ok(8 + u64::from_le_bytes(length))
}
