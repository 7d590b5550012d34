//! The manifest of zTensor 1.0 to 1.2: named tensors, each of components with a role.

use super::blob::{Blob, Findings};
use super::byte_streams;
use super::contents::{Contents, check_version};
use super::dtypes::{block_dtype, byte_length, logical_dtype, main_component, stored_dtype};
use super::list::dtype_of;
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::index::{Component, Layout, Metadata, Tensor, sparse};
use crate::values::cbor::Cbor;
use crate::values::described::{integers, text};
use serde_json::Value;

pub(super) fn read(cbor: &mut Cbor, findings: &mut Findings) -> Result<Contents> {
    let (mut version, mut metadata, mut tensors, mut warnings) = (None, Metadata::new(), Vec::new(), Vec::new());
    cbor.entries(|key, cbor| {
        match key {
            "version" => {
                let stated = cbor.transient(Cbor::value)?;
                let stated = stated.as_str().ok_or_else(|| malformed("the version of the manifest is not text"))?;
                warnings.extend(check_version(stated)?);
                version = Some(stated.to_owned());
            }
            "attributes" => metadata.extend(attributes(cbor.value()?)?),
            "tensors" | "objects" => cbor.entries(|name, cbor| {
                let tensor: Tensor = cbor.transient(|cbor| {
                    let object = cbor.value()?;
                    read_tensor(name, &object, findings).map_err(|e| e.in_tensor(name))
                })?;
                cbor.budget.tensor_with_attributes(&tensor)?;
                tensors.push(tensor);
                Ok(())
            })?,
            _ => {
                let value = cbor.entry_value(metadata.len(), key)?;
                metadata.entry(key).or_insert(value);
            }
        }
        Ok(())
    })?;
    let version = version.ok_or_else(|| malformed("the manifest states no version"))?;
    Ok(Contents { version, metadata, tensors, warnings })
}

fn read_tensor(name: &str, object: &Value, findings: &mut Findings) -> Result<Tensor> {
    let shape = integers(object, "shape")?;
    let format = text(object, "format")?.ok_or_else(|| malformed("it has no `format`"))?;
    let parts =
        object.get("components").and_then(Value::as_object).ok_or_else(|| malformed("it has no `components`"))?;
    let mut attributes = object.get("attributes").cloned().map(attributes).transpose()?.unwrap_or_default();
    if format == byte_streams::FORMAT
        && let Some(data) = byte_streams::read(object, &shape, parts, findings)?
    {
        return Ok(Tensor { attributes, ..Tensor::dense(name.to_owned(), data.dtype.clone(), shape, data) });
    }
    let blocks = block_dtype(format, parts, &mut attributes);
    let (layout, roles): (_, &[&str]) = match format {
        "dense" => (Layout::Dense, &["data"]),
        _ if blocks.is_some() => (Layout::Dense, &["data"]),
        "sparse_csr" => (Layout::SparseCsr, &["values", "indices", "indptr"]),
        "sparse_coo" => (Layout::SparseCoo, &["values", "coords"]),
        other => (Layout::Other(other.into()), &[]),
    };
    if let Some(missing) = roles.iter().find(|role| !parts.contains_key(**role)) {
        return Err(malformed(format!("its format is {format}, but it has no `{missing}`")));
    }
    let has_more = !roles.is_empty() && parts.len() > roles.len();
    let layout = if has_more { Layout::Other(format.into()) } else { layout };

    // In 1.0 the tensor has a dtype, later each component.
    let common = text(object, "dtype")?;
    let mut components = Vec::new();
    for (role, part) in parts {
        let dtype = match &blocks {
            Some(blocks) => blocks.clone(),
            None => dtype(role, common, text(part, "dtype")?, text(part, "type")?),
        };
        let expected = expected_length(&layout, role, &shape, &dtype)?;
        components.push(Blob::read(part)?.component(role, dtype, expected, findings)?);
    }
    bound_unstated_lengths(&layout, &shape, &mut components)?;
    let lengths: Vec<_> = components.iter().map(|component| component.decoded_length).collect();
    sparse::check_counts(&layout, &shape, &components, &lengths)?;
    let dtype = main_component(&components).ok_or_else(|| malformed("it has no components"))?.dtype.clone();
    Ok(Tensor { name: name.to_owned(), dtype, shape, layout, components, attributes, shard: 0 })
}

fn attributes(value: Value) -> Result<Metadata> {
    match value {
        Value::Object(attributes) => Ok(attributes),
        Value::Null => Ok(Metadata::new()),
        _ => Err(malformed("`attributes` is not a map")),
    }
}

/// Returns the dtype of a component: `logical` if present, else `stored`. In 1.0, values have the dtype of the tensor
/// (`common`), and all indices are u64.
fn dtype(role: &str, common: Option<&str>, stored: Option<&str>, logical: Option<&str>) -> Dtype {
    match (logical, stored, common, role) {
        (Some(logical), ..) => logical_dtype(logical),
        (None, Some(stored), ..) => stored_dtype(stored),
        (None, None, _, "indices" | "indptr" | "coords") => Dtype::U64,
        (None, None, Some(common), "data" | "values") => dtype_of(common),
        _ => Dtype::Other("unknown".into()),
    }
}

/// Returns the decoded length of a component, if layout and shape determine it.
fn expected_length(layout: &Layout, role: &str, shape: &[u64], dtype: &Dtype) -> Result<Option<u64>> {
    let elements = match (layout, role, shape) {
        (Layout::Dense, ..) => element_count(shape)?,
        (Layout::SparseCsr, "indptr", [rows, _]) => rows.saturating_add(1),
        _ => return Ok(None),
    };
    byte_length(dtype, elements)
}

/// Sets the maximum decoded length of the components of a sparse tensor that do not state a length. There are as many
/// indices as values, and at most as many as the shape has elements.
fn bound_unstated_lengths(layout: &Layout, shape: &[u64], components: &mut [Component]) -> Result<()> {
    let rank = match layout {
        Layout::SparseCsr => 1,
        Layout::SparseCoo => (shape.len() as u64).max(1),
        _ => return Ok(()),
    };
    let each = |role: &str| match role {
        "values" => Some(1),
        "indices" | "coords" => Some(rank),
        _ => None,
    };
    let mut most = element_count(shape)?;
    for component in components.iter() {
        if let (Some(each), Some(length), Some(block)) =
            (each(&component.role), component.decoded_length, component.dtype.block())
        {
            most = most.min(length / block.bytes / each);
        }
    }
    for component in components.iter_mut().filter(|component| component.decoded_length.is_none()) {
        if let (Some(each), Some(block)) = (each(&component.role), component.dtype.block()) {
            let blocks = most.div_ceil(block.elements).saturating_mul(each);
            component.max_decoded_length = Some(blocks.saturating_mul(block.bytes));
        }
    }
    Ok(())
}
