//! `weightstream inspect`: prints the metadata and tensors of a model.

mod one_tensor;
mod select;
mod text;

use super::digests::{sha256, warn_of};
use super::model::{Model, ModelArguments};
use super::{Failure, describe, progress::Bar};
use select::SelectArguments;
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use weightstream::Result;
use weightstream::internals::index::Tensor;
use weightstream::internals::progress::Progress;
use weightstream::internals::write::Extent;

/// Prints the metadata and the tensors of a model.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 for success, 1 for an error, 2 for wrong usage.")]
pub(super) struct Arguments {
    #[command(flatten)]
    place: ModelArguments,
    /// Print one JSON object with all metadata and tensors.
    #[arg(long)]
    json: bool,
    /// Read every listed tensor, and print the SHA-256 of its decoded bytes.
    #[arg(long)]
    sha256: bool,
    /// Print the summary and the metadata, but no tensors.
    #[arg(long, conflicts_with_all = ["sha256", "tensor", "filters", "sort"])]
    no_tensors: bool,
    #[command(flatten)]
    select: SelectArguments,
    /// Read only this tensor, and print how it is stored, its statistics and its first values.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["filters", "sort"])]
    tensor: Option<String>,
}

/// A tensor to list, with the SHA-256 of its components if they were requested.
struct Row<'a> {
    tensor: &'a Tensor,
    sha256: Option<Vec<String>>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = arguments.place.open()?;
    if let Some(name) = &arguments.tensor {
        let mut out = BufWriter::new(io::stdout().lock());
        one_tensor::write_tensor(&model, name, arguments, &mut out)?;
        out.flush()?;
        return Ok(());
    }
    let rows = match arguments.no_tensors {
        true => None,
        false => Some(rows(&model, arguments)?),
    };
    if arguments.json {
        let mut out = BufWriter::new(io::stdout().lock());
        write_json(&model, rows.as_deref(), &mut out)?;
        out.flush()?;
    } else {
        let mut out = BufWriter::new(anstream::stdout().lock());
        let is_filtered = arguments.select.is_filtered();
        text::write(&model, &arguments.place.name(), rows.as_deref(), is_filtered, &mut out)?;
        out.flush()?;
    }
    Ok(())
}

/// Returns the tensors to list. They are read in file order, which takes few requests, and then sorted.
fn rows<'a>(model: &'a Model, arguments: &Arguments) -> Result<Vec<Row<'a>>> {
    let input = model.input();
    let tensors = arguments.select.filter(input.tensors(), &arguments.place.name())?;
    let checked = if arguments.sha256 { input.begin()? } else { None };
    let checked = checked.as_deref().unwrap_or(input);
    let bar = Bar::new("hashing");
    if arguments.sha256 {
        let byte_lengths = tensors.iter().filter_map(|tensor| tensor.byte_length());
        bar.expects(byte_lengths.fold(0, u64::saturating_add));
    }
    let row = |tensor: &'a Tensor| {
        let of_components = || tensor.components.iter().map(|part| sha256(checked, tensor, part, &bar)).collect();
        let sha256 = arguments.sha256.then(of_components).transpose()?;
        Ok(Row { tensor, sha256 })
    };
    let extent = if tensors.len() == input.tensors().len() { Extent::Whole } else { Extent::Read };
    let mut rows = tensors.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    if arguments.sha256 {
        warn_of(&checked.compare_files(extent, &bar)?);
    }
    arguments.select.sort(&mut rows, |row| row.tensor);
    Ok(rows)
}

/// Writes one JSON object, with one line per tensor.
fn write_json(model: &Model, rows: Option<&[Row]>, out: &mut impl Write) -> Result<(), Failure> {
    let head = model.input().metadata();
    let (format, version) = (json!(head.format), json!(head.version));
    let metadata = serde_json::to_string(&head.metadata).map_err(io::Error::from)?;
    let (files, warnings) = (describe::files(model), describe::warnings(model));
    write!(out, "{{\"format\":{format},\"version\":{version},\"metadata\":{metadata},")?;
    write!(out, "\"files\":{files},\"warnings\":{warnings}")?;
    let Some(rows) = rows else {
        writeln!(out, "}}")?;
        return Ok(());
    };
    write!(out, ",\"tensors\":[")?;
    for (at, row) in rows.iter().enumerate() {
        let mut digests = row.sha256.iter().flatten();
        let described = describe::tensor(model, row.tensor, &mut |_| {
            Ok(digests.next().map(|sha256| ("sha256".to_owned(), json!(sha256))).into_iter().collect())
        })?;
        write!(out, "{}\n{}", if at == 0 { "" } else { "," }, Value::Object(described))?;
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}
