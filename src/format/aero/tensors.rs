//! TIDX: the list of tensors and their positions in the shards.

use super::integrity;
use super::toc::{Chunk, Toc};
use crate::digest::from_hex;
use crate::dtype::{Dtype, element_count};
use crate::error::{Error, Result, malformed};
use crate::format::ggml;
use crate::index::{Component, ComponentDigest, Digest, DigestedBytes, Metadata, PageTable, Tensor};
use crate::values::budget::Budget;
use crate::values::described::{integer, integers, text};
use crate::values::msgpack::MessagePack;
use serde_json::Value;
use std::collections::HashMap;
use std::ops::Range;

/// The dtype code of packed tensors, whose block type has no code of its own.
pub(crate) const PACKED: u16 = 0x8000;

const DTYPES: &[(u16, Dtype)] = &[
    (0, Dtype::F16),
    (1, Dtype::F32),
    (2, Dtype::BF16),
    (3, Dtype::F64),
    (4, Dtype::I8),
    (5, Dtype::U8),
    (6, Dtype::I16),
    (7, Dtype::U16),
    (8, Dtype::I32),
    (9, Dtype::U32),
    (10, Dtype::I64),
    (11, Dtype::U64),
    (12, Dtype::Bool),
];

/// An entry of TIDX.
pub(super) struct Entry {
    pub(super) name: String,
    dtype: u16,
    shape: Vec<u64>,
    pub(super) shard_id: u64,
    data_off: u64,
    data_len: u64,
    quant_id: Option<u64>,
    quant_params: Option<Value>,
    hash_b3: Option<String>,
}

/// Calls `each` with every entry of the index, in order. `section` is the byte range of the index.
pub(super) fn list(
    mut index: MessagePack,
    section: &Range<u64>,
    mut each: impl FnMut(Entry, &mut Budget) -> Result<()>,
) -> Result<()> {
    let mut has_tensors = false;
    index.entries(|key, index| {
        if key != "tensors" {
            return index.skip();
        }
        has_tensors = true;
        index.items(|index| {
            let before = index.budget.mark();
            let described = index.value()?;
            let in_section = |error: Error| error.at(section.clone());
            let name = text(&described, "name").map_err(in_section)?;
            let name = name.ok_or_else(|| in_section(malformed("a tensor in the tensor index has no name")))?;
            let entry = parse_entry(name, &described).map_err(|e| in_section(e.in_tensor(name)))?;
            index.budget.give_back(before); // the next line counts what the tensor retains
            index.budget.tensor(name, entry.shape.len())?;
            each(entry, index.budget)
        })
    })?;
    if has_tensors { Ok(()) } else { Err(malformed("the tensor index has no `tensors`").at(section.clone())) }
}

fn parse_entry(name: &str, described: &Value) -> Result<Entry> {
    let stated = |key: &str| integer(described, key)?.ok_or_else(|| malformed(format!("it has no `{key}`")));
    let dtype = stated("dtype")?;
    Ok(Entry {
        name: name.to_owned(),
        dtype: u16::try_from(dtype).map_err(|_| malformed(format!("its `dtype` is {dtype}")))?,
        shape: integers(described, "shape")?,
        shard_id: stated("shard_id")?,
        data_off: stated("data_off")?,
        data_len: stated("data_len")?,
        quant_id: integer(described, "quant_id")?,
        quant_params: described.get("quant_params").filter(|params| !params.is_null()).cloned(),
        hash_b3: text(described, "hash_b3")?.map(str::to_owned),
    })
}

/// What entries refer to: the shards of the file, and the quantization descriptors in the metadata.
pub(super) struct Context<'t> {
    shards: HashMap<&'t str, (&'t Chunk<'t>, Option<PageTable>)>,
    descriptors: HashMap<u64, &'t Value>,
    /// Shapes of models from GGUF have the innermost dimension first.
    is_reversed: bool,
}

impl<'t> Context<'t> {
    pub(super) fn new(toc: &'t Toc, metadata: &'t Metadata) -> Self {
        let tables = integrity::page_tables(toc);
        let shard = |chunk: &'t Chunk| (chunk.name, (chunk, integrity::page_table(&tables, chunk)));
        let listed = metadata.get("quant_descriptors").and_then(Value::as_array).into_iter().flatten();
        let mut descriptors = HashMap::new();
        for descriptor in listed {
            if let Some(id) = descriptor.get("id").and_then(Value::as_u64) {
                descriptors.entry(id).or_insert(descriptor);
            }
        }
        Context {
            shards: toc.all(*b"WTSH").map(shard).collect(),
            descriptors,
            is_reversed: metadata.get("source_format").and_then(Value::as_str) == Some("gguf"),
        }
    }

