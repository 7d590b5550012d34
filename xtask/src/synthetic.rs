//! A synthetic model with the tensors of all-MiniLM-L6-v2, for machines that cannot download the real one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, json};

const HIDDEN: u64 = 384;
const INTERMEDIATE: u64 = 1536;
const POSITIONS: u64 = 512;

/// The size of the model.
pub struct Size {
    vocabulary: u64,
    layers: u64,
}

impl Size {
    /// The size of the real model: 90.9 MB.
    pub const REAL: Size = Size { vocabulary: 30522, layers: 6 };

    /// 28 MB, for tests that do not depend on the size.
    pub const SMALL: Size = Size { vocabulary: 8192, layers: 2 };
}

/// Writes `model.safetensors` and `config.json`. The output is deterministic.
pub fn write(folder: &Path, size: &Size) -> Result<()> {
    let config = json!({
        "_name_or_path": "synthetic weights in the shape of all-MiniLM-L6-v2",
        "model_type": "bert",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": POSITIONS,
        "num_attention_heads": 12,
        "num_hidden_layers": size.layers,
        "vocab_size": size.vocabulary,
    });
    fs::write(folder.join("config.json"), config.to_string())?;

    let tensors = tensors(size);
    let mut header = Map::new();
    let mut end = 0;
    for tensor in &tensors {
        let start = end;
        end += tensor.byte_length();
        let entry = json!({ "dtype": tensor.dtype(), "shape": tensor.shape, "data_offsets": [start, end] });
        header.insert(tensor.name.clone(), entry);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');

    let mut file = BufWriter::new(File::create(folder.join("model.safetensors"))?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    let mut random = Random(1);
    for tensor in &tensors {
        for index in 0..tensor.shape.iter().product() {
            match tensor.filling {
                Filling::Positions => file.write_all(&u64::to_le_bytes(index))?,
                Filling::Around(mean) => file.write_all(&(mean + 0.04 * random.normal()).to_le_bytes())?,
            }
        }
    }
    Ok(file.flush()?)
}

struct Tensor {
    name: String,
    shape: Vec<u64>,
    filling: Filling,
}

enum Filling {
    /// 0, 1, 2 … as 64-bit integers.
    Positions,
    /// 32-bit floats, normally distributed around this mean.
    Around(f32),
}

impl Tensor {
    fn dtype(&self) -> &'static str {
        match self.filling {
            Filling::Positions => "I64",
            Filling::Around(_) => "F32",
        }
    }

    fn byte_length(&self) -> u64 {
        let item_bytes = match self.filling {
            Filling::Positions => 8,
            Filling::Around(_) => 4,
        };
        self.shape.iter().product::<u64>() * item_bytes
    }
}

/// The tensors, in the order of the real file.
fn tensors(size: &Size) -> Vec<Tensor> {
    let mut all = Vec::new();
    let mut add = |name: String, shape: &[u64], filling| all.push(Tensor { name, shape: shape.to_vec(), filling });
    add("embeddings.position_ids".into(), &[1, POSITIONS], Filling::Positions);
    add("embeddings.LayerNorm.bias".into(), &[HIDDEN], Filling::Around(0.0));
    add("embeddings.LayerNorm.weight".into(), &[HIDDEN], Filling::Around(1.0));
    add("embeddings.position_embeddings.weight".into(), &[POSITIONS, HIDDEN], Filling::Around(0.0));
    add("embeddings.token_type_embeddings.weight".into(), &[2, HIDDEN], Filling::Around(0.0));
    add("embeddings.word_embeddings.weight".into(), &[size.vocabulary, HIDDEN], Filling::Around(0.0));
    for layer in 0..size.layers {
        let parts = [
            ("attention.output.LayerNorm", HIDDEN, None),
            ("attention.output.dense", HIDDEN, Some(HIDDEN)),
            ("attention.self.key", HIDDEN, Some(HIDDEN)),
            ("attention.self.query", HIDDEN, Some(HIDDEN)),
            ("attention.self.value", HIDDEN, Some(HIDDEN)),
            ("intermediate.dense", INTERMEDIATE, Some(HIDDEN)),
            ("output.LayerNorm", HIDDEN, None),
            ("output.dense", HIDDEN, Some(INTERMEDIATE)),
        ];
        for (part, outputs, inputs) in parts {
            let name = format!("encoder.layer.{layer}.{part}");
            add(format!("{name}.bias"), &[outputs], Filling::Around(0.0));
            match inputs {
                Some(inputs) => add(format!("{name}.weight"), &[outputs, inputs], Filling::Around(0.0)),
                None => add(format!("{name}.weight"), &[outputs], Filling::Around(1.0)),
            }
        }
    }
    add("pooler.dense.bias".into(), &[HIDDEN], Filling::Around(0.0));
    add("pooler.dense.weight".into(), &[HIDDEN, HIDDEN], Filling::Around(0.0));
    all
}

/// A linear congruential generator with Knuth's MMIX constants. Its numbers only need to be incompressible.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// An approximately normally distributed number with mean 0 and variance 1: the sum of four uniform numbers.
    pub fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| self.uniform()).sum();
        (sum - 2.0) * 3.0_f32.sqrt()
    }

    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }
}
