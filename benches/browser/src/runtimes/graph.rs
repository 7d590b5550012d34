//! A generated ONNX graph: a chain of matrix products, with all weights as external data.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use xtask::synthetic::Random;

/// Each matrix has 64 MiB, `x` one row.
const WIDTH: u64 = 4096;
pub(super) const MATRIX_BYTES: u64 = WIDTH * WIDTH * 4;
const MATRICES: u64 = 16;

/// All weights: 1 GiB.
pub(super) const BYTES: u64 = MATRICES * MATRIX_BYTES;

/// The file of the weights, named as in repositories of the Hugging Face Hub.
pub(super) const EXTERNAL: &str = "model.onnx_data";

/// The step between weights. All of them are multiples of it, and floats of 16 bits can represent them exactly.
const STEP: f32 = 1.0 / 65536.0;

/// Keeps the size of the values about the same from one product to the next, in steps: `1 / sqrt(WIDTH)`.
const DEVIATION: f32 = 1024.0;

/// The largest integer up to which floats of 16 bits represent all.
const LARGEST: f32 = 2048.0;

const F32: u64 = 1;
const EXTERNAL_DATA: u64 = 1;

/// Writes `model.onnx` and its weights to a folder. The output is deterministic.
pub(super) fn write(folder: &Path) -> Result<()> {
    let mut random = Random::new(1);
    let mut weight = || (random.normal() * DEVIATION).round().clamp(-LARGEST, LARGEST) * STEP;
    let matrix: Vec<u8> = (0..WIDTH * WIDTH).flat_map(|_| weight().to_le_bytes()).collect();
    let mut file = BufWriter::new(File::create(folder.join(EXTERNAL))?);
    for number in 0..MATRICES {
        // Rotated by whole rows, so that all matrices differ.
        let (start, end) = matrix.split_at(usize::try_from(number * MATRIX_BYTES / MATRICES)?);
        file.write_all(end)?;
        file.write_all(start)?;
    }
    file.flush()?;
    Ok(fs::write(folder.join("model.onnx"), model())?)
}

/// A `ModelProto`. The numbers are those of the fields in `onnx.proto`.
fn model() -> Vec<u8> {
    let value = |number: u64| if number == 0 { "x".to_owned() } else { format!("y{number}") };
    let mut graph = Vec::new();
    for number in 0..MATRICES {
        let node =
            [text(1, &value(number)), text(1, &format!("W{number}")), text(2, &value(number + 1)), text(4, "MatMul")];
        graph.push(bytes(1, &node.concat()));
    }
    graph.push(text(2, "chain"));
    graph.extend((0..MATRICES).map(|number| bytes(5, &initializer(number))));
    graph.push(bytes(11, &row("x")));
    graph.push(bytes(12, &row(&value(MATRICES))));
    let operators = [text(1, ""), integer(2, 13)].concat();
    [integer(1, 8), bytes(7, &graph.concat()), bytes(8, &operators)].concat()
}

fn initializer(number: u64) -> Vec<u8> {
    let entry = |key: &str, value: String| bytes(13, &[text(1, key), text(2, &value)].concat());
    [
        integer(1, WIDTH),
        integer(1, WIDTH),
        integer(2, F32),
        text(8, &format!("W{number}")),
        entry("location", EXTERNAL.to_owned()),
        entry("offset", (number * MATRIX_BYTES).to_string()),
        entry("length", MATRIX_BYTES.to_string()),
        integer(14, EXTERNAL_DATA),
    ]
    .concat()
}

/// An input or output of one row.
fn row(name: &str) -> Vec<u8> {
    let shape = [1, WIDTH].map(|length| bytes(1, &integer(1, length))).concat();
    let tensor = [integer(1, F32), bytes(2, &shape)].concat();
    [text(1, name), bytes(2, &bytes(1, &tensor))].concat()
}

fn text(field: u64, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn integer(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
