//! The output of `diff` for people: one line for each difference, and a summary.

use super::compare::{Change, Keys, Tensors};
use crate::commands::table::{cut_end, terminal_width};
use crate::commands::terminal::{BAD, CHANGED, GOOD, MOVED, inform, styled};
use crate::commands::{count, one_line};
use serde_json::Value;
use std::io::{self, BufWriter, Write};
use weightstream::internals::index::Tensor;

/// The maximum width of a metadata value. Vocabularies have megabytes; `--json` prints them in full.
const VALUE_WIDTH: usize = 60;

pub(super) fn write(tensors: &Tensors, keys: Option<&Keys>, are_equal: bool) -> io::Result<()> {
    let mut out = BufWriter::new(anstream::stdout().lock());
    for tensor in &tensors.removed {
        writeln!(out, "{}  {}  {}", styled(BAD, "removed"), one_line(&tensor.name), form(tensor))?;
    }
    for tensor in &tensors.added {
        writeln!(out, "{}  {}  {}", styled(GOOD, "added  "), one_line(&tensor.name), form(tensor))?;
    }
    for (before, after) in &tensors.renamed {
        let (from, to) = (one_line(&before.name), one_line(&after.name));
        writeln!(out, "{}  {from} → {to}  {}", styled(MOVED, "renamed"), form(before))?;
    }
    for change in &tensors.changed {
        let name = one_line(&change.before.name);
        writeln!(out, "{}  {name}  {}", styled(CHANGED, "changed"), what_changed(change))?;
    }
    for line in keys.iter().flat_map(|keys| lines(keys)) {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    drop(out);
    inform(&summary(tensors, keys, are_equal))
}

/// `F32 [2, 384]`.
fn form(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.dtype, tensor.shape)
}

fn what_changed(Change { before, after, digests }: &Change) -> String {
    if digests.is_some() {
        return format!("bytes of {}", form(before));
    }
    let mut changes = Vec::new();
    if before.dtype != after.dtype {
        changes.push(format!("{} → {}", before.dtype, after.dtype));
    }
    if before.shape != after.shape {
        changes.push(format!("{:?} → {:?}", before.shape, after.shape));
    }
    if before.layout != after.layout {
        changes.push(format!("{} → {}", one_line(before.layout.name()), one_line(after.layout.name())));
    }
    if changes.is_empty() {
        changes.push("components".to_owned());
    }
    changes.join(", ")
}

fn lines(keys: &Keys) -> Vec<String> {
    let width = terminal_width().map_or(VALUE_WIDTH, |width| width / 3);
    let show = |value: &Value| cut_end(&one_line(&value.to_string()), width);
    let mut lines = Vec::new();
    for (key, value) in &keys.removed {
        lines.push(format!("{}  metadata {}: {}", styled(BAD, "removed"), one_line(key), show(value)));
    }
    for (key, value) in &keys.added {
        lines.push(format!("{}  metadata {}: {}", styled(GOOD, "added  "), one_line(key), show(value)));
    }
    for (key, one, other) in &keys.changed {
        let (key, kind) = (one_line(key), styled(CHANGED, "changed"));
        lines.push(format!("{kind}  metadata {key}: {} → {}", show(one), show(other)));
    }
    lines
}

/// `1 tensor removed, 2 changed, 99 equal; 1 key of metadata changed`.
fn summary(tensors: &Tensors, keys: Option<&Keys>, are_equal: bool) -> String {
    if are_equal {
        let and_metadata = if keys.is_some() { " and the metadata" } else { "" };
        return format!("{}: {}{and_metadata}", styled(GOOD, "equal"), count(tensors.equal, "tensor"));
    }
    let of_tensors = [
        (tensors.removed.len(), "removed"),
        (tensors.added.len(), "added"),
        (tensors.renamed.len(), "renamed"),
        (tensors.changed.len(), "changed"),
        (tensors.equal, "equal"),
    ];
    let mut summary = format!("tensors: {}", counts(&of_tensors));
    match keys {
        Some(keys) if keys.are_equal() => summary.push_str("; metadata: equal"),
        Some(Keys { removed, added, changed }) => {
            let of_keys = [(removed.len(), "removed"), (added.len(), "added"), (changed.len(), "changed")];
            summary.push_str(&format!("; metadata: {}", counts(&of_keys)));
        }
        None => {}
    }
    summary
}

fn counts(counts: &[(usize, &str)]) -> String {
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    if counts.is_empty() { "none".to_owned() } else { counts }
}
