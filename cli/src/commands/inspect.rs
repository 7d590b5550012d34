//! `weightstream inspect`: prints the metadata and tensors of a model.

use super::describe;
use super::model::{Model, ModelArguments};
use super::numbers::Numbers;
use super::table::{Table, cut_end, terminal_width};
use super::total::Total;
use super::{Failure, count, one_line, progress::Bar};
use indicatif::HumanCount;
use serde_json::{Map, Value, json};
use std::io::{self, BufWriter, Write};
use weightstream::dtype::element_count;
use weightstream::error::{Error, ErrorKind, Result};
use weightstream::index::{Component, Digest, Encoding, Hasher, Tensor};
use weightstream::progress::Progress;
use weightstream::write::Input;

/// The maximum width of a metadata line if the output is not a terminal. Values (a vocabulary, a tokenizer) can have
/// megabytes; `--json` prints them in full.
const VALUE_WIDTH: usize = 100;

/// Prints the metadata and the tensors of a model.
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: ModelArguments,
    /// Print one JSON object with all metadata and tensors.
    #[arg(long)]
    json: bool,
    /// Read every tensor, and print the SHA-256 of its decoded bytes.
    #[arg(long)]
    sha256: bool,
    /// Read only this tensor, and print how it is stored, its statistics and its first values.
    #[arg(long, value_name = "NAME")]
    tensor: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = arguments.place.open()?;
    let mut out = BufWriter::new(io::stdout().lock());
    if let Some(name) = &arguments.tensor {
        write_tensor(&model, name, arguments, &mut out)?;
        out.flush()?;
        return Ok(());
    }
    let bar = Bar::new("hashing");
    let mut hasher = arguments.sha256.then(|| {
        let byte_lengths = model.input().tensors().iter().filter_map(Tensor::byte_length);
        bar.expects(byte_lengths.fold(0, u64::saturating_add));
        TensorHasher { input: model.input(), progress: &bar }
    });
    match arguments.json {
        true => write_json(&model, hasher.as_mut(), &mut out)?,
        false => write_text(&model, hasher.as_mut(), &arguments.place.name(), &mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// Writes one JSON object, with one line per tensor.
fn write_json(model: &Model, mut hasher: Option<&mut TensorHasher>, out: &mut impl Write) -> Result<(), Failure> {
    let head = model.input().metadata();
    let (format, version) = (json!(head.format), json!(head.version));
    let metadata = serde_json::to_string(&head.metadata).map_err(io::Error::from)?;
    let (files, warnings) = (describe::files(model), describe::warnings(model));
    write!(out, "{{\"format\":{format},\"version\":{version},\"metadata\":{metadata},")?;
    write!(out, "\"files\":{files},\"warnings\":{warnings},\"tensors\":[")?;
    for (at, tensor) in model.input().tensors().iter().enumerate() {
        let described = describe::tensor(model, tensor, &mut |component| {
            let sha256 = hasher.as_mut().map(|hasher| hasher.sha256(tensor, component)).transpose()?;
            Ok(sha256.map(|sha256| ("sha256".to_owned(), json!(sha256))).into_iter().collect())
        })?;
        write!(out, "{}\n{}", if at == 0 { "" } else { "," }, Value::Object(described))?;
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}

/// Writes one tensor: its entry in the index, its statistics and its first values.
fn write_tensor(model: &Model, name: &str, arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let tensor = model.input().tensors().iter().find(|tensor| tensor.name == name).ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, "the model has no tensor of this name");
        error.in_tensor(name).in_file(&arguments.place.name())
    })?;
    let bar = Bar::new("reading");
    bar.expects(tensor.byte_length().unwrap_or_default());
    let described = describe::tensor(model, tensor, &mut |component| {
        let mut numbers = Numbers::of(&component.dtype);
        let mut hasher = arguments.sha256.then(|| Hasher::new(Digest::Sha256([0; 32])));
        model.input().read_pieces(tensor, &component.role, &mut |bytes| {
            bar.advanced(bytes.len() as u64);
            hasher.iter_mut().for_each(|hasher| hasher.update(bytes));
            numbers.as_mut().map_or(Ok(()), |numbers| numbers.push(bytes))
        })?;
        let mut added = Map::new();
        added.extend(hasher.map(|hasher| ("sha256".to_owned(), json!(hasher.finish().to_string()))));
        added.extend(numbers.into_iter().flat_map(Numbers::finish));
        Ok(added)
    })?;
    drop(bar);
    match arguments.json {
        true => writeln!(out, "{}", Value::Object(described))?,
        false => write_entries(&described, 0, out)?,
    }
    Ok(())
}

