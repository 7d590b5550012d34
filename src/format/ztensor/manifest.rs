//! The manifest of zTensor 1.0 to 1.2: named tensors, each of components with a role.

use super::super::cbor::Cbor;
use super::blob::{Blob, Findings};
use super::list::dtype_of;
use super::{Contents, check_version};
use crate::dtype::{Dtype, element_count};
use crate::error::{Result, malformed};
use crate::index::{Component, Layout, Metadata, Tensor};

pub(super) fn read(cbor: &mut Cbor, findings: &mut Findings) -> Result<Contents> {
    let mut contents =
        Contents { version: String::new(), metadata: Metadata::new(), tensors: Vec::new(), warnings: Vec::new() };
    let Contents { version, metadata, tensors, warnings } = &mut contents;
    cbor.entries(|key, cbor| {
        match key {
            "version" => {
                *version = cbor.text()?;
                let warning = check_version(version).map_err(|e| e.at(cbor.position()..cbor.position()))?;
                warnings.extend(warning);
            }
            "attributes" => metadata.extend(read_attributes(cbor)?),
            "tensors" | "objects" => cbor.entries(|name, cbor| {
                let object = read_object(cbor).map_err(|e| e.in_tensor(name))?;
                tensors.push(object.tensor(name.to_owned(), findings).map_err(|e| e.in_tensor(name))?);
                Ok(())
            })?,
            _ => {
                let value = cbor.value()?;
                metadata.entry(key).or_insert(value);
            }
        }
        Ok(())
    })?;
    if version.is_empty() {
        return Err(cbor.malformed("the manifest states no version"));
    }
    Ok(contents)
}

/// A tensor as the manifest describes it.
#[derive(Default)]
struct Object {
    /// In 1.0; later each component has its own.
    dtype: Option<String>,
    shape: Option<Vec<u64>>,
    format: Option<String>,
    attributes: Metadata,
    parts: Vec<Part>,
}

#[derive(Default)]
struct Part {
    role: String,
    /// What it is stored as.
    dtype: Option<String>,
    /// What that means, where it is something else.
    logical: Option<String>,
    blob: Blob,
}

fn read_object(cbor: &mut Cbor) -> Result<Object> {
    let mut object = Object::default();
    cbor.entries(|key, cbor| {
        match key {
            "dtype" => object.dtype = Some(cbor.text()?),
            "shape" => object.shape = Some(cbor.integers()?),
            "format" => object.format = Some(cbor.text()?),
            "attributes" => object.attributes = read_attributes(cbor)?,
            "components" => cbor.entries(|role, cbor| {
                object.parts.push(read_part(role.to_owned(), cbor)?);
                Ok(())
            })?,
            _ => cbor.skip()?,
        }
        Ok(())
    })?;
    Ok(object)
}

fn read_part(role: String, cbor: &mut Cbor) -> Result<Part> {
    let mut part = Part { role, ..Part::default() };
    let mut has_place = (false, false);
    cbor.entries(|key, cbor| {
        let blob = &mut part.blob;
        match key {
            "dtype" => part.dtype = Some(cbor.text()?),
            "type" => part.logical = cbor.optional(Cbor::text)?,
            "offset" => (blob.offset, has_place.0) = (cbor.u64()?, true),
            "length" => (blob.length, has_place.1) = (cbor.u64()?, true),
            "uncompressed_length" => blob.decoded_length = cbor.optional(Cbor::u64)?,
            "encoding" => blob.encoding = cbor.optional(Cbor::text)?,
            "digest" => blob.digest = cbor.optional(Cbor::text)?,
            _ => cbor.skip()?,
        }
        Ok(())
    })?;
    if has_place != (true, true) {
        return Err(cbor.malformed(format!("`{}` has no offset or no length", part.role)));
    }
    Ok(part)
}

fn read_attributes(cbor: &mut Cbor) -> Result<Metadata> {
    match cbor.value()? {
        serde_json::Value::Object(attributes) => Ok(attributes),
        serde_json::Value::Null => Ok(Metadata::new()),
        _ => Err(cbor.malformed("`attributes` is not a map")),
    }
}

