//! Converts an object to a tensor, and checks its parts against its layout.

use super::super::blob::Findings;
use super::super::dtypes::{block_dtype, byte_length, main_component};
use super::names::{check_name, named};
use super::part::Part;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, Result, malformed};
use crate::index::values::ValueRule;
use crate::index::{Component, Layout, Metadata, Tensor, sparse};
use crate::values::cbor::Cbor;
use crate::values::described::{integers, text};
use serde_json::Value;

const MAX_RANK: usize = 64;

pub(super) fn read(name: &str, cbor: &mut Cbor, findings: &mut Findings) -> Result<Tensor> {
    check_name(name)?;
    let (mut attributes, mut described_parts, mut object) = (Metadata::new(), Metadata::new(), Metadata::new());
    cbor.entries(|key, cbor| {
        match key {
            "attributes" => attributes = named(cbor)?,
            "parts" => described_parts = named(cbor)?,
            _ => _ = object.insert(key.to_owned(), cbor.value()?),
        }
        Ok(())
    })?;
    let object = Value::Object(object);
    let shape = integers(&object, "shape")?;
    if shape.len() > MAX_RANK {
        return Err(malformed(format!("it has {} dimensions; at most {MAX_RANK} are allowed", shape.len())));
    }
    element_count(&shape)?;
    let layout_name = text(&object, "layout")?.ok_or_else(|| malformed("it has no `layout`"))?;
    let blocks = block_dtype(layout_name, &described_parts, &mut attributes);
    let layout = match layout_name {
        "dense" => Layout::Dense,
        _ if blocks.is_some() => Layout::Dense,
        "zt.sparse_csr/1" => Layout::SparseCsr,
        "zt.sparse_coo/1" => Layout::SparseCoo,
        other => Layout::Other(other.into()),
    };

    let (mut parts, mut components) = (Vec::new(), Vec::new());
    for (role, described) in &described_parts {
        let in_part = |mut error: Error| {
            error.what = format!("part `{role}`: {}", error.what);
            error
        };
        let mut part = Part::read(described).map_err(in_part)?;
        if let Some(blocks) = &blocks {
            part.dtype = blocks.clone();
        }
        let mut component = part.component(role, findings).map_err(in_part)?;
        component.rule = value_rule(&layout, role, &component, &shape)?;
        components.push(component);
        parts.push((role.as_str(), part));
    }
    check_parts(&layout, &shape, &parts)?;
    let lengths: Vec<_> = parts.iter().map(|(_, part)| Some(part.decoded_length)).collect();
    sparse::check_counts(&layout, &shape, &components, &lengths)?;
    let dtype = main_component(&components).ok_or_else(|| malformed("it has no parts"))?.dtype.clone();
    Ok(Tensor { name: name.to_owned(), dtype, shape, layout, components, attributes, shard: 0 })
}

/// The rule of the version for the values of a part (appendix A, and the profile of sparse matrices).
fn value_rule(layout: &Layout, role: &str, component: &Component, shape: &[u64]) -> Result<Option<ValueRule>> {
    Ok(match component.dtype {
        Dtype::Bool => Some(ValueRule::Booleans),
        Dtype::F4 if *layout == Layout::Dense && !element_count(shape)?.is_multiple_of(2) => {
            Some(ValueRule::ZeroLastHalf)
        }
        _ => (*layout == Layout::SparseCsr && role == "indices").then_some(ValueRule::IncreasingColumns),
    })
}

/// Checks that the parts are exactly those of the layout, and checks their decoded lengths. The number of indices of a
/// sparse tensor determines its number of nonzero elements.
fn check_parts(layout: &Layout, shape: &[u64], parts: &[(&str, Part)]) -> Result<()> {
    let expected = match (layout, shape) {
        (Layout::Dense, _) => vec![("data", element_count(shape)?)],
        (Layout::SparseCsr, [rows, _]) => {
            let (count, dtype) = indices("indices", parts)?;
            if part("indptr", parts)?.dtype != *dtype {
                return Err(malformed(format!("its `indices` are {dtype}, but its `indptr` is not")));
            }
            vec![("indices", count), ("indptr", rows.saturating_add(1)), ("values", count)]
        }
        (Layout::SparseCoo, [_, ..]) => {
            let rank = shape.len() as u64;
            let count = indices("coords", parts)?.0 / rank;
            vec![("coords", count * rank), ("values", count)]
        }
        (Layout::SparseCsr | Layout::SparseCoo, _) => {
            return Err(malformed(format!(
                "its layout is {}, which does not allow the shape {shape:?}",
                layout.name()
            )));
        }
        _ => return Ok(()),
    };
    if parts.len() > expected.len() {
        return Err(malformed(format!("its layout is {}, but it has {} parts", layout.name(), parts.len())));
    }
    for (role, elements) in expected {
        let part = part(role, parts)?;
        match byte_length(&part.dtype, elements)? {
            Some(bytes) if bytes != part.decoded_length => {
                let (length, dtype) = (part.decoded_length, &part.dtype);
                let what = format!("`{role}` has {length} bytes of {dtype}, but its tensor needs {bytes}");
                return Err(malformed(what));
            }
            _ => {}
        }
    }
    Ok(())
}

fn part<'a>(role: &str, parts: &'a [(&str, Part<'a>)]) -> Result<&'a Part<'a>> {
    let found = parts.iter().find(|(name, _)| *name == role);
    found.map(|(_, part)| part).ok_or_else(|| malformed(format!("its layout requires the missing part `{role}`")))
}

/// Returns the number of indices in the part `role`, and their dtype.
fn indices<'a>(role: &str, parts: &'a [(&str, Part<'a>)]) -> Result<(u64, &'a Dtype)> {
    let part = part(role, parts)?;
    match part.dtype {
        Dtype::U32 => Ok((part.decoded_length / 4, &part.dtype)),
        Dtype::U64 => Ok((part.decoded_length / 8, &part.dtype)),
        _ => Err(malformed(format!("`{role}` are {}, but must be U32 or U64", part.dtype))),
    }
}
