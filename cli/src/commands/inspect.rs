//! `weightstream inspect`: prints the metadata and tensors of a model.

use super::model::{Model, ModelArguments};
use super::table::{Table, cut_end, terminal_width};
use super::total::Total;
use super::{Failure, count, one_line, progress::Bar};
use indicatif::HumanCount;
use serde_json::{Map, Value, json};
use std::io::{self, BufWriter, Write};
use weightstream::dtype::element_count;
use weightstream::error::Result;
use weightstream::index::Hasher;
use weightstream::index::{Component, Digest, Encoding, Layout, Tensor};
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
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = arguments.place.open()?;
    let bar = Bar::new("hashing");
    let mut hasher = arguments.sha256.then(|| {
        let byte_lengths = model.input().tensors().iter().filter_map(Tensor::byte_length);
        bar.expects(byte_lengths.fold(0, u64::saturating_add));
        TensorHasher { input: model.input(), progress: &bar }
    });
    let mut out = BufWriter::new(io::stdout().lock());
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
    write!(out, "{{\"format\":{format},\"version\":{version},\"metadata\":{metadata},\"tensors\":[")?;
    for (at, tensor) in model.input().tensors().iter().enumerate() {
        let described = describe(model, tensor, hasher.as_deref_mut())?;
        write!(out, "{}\n{}", if at == 0 { "" } else { "," }, Value::Object(described))?;
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}

fn describe(model: &Model, tensor: &Tensor, mut hasher: Option<&mut TensorHasher>) -> Result<Map<String, Value>> {
    let mut described = Map::new();
    described.insert("name".to_owned(), json!(tensor.name));
    described.insert("dtype".to_owned(), json!(tensor.dtype.name()));
    described.insert("shape".to_owned(), json!(tensor.shape));
    described.insert("byteLength".to_owned(), json!(tensor.byte_length()));
    if tensor.layout != Layout::Dense {
        described.insert("layout".to_owned(), json!(tensor.layout.name()));
    }
    if !tensor.attributes.is_empty() {
        described.insert("attributes".to_owned(), json!(tensor.attributes));
    }
    if model.file_count() > 1 {
        described.insert("shard".to_owned(), json!(tensor.shard));
    }
    let mut sha256_of = |component: &Component| hasher.as_mut().map(|h| h.sha256(tensor, component)).transpose();
    if let [component] = tensor.components.as_slice() {
        described.extend(sha256_of(component)?.map(|sha256| ("sha256".to_owned(), json!(sha256))));
        return Ok(described);
    }
    let mut components = Vec::new();
    for component in &tensor.components {
        let Component { role, dtype, decoded_length, .. } = component;
        let mut part = json!({ "role": role, "dtype": dtype.name(), "byteLength": decoded_length });
        if let (Some(sha256), Some(part)) = (sha256_of(component)?, part.as_object_mut()) {
            part.insert("sha256".to_owned(), json!(sha256));
        }
        components.push(part);
    }
    described.insert("components".to_owned(), Value::Array(components));
    Ok(described)
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