impl Object {
    fn tensor(self, name: String, findings: &mut Findings) -> Result<Tensor> {
        let (Some(shape), Some(format)) = (&self.shape, &self.format) else {
            return Err(malformed("its shape or format is missing"));
        };
        let (layout, roles): (_, &[&str]) = match format.as_str() {
            "dense" => (Layout::Dense, &["data"]),
            "sparse_csr" => (Layout::SparseCsr, &["values", "indices", "indptr"]),
            "sparse_coo" => (Layout::SparseCoo, &["values", "coords"]),
            other => (Layout::Other(other.into()), &[]),
        };
        if let Some(missing) = roles.iter().find(|role| !self.parts.iter().any(|part| part.role == **role)) {
            return Err(malformed(format!("its format is {format}, but it has no `{missing}`")));
        }
        let has_more = !roles.is_empty() && self.parts.len() > roles.len();
        let layout = if has_more { Layout::Other(format.as_str().into()) } else { layout };

        let mut components = Vec::new();
        for part in &self.parts {
            let dtype = self.dtype_of(part);
            let expected = expected_length(&layout, &part.role, shape, &dtype)?;
            components.push(part.blob.component(&part.role, dtype, expected, findings)?);
        }
        check_counts(&layout, shape, &components)?;
        let main = components.iter().find(|component| matches!(&*component.role, "data" | "values"));
        let dtype = main.or(components.first()).map(|component| component.dtype.clone());
        let dtype = dtype.ok_or_else(|| malformed("it has no components"))?;
        let Object { shape, attributes, .. } = self;
        Ok(Tensor { name, dtype, shape: shape.unwrap_or_default(), layout, components, attributes, shard: 0 })
    }

    /// The component's own dtype; in 1.0 that of the tensor for its values, and u64 for all indices.
    fn dtype_of(&self, part: &Part) -> Dtype {
        match (&part.logical, &part.dtype, &self.dtype, part.role.as_str()) {
            (Some(logical), ..) => logical_dtype(logical),
            (None, Some(stored), ..) => stored_dtype(stored),
            (None, None, _, "indices" | "indptr" | "coords") => Dtype::U64,
            (None, None, Some(dtype), "data" | "values") => dtype_of(dtype),
            _ => Dtype::Other("unknown".into()),
        }
    }
}

/// How many bytes a component has once decoded, where layout and shape say.
fn expected_length(layout: &Layout, role: &str, shape: &[u64], dtype: &Dtype) -> Result<Option<u64>> {
    let elements = match (layout, role, shape) {
        (Layout::Dense, ..) => element_count(shape)?,
        (Layout::SparseCsr, "indptr", [rows, _]) => rows.saturating_add(1),
        _ => return Ok(None),
    };
    dtype.byte_length(elements)
}

/// Checks that there are as many indices as values, where both are known.
fn check_counts(layout: &Layout, shape: &[u64], components: &[Component]) -> Result<()> {
    let count = |role: &str| {
        let component = components.iter().find(|component| &*component.role == role)?;
        Some(component.decoded_length? / component.dtype.block()?.bytes)
    };
    let (role, each) = match layout {
        Layout::SparseCsr => ("indices", 1),
        Layout::SparseCoo => ("coords", shape.len() as u64),
        _ => return Ok(()),
    };
    match (count("values"), count(role)) {
        (Some(values), Some(indices)) if values.checked_mul(each) != Some(indices) => {
            Err(malformed(format!("it has {values} values but {indices} {role}; each needs {each}")))
        }
        _ => Ok(()),
    }
}

/// The dtype of a name in zTensor 1.1 and 1.2, which abbreviate.
fn stored_dtype(name: &str) -> Dtype {
    match name {
        "f64" | "f32" | "f16" | "bf16" | "i64" | "i32" | "i16" | "i8" | "u64" | "u32" | "u16" | "u8" | "bool" => {
            Dtype::from_name(&name.to_uppercase())
        }
        other => dtype_of(other),
    }
}

/// The dtype of a logical type, whose elements may be more than one stored element each.
fn logical_dtype(logical: &str) -> Dtype {
    match logical {
        "f8_e4m3fn" => Dtype::F8_E4M3,
        "f8_e5m2" => Dtype::F8_E5M2,
        "f8_e4m3fnuz" => Dtype::F8_E4M3FNUZ,
        "f8_e5m2fnuz" => Dtype::F8_E5M2FNUZ,
        "complex64" => Dtype::C64,
        "complex128" => Dtype::C128,
        other => stored_dtype(other),
    }
}
