//! The dtype names of components in zTensor 1.1, 1.2 and 2, and the layouts of ggml blocks.

#[cfg(writes)]
use super::list::LONG_NAMES;
use super::list::dtype_of;
use crate::dtype::{Block, Dtype};
use crate::error::{Result, malformed};
use crate::index::Component;
use serde_json::{Map, Value};

/// The storage dtypes of components.
const STORED: [(&str, Dtype); 13] = [
    ("f64", Dtype::F64),
    ("f32", Dtype::F32),
    ("f16", Dtype::F16),
    ("bf16", Dtype::BF16),
    ("i64", Dtype::I64),
    ("i32", Dtype::I32),
    ("i16", Dtype::I16),
    ("i8", Dtype::I8),
    ("u64", Dtype::U64),
    ("u32", Dtype::U32),
    ("u16", Dtype::U16),
    ("u8", Dtype::U8),
    ("bool", Dtype::Bool),
];

/// Logical types, with their storage dtypes. The list of 1.2 is extensible; the last three are from the registry of
/// version 2 (appendix A).
const LOGICAL: [(&str, &str, Dtype); 9] = [
    ("f8_e4m3fn", "u8", Dtype::F8_E4M3),
    ("f8_e5m2", "u8", Dtype::F8_E5M2),
    ("f8_e4m3fnuz", "u8", Dtype::F8_E4M3FNUZ),
    ("f8_e5m2fnuz", "u8", Dtype::F8_E5M2FNUZ),
    ("complex64", "f32", Dtype::C64),
    ("complex128", "f64", Dtype::C128),
    ("f8_e8m0", "u8", Dtype::F8_E8M0),
    ("f4_e2m1", "u8", Dtype::F4),
    ("bool", "u8", Dtype::Bool),
];

/// The attributes that the registry requires for ggml blocks.
const BLOCK_KEYS: [&str; 2] = ["elems_per_block", "block_bytes"];

/// Returns the dtype of the field `dtype`. Some files of 1.1 use the long names of 1.0.
pub(super) fn stored_dtype(name: &str) -> Dtype {
    STORED.iter().find(|(known, _)| *known == name).map_or_else(|| dtype_of(name), |(_, dtype)| dtype.clone())
}

/// Returns the dtype of a logical `type`. One of its elements may take several stored elements.
pub(super) fn logical_dtype(name: &str) -> Dtype {
    let logical = LOGICAL.iter().find(|(known, ..)| *known == name);
    logical.map_or_else(|| stored_dtype(name), |(.., dtype)| dtype.clone())
}

/// Returns the dtype of a part of version 2, whose storage dtypes are a closed list (4.1); logical types are not.
pub(super) fn part_dtype(stored: &str, logical: Option<&str>) -> Result<Dtype> {
    let plain = STORED.iter().find(|(name, dtype)| *name == stored && *dtype != Dtype::Bool);
    let (_, plain) = plain.ok_or_else(|| malformed(format!("its `dtype` {stored} is not one of zTensor 2")))?;
    let Some(logical) = logical else { return Ok(plain.clone()) };
    match LOGICAL.iter().find(|(name, ..)| *name == logical) {
        Some((_, needed, dtype)) if *needed == stored => Ok(dtype.clone()),
        Some((_, needed, _)) => Err(malformed(format!("its `type` {logical} is stored as {needed}, not as {stored}"))),
        None => Ok(Dtype::Other(logical.into())),
    }
}

/// Like [`Dtype::byte_length`], but an odd number of F4 elements is padded to a byte (appendix A of version 2).
pub(super) fn byte_length(dtype: &Dtype, elements: u64) -> Result<Option<u64>> {
    match dtype {
        Dtype::F4 => Ok(Some(elements.div_ceil(2))),
        _ => dtype.byte_length(elements),
    }
}

/// Returns the fields `dtype` and `type` of a component. A dtype of unknown size is stored as bytes, with its name as
/// the type. Returns `None` for a dtype that would be read as another dtype.
#[cfg(writes)]
pub(crate) fn spelling(dtype: &Dtype) -> Option<(&'static str, Option<&str>)> {
    let stored = STORED.iter().find(|(_, known)| known == dtype).map(|(name, _)| (*name, None));
    let logical = || LOGICAL.iter().find(|(.., known)| known == dtype).map(|(name, stored, _)| (*stored, Some(*name)));
    let other = || match dtype {
        Dtype::Other(name) if logical_dtype(name) == *dtype => Some(("u8", Some(&**name))),
        _ => None,
    };
    stored.or_else(logical).or_else(other)
}

/// Returns the name of a dtype in zTensor 1.0, if it has one.
#[cfg(writes)]
pub(crate) fn long_name(dtype: &Dtype) -> Option<&'static str> {
    LONG_NAMES.iter().find(|(_, known)| known == dtype).map(|(name, _)| *name)
}

/// Returns the layout of dense tensors of a ggml dtype: the same bytes as in GGUF, with the block size as attributes.
/// The layout is from the registry of version 2 (profiles `gguf.<type>/1`); the list of 1.2 is extensible.
#[cfg(writes)]
pub(crate) fn block_layout(dtype: &Dtype) -> Option<(String, [(&'static str, u64); 2])> {
    let block = ggml_block(dtype)?;
    let [elements, bytes] = BLOCK_KEYS;
    Some((layout_name(dtype), [(elements, block.elements), (bytes, block.bytes)]))
}

/// Returns the dtype of an object in the layout of [`block_layout`], and removes the attributes that the layout
/// implies.
pub(super) fn block_dtype(
    format: &str,
    parts: &Map<String, Value>,
    attributes: &mut Map<String, Value>,
) -> Option<Dtype> {
    let name = format.strip_prefix("gguf.")?.strip_suffix("/1")?;
    let dtype = Dtype::from_name(&name.to_ascii_uppercase());
    let block = ggml_block(&dtype).filter(|_| layout_name(&dtype) == format)?;
    let stated = BLOCK_KEYS.map(|key| attributes.get(key).and_then(Value::as_u64));
    let data = parts.get("data").filter(|data| data.get("type").is_none_or(Value::is_null) && parts.len() == 1)?;
    if stated != [Some(block.elements), Some(block.bytes)] || data.get("dtype") != Some(&"u8".into()) {
        return None;
    }
    for key in BLOCK_KEYS {
        attributes.shift_remove(key);
    }
    Some(dtype)
}

/// Returns the component whose dtype is that of the tensor.
pub(crate) fn main_component(components: &[Component]) -> Option<&Component> {
    let main = components.iter().find(|component| matches!(&*component.role, "data" | "values"));
    main.or_else(|| components.iter().min_by_key(|component| &component.role))
}

fn layout_name(dtype: &Dtype) -> String {
    format!("gguf.{}/1", dtype.name().to_ascii_lowercase())
}

/// Returns the block of a ggml dtype. ggml blocks have at least 32 elements; packed dtypes of SafeTensors 2 or 4.
fn ggml_block(dtype: &Dtype) -> Option<Block> {
    dtype.block().filter(|block| block.elements >= 32)
}
