//! SafeTensors files of quantized tensors of several parts, and an adapter, for cases that convert them to floats.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value, json};
use xtask::synthetic::Random;

use crate::content::TENSOR_BYTES;
use crate::models::TENSORS;

/// The number of quantized tensors. They are as large as those of models of 1 to 3 billion parameters, and have as many
/// elements as the other models have F32 elements.
const QUANTIZED: usize = TENSORS / 8;

/// The sizes of a quantized tensor.
const COLUMNS: usize = 1024;
const ROWS: usize = 8 * ADAPTED_ROWS;

/// The number of rows of a tensor of the raw model.
const ADAPTED_ROWS: usize = TENSOR_BYTES / 4 / COLUMNS;

/// The rank of the adapter.
const RANK: usize = 16;

/// How a package stores a quantized tensor.
pub(super) struct Layout {
    /// The name of the case, and of the file.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    parts: fn() -> Vec<Part>,
    /// The `config.json` of the model.
    config: fn() -> Value,
}

/// A tensor of the file that belongs to a quantized tensor.
struct Part {
    /// What follows the name of the quantized tensor.
    suffix: &'static str,
    dtype: &'static str,
    shape: Vec<usize>,
    content: Content,
}

enum Content {
    /// Random bytes.
    Codes,
    /// One number, again and again.
    Constant(Vec<u8>),
    /// Row numbers divided by a group size.
    Groups(usize),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// All layouts that are measured.
pub(super) const LAYOUTS: [Layout; 8] = [
    Layout {
        name: "mlx-4bit",
        title: "MLX, 4 bits, as F32",
        parts: || mlx(4),
        config: || json!({ "quantization": { "bits": 4, "group_size": 64 } }),
    },
    Layout {
        name: "mlx-3bit",
        title: "MLX, 3 bits, as F32",
        parts: || mlx(3),
        config: || json!({ "quantization": { "bits": 3, "group_size": 64 } }),
    },
    Layout {
        name: "gptq-4bit",
        title: "GPTQ, 4 bits, as F32",
        parts: || {
            vec![
                part(".qweight", "I32", [COLUMNS / 8, ROWS], Content::Codes),
                part(".qzeros", "I32", [COLUMNS / 128, ROWS / 8], Content::Codes),
                part(".g_idx", "I32", [COLUMNS], Content::Groups(128)),
                part(".scales", "F16", [COLUMNS / 128, ROWS], f16_scales()),
            ]
        },
        config: || {
            let gptq = json!({ "quant_method": "gptq", "bits": 4, "group_size": 128, "sym": false, "desc_act": false });
            json!({ "quantization_config": gptq })
        },
    },
    Layout {
        name: "awq-4bit",
        title: "AWQ, 4 bits, as F32",
        parts: || {
            vec![
                part(".qweight", "I32", [COLUMNS, ROWS / 8], Content::Codes),
                part(".qzeros", "I32", [COLUMNS / 128, ROWS / 8], Content::Codes),
                part(".scales", "F16", [COLUMNS / 128, ROWS], f16_scales()),
            ]
        },
        config: || json!({ "quantization_config": { "quant_method": "awq", "bits": 4, "group_size": 128 } }),
    },
    Layout {
        name: "nf4",
        title: "bitsandbytes NF4, as F32",
        parts: || {
            let state = json!({ "blocksize": 64, "dtype": "float16", "quant_type": "nf4", "shape": [ROWS, COLUMNS] });
            let state = state.to_string().into_bytes();
            let levels = (0..16_u8).flat_map(|level| (f32::from(level) / 8.0 - 1.0).to_le_bytes()).collect();
            vec![
                part(".weight.absmax", "F32", [ROWS * COLUMNS / 64], Content::Constant(0.01_f32.to_le_bytes().into())),
                part(".weight.quant_map", "F32", [16], Content::Bytes(levels)),
                part(".weight", "U8", [ROWS * COLUMNS / 2, 1], Content::Codes),
                part(".weight.quant_state.bitsandbytes__nf4", "U8", [state.len()], Content::Bytes(state)),
            ]
        },
        config: || json!({}),
    },
    Layout {
        name: "fp8-blocks",
        title: "FP8 with scales of blocks, as F32",
        parts: || {
            let scales = Content::Constant(0.01_f32.to_le_bytes().into());
            vec![
                part(".weight_scale_inv", "F32", [ROWS / 128, COLUMNS / 128], scales),
                part(".weight", "F8_E4M3", [ROWS, COLUMNS], Content::Codes),
            ]
        },
        config: || json!({ "quantization_config": { "quant_method": "fp8", "weight_block_size": [128, 128] } }),
    },
    Layout {
        name: "packed-4bit",
        title: "compressed-tensors, 4 bits, as F32",
        parts: || {
            let shape = [ROWS, COLUMNS].map(|size| (size as u64).to_le_bytes());
            vec![
                part(".weight_shape", "I64", [2], Content::Bytes(shape.as_flattened().into())),
                part(".weight_packed", "I32", [ROWS, COLUMNS / 8], Content::Codes),
                part(".weight_scale", "F16", [ROWS, COLUMNS / 128], f16_scales()),
            ]
        },
        config: || json!({}),
    },
    Layout {
        name: "gpt-oss-mxfp4",
        title: "GPT-OSS MXFP4, as F32",
        parts: || {
            vec![
                part("_blocks", "U8", [4, ROWS / 4, COLUMNS / 32, 16], Content::Codes),
                part("_scales", "U8", [4, ROWS / 4, COLUMNS / 32], Content::Constant(vec![120])),
            ]
        },
        config: || json!({}),
    },
];

/// The file of the adapter.
pub(super) const ADAPTER: &str = "lora.safetensors";

/// The content of its `adapter_config.json`.
pub(super) fn adapter_config() -> Value {
    json!({ "peft_type": "LORA", "r": RANK, "lora_alpha": 2 * RANK })
}

impl Layout {
    /// The name of the file.
    pub(super) fn file(&self) -> String {
        format!("{}.safetensors", self.name)
    }

