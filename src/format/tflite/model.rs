//! Collects the tensors of one model that have bytes: first those of all subgraphs, then their buffers.
//!
//! The tables of buffers are between their bytes: the parser stops at most of them, so it keeps what it has read.

use super::dtypes::{STRING, byte_length, dtype_of};
use super::flatbuffer::{FlatBuffer, Table};
use super::names::Names;
use super::quantization::{Listed, parameters};
use crate::dtype::{Dtype, MAX_DIMS};
use crate::error::{Error, ErrorKind, Result, malformed};
use crate::index::{Component, Metadata, Tensor};
use crate::sorting::sort;
use crate::values::budget::Budget;
use crate::window::{Stop, Window};
use std::ops::Range;

/// The maximum number of tensors in all subgraphs, of which most have no bytes. The largest graphs have some ten
/// thousand. The limit stops vectors of subgraphs that are all the same one.
const MAX_TENSORS: u64 = 1 << 20;

/// The maximum length of a name.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// The maximum number of subgraphs: language models have one for each signature.
const MAX_SUBGRAPHS: u64 = 4096;

/// A model, as far as it was read.
#[derive(Default)]
pub(super) struct Model {
    /// What precedes the names of tensors.
    prefix: String,
    range: Range<u64>,
    /// The next tensor: its subgraph, and its position in it.
    next: (u64, u64),
    tensors: Vec<Described>,
    /// The order in which buffers are read: that of their tables.
    order: Vec<(u64, usize)>,
    has_order: bool,
    /// The number of buffers that were read.
    read: usize,
    names: Names,
}

/// What all models of a file share.
pub(super) struct Shared {
    /// The number of tensors that were read.
    pub(super) tensor_count: u64,
    pub(super) budget: Budget,
    pub(super) listed: Listed,
    pub(super) not_listed: NotListed,
}

/// The numbers of tensors that are not listed.
#[derive(Default)]
pub(super) struct NotListed {
    pub(super) texts: u64,
    pub(super) sparse: u64,
    pub(super) external: u64,
}

/// A tensor whose buffer is not known yet.
struct Described {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    attributes: Metadata,
    buffer: u64,
    /// The bytes of the buffer; `None` if it has none.
    data: Option<Range<u64>>,
}

impl Model {
    pub(super) fn new((prefix, range): (String, Range<u64>)) -> Self {
        Model { prefix, range, ..Model::default() }
    }

    /// Reads the rest of the model. If bytes are missing, the next call goes on with the same tensor or buffer.
    ///
    /// # Errors
    /// [`Stop::Need`] while bytes are missing; `FORMAT`, `LIMIT` and `UNSUPPORTED` for an invalid model.
    pub(super) fn read(&mut self, window: &Window, shared: &mut Shared) -> Result<(), Stop> {
        let root = FlatBuffer::new(window, &self.range).root()?;
        let subgraphs = root.tables(2)?;
        if subgraphs.count() > MAX_SUBGRAPHS {
            let what = format!("the model has {} subgraphs; the limit is {MAX_SUBGRAPHS}", subgraphs.count());
            return Err(Error::new(ErrorKind::Limit, what).into());
        }
        while let Some(subgraph) = subgraphs.get(self.next.0)? {
            let tensors = subgraph.tables(0)?;
            while let Some(tensor) = tensors.get(self.next.1)? {
                self.read_tensor(&tensor, shared)?;
                self.next.1 += 1;
            }
            self.next = (self.next.0 + 1, 0);
        }
        self.read_buffers(&root)
    }

    /// Reads a tensor. Changes nothing if bytes are missing.
    fn read_tensor(&mut self, table: &Table, shared: &mut Shared) -> Result<(), Stop> {
        let count = shared.tensor_count + 1;
        if count > MAX_TENSORS {
            let what = format!("the subgraphs have more than {MAX_TENSORS} tensors");
            return Err(Error::new(ErrorKind::Limit, what).into());
        }
        let (buffer, external) = (u64::from(table.u32(2)?), table.u32(10)?);
        let (kind, is_sparse) = (table.u8(1)?, table.table(6)?.is_some());
        let name = table.text(3, MAX_NAME_BYTES)?.unwrap_or_default();
        let not_listed = &mut shared.not_listed;
        match (buffer, kind, is_sparse) {
            (0, ..) => not_listed.external += u64::from(external > 0),
            (_, STRING, _) => not_listed.texts += 1,
            (_, _, true) => not_listed.sparse += 1,
            _ => {
                let before = (shared.budget.mark(), shared.listed);
                let described = self.describe(table, name, kind, buffer, shared);
                let described = described.inspect_err(|_| {
                    shared.budget.give_back(before.0);
                    shared.listed = before.1;
                })?;
                let (subgraph, tensor) = self.next;
                let name = self.names.unique(&self.prefix, name, subgraph, tensor);
                self.tensors.push(Described { name, ..described });
            }
        }
        shared.tensor_count = count;
        Ok(())
    }