/// Writes the entries of an object in lines, with those of inner objects below their key.
fn write_entries(described: &Map<String, Value>, indent: usize, out: &mut impl Write) -> io::Result<()> {
    let width = described.keys().map(String::len).max().unwrap_or(0);
    for (key, value) in described {
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                writeln!(out, "{:indent$}{key}", "")?;
                write_entries(inner, indent + 2, out)?;
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                writeln!(out, "{:indent$}{key}", "")?;
                for inner in items.iter().filter_map(Value::as_object) {
                    write_entries(inner, indent + 2, out)?;
                }
            }
            Value::String(text) => writeln!(out, "{:indent$}{key:width$}  {}", "", one_line(text))?,
            other => writeln!(out, "{:indent$}{key:width$}  {}", "", one_line(&other.to_string()))?,
        }
    }
    Ok(())
}

fn write_text(
    model: &Model,
    mut hasher: Option<&mut TensorHasher>,
    name: &str,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (head, tensors) = (model.input().metadata(), model.input().tensors());
    let elements = Total::of(tensors.iter().filter_map(|tensor| element_count(&tensor.shape).ok()));
    let decoded = Total::of(tensors.iter().filter_map(Tensor::byte_length));
    let stored = Total::of(tensors.iter().map(Tensor::stored_length));
    writeln!(out, "{}: {} {}", one_line(name), head.format, one_line(&head.version))?;
    let (files, count_of_tensors) = (count(model.file_count(), "file"), count(tensors.len(), "tensor"));
    write!(out, "{files}, {count_of_tensors}, {} elements, {}", elements.as_count(), decoded.as_bytes())?;
    match stored == decoded {
        true => writeln!(out)?,
        false => writeln!(out, " stored in {}", stored.as_bytes())?,
    }

    if !head.metadata.is_empty() {
        writeln!(out)?;
    }
    for (key, value) in &head.metadata {
        let line = one_line(&format!("{key}: {value}"));
        writeln!(out, "{}", cut_end(&line, terminal_width().unwrap_or(VALUE_WIDTH)))?;
    }

    let is_stored_raw = |tensor: &Tensor| tensor.components.iter().all(|c| c.encoding == Encoding::Raw);
    let shows_stored = !tensors.iter().all(is_stored_raw);
    let shows_file = model.file_count() > 1;
    let mut headings = vec!["TENSOR", "DTYPE", "SHAPE", "BYTES>"];
    headings.extend(shows_stored.then_some("STORED>"));
    headings.extend(shows_file.then_some("FILE>"));
    headings.extend(hasher.is_some().then_some("SHA256"));
    let mut table = Table::new(&headings);
    for tensor in tensors {
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
        row.extend(shows_file.then(|| tensor.shard.to_string()));
        if let Some(hasher) = &mut hasher {
            let of_components = tensor.components.iter().map(|component| hasher.sha256(tensor, component));
            row.push(of_components.collect::<Result<Vec<_>>>()?.join(" "));
        }
        table.row(row);
    }
    if !tensors.is_empty() {
        writeln!(out)?;
        table.write(out)?;
    }
    Ok(())
}

/// Computes digests of decoded bytes, and updates the progress bar.
struct TensorHasher<'a> {
    input: &'a dyn Input,
    progress: &'a Bar,
}

impl TensorHasher<'_> {
    fn sha256(&mut self, tensor: &Tensor, component: &Component) -> Result<String> {
        let mut hasher = Hasher::new(Digest::Sha256([0; 32]));
        self.input.read_pieces(tensor, &component.role, &mut |bytes| {
            hasher.update(bytes);
            self.progress.advanced(bytes.len() as u64);
            Ok(())
        })?;
        Ok(hasher.finish().to_string())
    }
}
