//! `weightstream diff`: compares two models.

mod compare;
mod text;

use super::Failure;
use super::model::HttpArguments;
use compare::{Change, Digests, Keys, Tensors, compare};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use weightstream::internals::index::Tensor;

/// Compares two models: names, dtypes, shapes and decoded bytes of their tensors, and their metadata.
///
/// Format, compression, order of the tensors and number of files are not compared. Tensors with the same dtype, shape
/// and bytes under another name are renamed. Memory use does not depend on the size of the models.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 if the models are equal, 1 if they are different, 2 for an error or wrong usage."
)]
pub(super) struct Arguments {
    /// The first model: a file, a manifest, a folder, a URL (http, https, s3, gs, az) or `hf:owner/name@revision/path`.
    #[arg(value_name = "A")]
    before: OsString,
    /// The second model.
    #[arg(value_name = "B")]
    after: OsString,
    #[command(flatten)]
    http: HttpArguments,
    /// Print one JSON object with all differences.
    #[arg(long)]
    json: bool,
    /// Compare only the tensors.
    #[arg(long)]
    no_metadata: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let [before, after] = arguments.http.open_all([&arguments.before, &arguments.after])?;
    let (before, after) = (before.input(), after.input());
    let keys = (!arguments.no_metadata).then(|| Keys::compare(&before.metadata().metadata, &after.metadata().metadata));
    let tensors = compare(before, after)?;
    let are_equal = tensors.are_equal() && keys.as_ref().is_none_or(Keys::are_equal);
    let printed = match arguments.json {
        true => write_json(&tensors, keys.as_ref(), are_equal),
        false => text::write(&tensors, keys.as_ref(), are_equal),
    };
    match printed {
        printed if are_equal => Ok(printed?),
        // The exit code is the same if a reader of a pipe stops early.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Err(Failure::Different),
    }
}

/// Writes one JSON object, with one line per difference of a tensor.
fn write_json(tensors: &Tensors, keys: Option<&Keys>, are_equal: bool) -> io::Result<()> {
    let renamed = |(before, after): &(&Tensor, &Tensor)| {
        let (dtype, shape) = (before.dtype.name(), &before.shape);
        json!({ "from": before.name, "to": after.name, "dtype": dtype, "shape": shape })
    };
    let mut out = BufWriter::new(io::stdout().lock());
    write!(out, "{{\"equal\":{are_equal},\"equalTensors\":{}", tensors.equal)?;
    write_list("removed", tensors.removed.iter().map(|tensor| described(tensor)), &mut out)?;
    write_list("added", tensors.added.iter().map(|tensor| described(tensor)), &mut out)?;
    write_list("renamed", tensors.renamed.iter().map(renamed), &mut out)?;
    write_list("changed", tensors.changed.iter().map(change), &mut out)?;
    if let Some(keys) = keys {
        let map = |entries: &[(&str, &Value)]| -> Map<String, Value> {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).clone())).collect()
        };
        let changed = keys.changed.iter().map(|(key, one, other)| ((*key).to_owned(), from_to(one, other)));
        let changed: Map<String, Value> = changed.collect();
        let metadata = json!({ "removed": map(&keys.removed), "added": map(&keys.added), "changed": changed });
        write!(out, ",\"metadata\":{metadata}")?;
    }
    writeln!(out, "}}")?;
    out.flush()
}

fn write_list(key: &str, items: impl Iterator<Item = Value>, out: &mut impl Write) -> io::Result<()> {
    write!(out, ",\"{key}\":[")?;
    for (at, item) in items.enumerate() {
        write!(out, "{}\n{item}", if at == 0 { "" } else { "," })?;
    }
    write!(out, "]")
}

fn described(tensor: &Tensor) -> Value {
    json!({ "name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape })
}

/// The properties that changed, each before and after.
fn change(Change { before, after, digests }: &Change) -> Value {
    let mut described = Map::new();
    described.insert("name".to_owned(), json!(before.name));
    let mut compare = |key: &str, one: Value, other: Value| {
        if one != other {
            described.insert(key.to_owned(), from_to(&one, &other));
        }
    };
    compare("dtype", json!(before.dtype.name()), json!(after.dtype.name()));
    compare("shape", json!(before.shape), json!(after.shape));
    compare("layout", json!(before.layout.name()), json!(after.layout.name()));
    compare("components", components(before), components(after));
    if let Some((one, other)) = digests {
        compare("sha256", sha256(one), sha256(other));
    }
    Value::Object(described)
}

/// The dtypes of the components of a sparse tensor, by role; those of a dense tensor are its dtype.
fn components(tensor: &Tensor) -> Value {
    match tensor.components.as_slice() {
        [_] => Value::Null,
        several => several.iter().map(|part| (part.role.to_string(), json!(part.dtype.name()))).collect(),
    }
}

/// One digest, or an object with one for each role.
fn sha256(digests: &Digests) -> Value {
    match digests.as_slice() {
        [(_, digest)] => json!(digest),
        several => several.iter().map(|(role, digest)| (role.clone(), json!(digest))).collect(),
    }
}

fn from_to(one: &Value, other: &Value) -> Value {
    json!({ "from": one, "to": other })
}