    /// The options to open the file with.
    pub(super) fn options(&self) -> Value {
        json!({ "workers": 0, "config": (self.config)() })
    }

    /// Writes the file.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        write(path, QUANTIZED, |number| format!("model.layers.{number}.mlp.experts.down_proj"), &(self.parts)())
    }
}

/// Writes an adapter for all tensors of the raw model.
pub(super) fn write_adapter(path: &Path) -> Result<()> {
    let parts = [
        part(".lora_A.weight", "F32", [RANK, COLUMNS], Content::Constant(0.01_f32.to_le_bytes().into())),
        part(".lora_B.weight", "F32", [ADAPTED_ROWS, RANK], Content::Constant(0.01_f32.to_le_bytes().into())),
    ];
    write(path, TENSORS, |number| format!("base_model.model.layers.{number}"), &parts)
}

fn mlx(bits: usize) -> Vec<Part> {
    vec![
        part(".weight", "U32", [ROWS, COLUMNS * bits / 32], Content::Codes),
        part(".scales", "F16", [ROWS, COLUMNS / 64], f16_scales()),
        part(".biases", "F16", [ROWS, COLUMNS / 64], f16_scales()),
    ]
}

fn part<const N: usize>(suffix: &'static str, dtype: &'static str, shape: [usize; N], content: Content) -> Part {
    Part { suffix, dtype, shape: shape.into(), content }
}

/// 2^-8.
fn f16_scales() -> Content {
    Content::Constant(vec![0x00, 0x1c])
}

fn size_of(dtype: &str) -> usize {
    match dtype {
        "I64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" => 2,
        _ => 1,
    }
}

/// Writes the parts of all tensors in the order of `safetensors`: those of larger elements first, then by name.
fn write(path: &Path, count: usize, name: impl Fn(usize) -> String, parts: &[Part]) -> Result<()> {
    let numbered = (0..count).flat_map(|number| parts.iter().map(move |part| (number, part)));
    let mut tensors: Vec<_> = numbered.map(|(number, part)| (name(number) + part.suffix, number, part)).collect();
    tensors.sort_by_key(|(name, _, part)| (std::cmp::Reverse(size_of(part.dtype)), name.clone()));
    let mut header = Map::new();
    let mut end = 0;
    for (name, _, part) in &tensors {
        let start = end;
        end += part.byte_length();
        let entry = json!({ "dtype": part.dtype, "shape": part.shape, "data_offsets": [start, end] });
        header.insert(name.clone(), entry);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    for (_, number, part) in tensors {
        file.write_all(&part.bytes(number))?;
    }
    Ok(file.flush()?)
}

impl Part {
    fn byte_length(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of(self.dtype)
    }

    fn bytes(&self, number: usize) -> Vec<u8> {
        let length = self.byte_length();
        match &self.content {
            Content::Codes => {
                let mut random = Random::new(number as u64 + 1);
                (0..length).map(|_| (40.0 * random.normal()) as i8 as u8).collect()
            }
            Content::Constant(value) => value.iter().copied().cycle().take(length).collect(),
            Content::Groups(size) => (0..length / 4).flat_map(|row| ((row / size) as u32).to_le_bytes()).collect(),
            Content::Bytes(bytes) => bytes.clone(),
        }
    }
}