    /// Returns the tensor that an entry describes.
    pub(super) fn layout_tensor(&self, entry: Entry, budget: &mut Budget) -> Result<Tensor> {
        let name = format!("weights.shard{}", entry.shard_id);
        let shard = self.shards.get(name.as_str()).ok_or_else(|| malformed(format!("there is no chunk `{name}`")));
        let data = shard.and_then(|(shard, pages)| data(&entry, shard, pages.clone()));
        let tensor = data.and_then(|data| self.tensor(&entry, data, budget));
        tensor.map_err(|e| e.in_tensor(&entry.name))
    }

    fn tensor(&self, entry: &Entry, mut data: Component, budget: &mut Budget) -> Result<Tensor> {
        let mut shape = entry.shape.clone();
        if self.is_reversed {
            shape.reverse();
        }
        let expected = data.dtype.byte_length(element_count(&shape)?);
        if entry.dtype == PACKED {
            // The ggml type is only a hint, and the length decides: the GGUF converter includes the alignment padding
            // of the GGUF file.
            if expected != Ok(Some(entry.data_len)) {
                data.dtype = packed();
            }
        } else if let Some(expected) = expected?.filter(|expected| *expected != entry.data_len) {
            let what = format!("its {} bytes do not match the {expected} of {} {shape:?}", entry.data_len, data.dtype);
            return Err(malformed(what).at(data.range));
        }
        let attributes = self.attributes(entry, budget)?;
        Ok(Tensor { attributes, ..Tensor::dense(entry.name.clone(), data.dtype.clone(), shape, data) })
    }

    /// Returns the quantization attributes of a tensor. `quant_id` refers to a descriptor in the JSON metadata; several
    /// tensors may share one descriptor.
    fn attributes(&self, entry: &Entry, budget: &mut Budget) -> Result<Metadata> {
        let mut attributes = Metadata::new();
        let mut add = |key: &str, value: &Value| {
            budget.entry(attributes.len(), key.len())?;
            budget.copy(value)?;
            attributes.insert(key.to_owned(), value.clone());
            Ok::<_, Error>(())
        };
        if let Some(id) = entry.quant_id {
            add("quant_id", &id.into())?;
            self.descriptors.get(&id).map(|descriptor| add("quant_descriptor", descriptor)).transpose()?;
        }
        entry.quant_params.as_ref().map(|params| add("quant_params", params)).transpose()?;
        Ok(attributes)
    }
}

fn data(entry: &Entry, shard: &Chunk, pages: Option<PageTable>) -> Result<Component> {
    if shard.is_compressed() {
        let what = format!("its chunk `{}` is compressed, which the format forbids for weights", shard.name);
        return Err(malformed(what).at(shard.range.clone()));
    }
    let Entry { data_off, data_len, .. } = *entry;
    let end = data_off.checked_add(data_len).filter(|end| *end <= shard.range.end - shard.range.start);
    let end = end.ok_or_else(|| {
        let what = format!("its bytes, {data_len} from {data_off}, are not inside its chunk `{}`", shard.name);
        malformed(what).at(shard.range.clone())
    })?;
    let mut data = Component::raw(dtype(entry), shard.range.start + data_off..shard.range.start + end);
    data.pages = pages.map(Box::new);
    if let Some(hex) = entry.hash_b3.as_deref().filter(|hex| !hex.is_empty()) {
        let digest = from_hex(hex).ok_or_else(|| malformed(format!("its `hash_b3` is `{hex}`, not 64 digits")))?;
        data.digest = Some(ComponentDigest { digest: Digest::blake3(digest), over: DigestedBytes::Stored });
    }
    Ok(data)
}

fn dtype(entry: &Entry) -> Dtype {
    if entry.dtype == PACKED {
        let Some(params) = &entry.quant_params else { return packed() };
        let number = params.get("ggml_type").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        return number.and_then(ggml::dtype_of).cloned().unwrap_or_else(packed);
    }
    let known = DTYPES.iter().find(|(code, _)| *code == entry.dtype);
    known.map_or_else(|| Dtype::Other(format!("AERO_{}", entry.dtype).into()), |(_, dtype)| dtype.clone())
}

/// Returns the code of a dtype, or `None` for the dtypes of packed tensors.
#[cfg(writes)]
pub(crate) fn dtype_code(dtype: &Dtype) -> Option<u16> {
    let known = DTYPES.iter().find(|(_, known)| known == dtype).map(|(code, _)| *code);
    let unknown = || dtype.name().strip_prefix("AERO_")?.parse().ok(); // the name that `dtype` makes
    known.or_else(unknown)
}

/// Returns the ggml type number of a dtype that AERO stores only in packed tensors.
#[cfg(writes)]
pub(crate) fn ggml_type(dtype: &Dtype) -> Option<u32> {
    let is_packed = dtype_code(dtype).is_none();
    ggml::number_of(dtype).filter(|_| is_packed)
}

fn packed() -> Dtype {
    Dtype::Other("packed".into())
}
