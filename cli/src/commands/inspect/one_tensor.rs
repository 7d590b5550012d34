//! `inspect --tensor`: one tensor with its statistics and its first values.

use super::Arguments;
use crate::commands::digests::warn_of;
use crate::commands::model::Model;
use crate::commands::numbers::Numbers;
use crate::commands::progress::Bar;
use crate::commands::{Failure, describe, one_line};
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use weightstream::internals::index::{Digest, Hasher};
use weightstream::internals::progress::Progress;
use weightstream::internals::write::Extent;
use weightstream::{Error, ErrorKind};

/// Writes one tensor: its entry in the index, its statistics and its first values.
pub(super) fn write_tensor(
    model: &Model,
    name: &str,
    arguments: &Arguments,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let tensor = model.input().tensors().iter().find(|tensor| tensor.name == name).ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, "the model has no tensor of this name");
        error.in_tensor(name).in_file(&arguments.place.name())
    })?;
    let bar = Bar::new("reading");
    bar.expects(tensor.byte_length().unwrap_or_default());
    let checked = model.input().begin()?;
    let input = checked.as_deref().unwrap_or(model.input());
    let described = describe::tensor(model, tensor, &mut |component| {
        let mut numbers = Numbers::of(&component.dtype);
        let mut hasher = arguments.sha256.then(|| Hasher::new(Digest::Sha256([0; 32])));
        input.read_pieces(tensor, &component.role, &mut |bytes| {
            bar.advanced(bytes.len() as u64);
            hasher.iter_mut().for_each(|hasher| hasher.update(bytes));
            numbers.as_mut().map_or(Ok(()), |numbers| numbers.push(bytes))
        })?;
        let mut added = Map::new();
        added.extend(hasher.map(|hasher| ("sha256".to_owned(), json!(hasher.finish().to_string()))));
        added.extend(numbers.into_iter().flat_map(Numbers::finish));
        Ok(added)
    })?;
    let not_compared = input.compare_files(Extent::Read, &bar)?;
    drop(bar);
    warn_of(&not_compared);
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
