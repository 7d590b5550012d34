//! The output of `inspect` for people: a summary, the metadata and a table of tensors.

use super::Row;
use crate::commands::model::Model;
use crate::commands::table::{Table, cut_end, terminal_width};
use crate::commands::terminal::{HEADING, styled};
use crate::commands::total::Total;
use crate::commands::{Failure, count, one_line};
use indicatif::HumanCount;
use std::io::Write;
use weightstream::internals::dtype::element_count;
use weightstream::internals::index::{Encoding, Layout, Tensor};

/// The maximum width of a metadata line if the output is not a terminal. Values (a vocabulary, a tokenizer) can have
/// megabytes; `--json` prints them in full.
const VALUE_WIDTH: usize = 100;

pub(super) fn write(
    model: &Model,
    name: &str,
    rows: Option<&[Row]>,
    is_filtered: bool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (head, tensors) = (model.input().metadata(), model.input().tensors());
    writeln!(out, "{}: {} {}", styled(HEADING, &one_line(name)), head.format, one_line(&head.version))?;
    let (files, count_of_tensors) = (count(model.file_count(), "file"), count(tensors.len(), "tensor"));
    writeln!(out, "{files}, {count_of_tensors}, {}", totals(tensors.iter()))?;
    if let Some(rows) = rows.filter(|_| is_filtered) {
        let verb = if rows.len() == 1 { "matches" } else { "match" };
        let matching = totals(rows.iter().map(|row| row.tensor));
        writeln!(out, "{} {verb}, {matching}", count(rows.len(), "tensor"))?;
    }
    if !head.metadata.is_empty() {
        writeln!(out)?;
    }
    for (key, value) in &head.metadata {
        let line = one_line(&format!("{key}: {value}"));
        let line = cut_end(&line, terminal_width().unwrap_or(VALUE_WIDTH));
        let key = one_line(key);
        match line.strip_prefix(&key) {
            Some(value) => writeln!(out, "{}{value}", styled(HEADING, &key))?,
            None => writeln!(out, "{line}")?,
        }
    }
    if let Some(rows) = rows.filter(|rows| !rows.is_empty()) {
        writeln!(out)?;
        table(model, rows).write(out)?;
    }
    Ok(())
}

/// `1,234 elements, 4.94 kB`, and the stored size if it is different.
fn totals<'a>(tensors: impl Iterator<Item = &'a Tensor> + Clone) -> String {
    let elements = Total::of(tensors.clone().filter_map(|tensor| element_count(&tensor.shape).ok()));
    let decoded = Total::of(tensors.clone().filter_map(Tensor::byte_length));
    let stored = Total::of(tensors.map(Tensor::stored_length));
    let totals = format!("{} elements, {}", elements.as_count(), decoded.as_bytes());
    if stored == decoded { totals } else { format!("{totals} stored in {}", stored.as_bytes()) }
}

fn table(model: &Model, rows: &[Row]) -> Table {
    let shows_stored = !model.input().tensors().iter().all(is_stored_raw);
    let shows_file = model.file_count() > 1;
    let mut headings = vec!["TENSOR", "DTYPE", "SHAPE", "BYTES>"];
    headings.extend(shows_stored.then_some("STORED>"));
    let shows_quantization = rows.iter().any(|row| quantization(row.tensor).is_some());
    headings.extend(shows_quantization.then_some("QUANTIZATION"));
    headings.extend(shows_file.then_some("FILE>"));
    headings.extend(rows.iter().any(|row| row.sha256.is_some()).then_some("SHA256"));
    let mut table = Table::new(&headings);
    for Row { tensor, sha256 } in rows {
        let shape: Vec<_> = tensor.shape.iter().map(u64::to_string).collect();
        let byte_length = tensor.byte_length().map_or("?".to_owned(), |bytes| HumanCount(bytes).to_string());
        let mut row =
            vec![tensor.name.clone(), tensor.dtype.to_string(), format!("[{}]", shape.join(", ")), byte_length];
        if shows_stored {
            row.push(match is_stored_raw(tensor) {
                true => "raw".to_owned(),
                false => HumanCount(tensor.stored_length()).to_string(),
            });
        }
        row.extend(shows_quantization.then(|| quantization(tensor).unwrap_or_default()));
        row.extend(shows_file.then(|| tensor.shard.to_string()));
        row.extend(sha256.as_ref().map(|digests| digests.join(" ")));
        table.row(row);
    }
    table
}

/// How a tensor of several components is quantized: the method, the bits of a code, and what shares a scale.
fn quantization(tensor: &Tensor) -> Option<String> {
    let described = tensor.attributes.get("quantization").filter(|_| matches!(tensor.layout, Layout::Quantized(_)))?;
    let mut text = described.get("method")?.as_str()?.to_owned();
    if let Some(bits) = described.get("bits") {
        text.push_str(&format!(", {bits} bits"));
    }
    if let Some(size) = described.get("groupSize") {
        text.push_str(&format!(", groups of {size}"));
    } else if let Some([rows, columns]) = described.get("blockSize").and_then(|size| size.as_array()?.first_chunk()) {
        text.push_str(&format!(", blocks of {rows} × {columns}"));
    }
    Some(text)
}

fn is_stored_raw(tensor: &Tensor) -> bool {
    tensor.components.iter().all(|component| component.encoding == Encoding::Raw)
}