    fn describe(
        &self,
        table: &Table,
        name: &str,
        kind: u8,
        buffer: u64,
        shared: &mut Shared,
    ) -> Result<Described, Stop> {
        let place = |error: Error| error.in_tensor(name);
        let shape = shape_of(table).map_err(|stop| in_tensor(stop, name))?;
        let dtype = dtype_of(kind).map_err(place)?;
        shared.budget.tensor(name, shape.len())?;
        shared.budget.bytes(name.len() as u64 + self.prefix.len() as u64, 0)?; // the set of names has it, too
        let mut attributes = Metadata::new();
        if let Some(quantization) = table.table(4)?
            && let Some(stated) = parameters(&quantization, &mut shared.listed, &mut shared.budget)?
        {
            attributes.insert("quantization".to_owned(), stated);
        }
        Ok(Described { name: String::new(), dtype, shape, attributes, buffer, data: None })
    }

    /// Finds the bytes of the tensors.
    fn read_buffers(&mut self, root: &Table) -> Result<(), Stop> {
        let buffers = root.tables(4)?;
        if !self.has_order {
            let mut order = Vec::with_capacity(self.tensors.len());
            for (at, tensor) in self.tensors.iter().enumerate() {
                let offset = buffers.offset(tensor.buffer)?.ok_or_else(|| {
                    let what = format!("it has buffer {}, but the model has {}", tensor.buffer, buffers.count());
                    malformed(what).in_tensor(&tensor.name)
                })?;
                order.push((offset, at));
            }
            sort(&mut order, |(offset, at)| (*offset, *at as u64, 0));
            (self.order, self.has_order) = (order, true);
        }
        while let Some(&(offset, at)) = self.order.get(self.read) {
            let data = self.data_of(&root.flat().table_at(offset)?)?;
            if let Some(tensor) = self.tensors.get_mut(at) {
                tensor.data = data;
            }
            self.read += 1;
        }
        Ok(())
    }

    /// The bytes of a Buffer.
    fn data_of(&self, buffer: &Table) -> Result<Option<Range<u64>>, Stop> {
        if let Some(data) = buffer.vector(0, 1)?.filter(|data| data.count > 0) {
            return Ok(Some(data.range()));
        }
        let (offset, size) = (buffer.u64(1)?, buffer.u64(2)?);
        // Writers reserve the fields with 1 in all models.
        if offset <= 1 || size == 0 {
            return Ok(None);
        }
        let start = self.range.start.checked_add(offset);
        let range = start.and_then(|start| Some(start..start.checked_add(size)?));
        let range = range.filter(|range| range.end <= self.range.end);
        let what = || malformed(format!("a buffer of {size} bytes at {offset} is not in the model"));
        range.map(Some).ok_or_else(|| what().into())
    }

    /// The tensors that have bytes.
    ///
    /// # Errors
    /// `FORMAT` if a buffer does not have the length of its tensor.
    pub(super) fn into_tensors(self) -> Result<Vec<Tensor>> {
        let with_data = self.tensors.into_iter().filter_map(|tensor| Some((tensor.data.clone()?, tensor)));
        with_data
            .map(|(data, Described { name, dtype, shape, attributes, .. })| {
                let (expected, stored) = (byte_length(&dtype, &shape), data.end - data.start);
                if expected.map_err(|error| error.in_tensor(&name))? != stored {
                    let what = format!("its {stored} bytes do not match {dtype} {shape:?}");
                    return Err(malformed(what).at(data).in_tensor(&name));
                }
                let data = Component::raw(dtype.clone(), data);
                Ok(Tensor { attributes, ..Tensor::dense(name, dtype, shape, data) })
            })
            .collect()
    }
}

fn shape_of(table: &Table) -> Result<Vec<u64>, Stop> {
    let Some(vector) = table.vector(0, 4)? else { return Ok(Vec::new()) };
    if vector.count > MAX_DIMS as u64 {
        let what = format!("it has {} dimensions; the limit is {MAX_DIMS}", vector.count);
        return Err(Error::new(ErrorKind::Limit, what).at(vector.range()).into());
    }
    let (dims, _) = table.flat().bytes(vector.range())?.as_chunks();
    let shape = dims.iter().map(|dim| u64::try_from(i32::from_le_bytes(*dim)).ok()).collect::<Option<_>>();
    shape.ok_or_else(|| malformed("its shape has a negative size").at(vector.range()).into())
}

fn in_tensor(stop: Stop, name: &str) -> Stop {
    match stop {
        Stop::Failed(error) => error.in_tensor(name).into(),
        other => other,
    }
}
