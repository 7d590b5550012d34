//! Splits the package's module, so that a page loads the code that most models do not need only when it needs it.
//!
//! All parts have the functions of the whole module, with the same numbers, so that no code needs to be changed. A
//! function whose code is in another part is a call through a slot of the table, which all parts share with the memory
//! and the globals, or, if this part does not call it, a trap. The main part works alone as long as nothing calls into
//! the other ones: `weightstream::browser::deferred` guards all entries. A part also has the constants that only its
//! functions use, and writes them to the memory when it is instantiated.
//!
//! The module is split before it is optimised, so that no function becomes a part of one in another part.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, ElementSection, Elements, EntityType, ExportKind, ExportSection, Function,
    FunctionSection, ImportSection, Instruction, Module, RawSection, TableSection,
};
use wasmparser::{
    CompositeInnerType, DataKind, ElementItems, ElementKind, FuncType, Operator, Parser, Payload, TypeRef, Validator,
};

use crate::call_graph::CallGraph;
use crate::parts::{PARTS, base_of, part_of_function};
use crate::uses::Uses;

/// The name of the module whose exports the other parts import.
const MAIN: &str = "main";

/// Constants of a part that are this close are written together, with those between them: each write takes 10 bytes.
const MAX_GAP: u32 = 12;

/// A module that is split.
pub struct Split {
    /// The main part and then [`PARTS`].
    pub parts: Vec<Vec<u8>>,
    /// The functions that code of another part calls or has the addresses of, after that code.
    pub entries: BTreeSet<(String, String)>,
}

/// Splits a module that has a name section, which wasm-bindgen made of `linked`.
pub fn split(linked: &[u8], module: &[u8]) -> Result<Split> {
    let (mut graph, uses) = (CallGraph::read(module)?, Uses::read(linked)?);
    graph.add_uses(&uses);
    let mut division = graph.division(part_of_function(), base_of);
    let entries = graph.entries(&division, base_of);
    let homes_of_data = division.homes.split_off(division.homes.len() - uses.symbols.len());
    let whole = Whole::read(module, division, uses.only_in_parts(&homes_of_data))?;
    let others = (1..=PARTS.len()).map(|part| whole.other_part(module, part));
    let parts: Vec<_> = [whole.main_part(module)].into_iter().chain(others).collect::<Result<_>>()?;
    for part in &parts {
        Validator::new().validate_all(part).context("a part of the module is invalid")?;
    }
    Ok(Split { parts, entries })
}

/// What the parts are made of.
struct Whole<'a> {
    types: Vec<FuncType>,
    /// The type of each function, imported ones first.
    functions: Vec<u32>,
    imported: usize,
    /// The code of each function that is not imported.
    bodies: Vec<&'a [u8]>,
    tables: Vec<wasmparser::TableType>,
    globals: Vec<wasmparser::GlobalType>,
    memory: wasmparser::MemoryType,
    /// The part that has the code of each function.
    homes: Vec<usize>,
    /// The slots of functions that other parts call, from the end of the first table, by part.
    slots: BTreeMap<u32, u64>,
    /// The first slot of each part.
    first_slots: Vec<u64>,
    /// The functions in the first table, by their place.
    in_table: BTreeMap<u64, u32>,
    /// The address of each data segment, and its bytes.
    data: Vec<(u32, &'a [u8])>,
    /// The addresses of constants that only one of the other parts uses, and the number of the part.
    moved: Vec<(Range<u32>, usize)>,
    /// The name under which the main part exports the memory to the other parts. It contains the digest of the module,
    /// so that parts of different builds, from a cache, cannot be combined.
    memory_export: String,
}

impl<'a> Whole<'a> {
    fn read(module: &'a [u8], division: Division, moved: Vec<(Range<u32>, usize)>) -> Result<Self> {
        let mut whole = Whole {
            types: Vec::new(),
            functions: Vec::new(),
            imported: 0,
            bodies: Vec::new(),
            tables: Vec::new(),
            globals: Vec::new(),
            memory: wasmparser::MemoryType {
                memory64: false,
                shared: false,
                initial: 0,
                maximum: None,
                page_size_log2: None,
            },
            homes: division.homes,
            slots: BTreeMap::new(),
            first_slots: Vec::new(),
            in_table: BTreeMap::new(),
            data: Vec::new(),
            moved,
            memory_export: format!("memory_{:.8}", data_encoding::HEXLOWER.encode(&Sha256::digest(module))),
        };
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(types) => {
                    for group in types {
                        for ty in group?.into_types() {
                            let CompositeInnerType::Func(ty) = ty.composite_type.inner else {
                                anyhow::bail!("a type is not that of a function");
                            };
                            whole.types.push(ty);
                        }
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let TypeRef::Func(ty) = import?.ty else { anyhow::bail!("an import is not a function") };
                        whole.functions.push(ty);
                    }
                    whole.imported = whole.functions.len();
                }
                Payload::FunctionSection(functions) => {
                    for ty in functions {
                        whole.functions.push(ty?);
                    }
                }
                Payload::TableSection(tables) => {
                    for table in tables {
                        whole.tables.push(table?.ty);
                    }
                }
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        whole.memory = memory?;
                    }
                }
                Payload::GlobalSection(globals) => {
                    for global in globals {
                        whole.globals.push(global?.ty);
                    }
                }
                Payload::CodeSectionEntry(body) => whole.bodies.push(body.as_bytes()),
                Payload::ElementSection(elements) => {
                    for element in elements {
                        let element = element?;
                        let ElementKind::Active { table_index: None | Some(0), offset_expr } = element.kind else {
                            continue;
                        };
                        let start = constant(&offset_expr)?;
                        let ElementItems::Functions(numbers) = element.items else {
                            anyhow::bail!("the table has expressions");
                        };
                        for (at, number) in (u64::from(start)..).zip(numbers) {
                            whole.in_table.insert(at, number?);
                        }
                    }
                }
                Payload::DataSection(data) => {
                    for segment in data {
                        let segment = segment?;
                        let DataKind::Active { memory_index: 0, offset_expr } = segment.kind else {
                            anyhow::bail!("a data segment is not active");
                        };
                        whole.data.push((constant(&offset_expr)?, segment.data));
                    }
                }
                _ => {}
            }
        }
        ensure!(whole.homes.len() == whole.functions.len(), "the module has other functions than its call graph");
        let mut next = whole.tables.first().context("the module has no table")?.initial;
        for functions in division.crossing {
            whole.first_slots.push(next);
            whole.slots.extend(functions.into_iter().zip(next..));
            next = whole.slots.values().max().map_or(next, |last| next.max(last + 1));
        }
        Ok(whole)
    }

    /// The module with calls through the table in place of functions of other parts, and exports for these.
    fn main_part(&self, module: &[u8]) -> Result<Vec<u8>> {
        let mut built = Module::new();
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            match &payload {
                Payload::FunctionSection(_) => {
                    let mut functions = FunctionSection::new();
                    for number in self.imported..self.functions.len() {
                        functions.function(self.type_in(number, 0));
                    }
                    built.section(&functions);
                }
                Payload::TableSection(tables) => {
                    let mut section = TableSection::new();
                    for (number, table) in tables.clone().into_iter().enumerate() {
                        let mut ty = RoundtripReencoder.table_type(table?.ty)?;
                        if number == 0 {
                            ty.minimum += self.slots.len() as u64;
                            ty.maximum = ty.maximum.map(|maximum| maximum + self.slots.len() as u64);
                        }
                        section.table(ty);
                    }
                    built.section(&section);
                }
                Payload::ExportSection(exports) => {
                    let mut section = ExportSection::new();
                    RoundtripReencoder.parse_export_section(&mut section, exports.clone())?;
                    section.export(&self.memory_export, ExportKind::Memory, 0);
                    for number in 0..self.tables.len() as u32 {
                        section.export(&format!("table{number}"), ExportKind::Table, number);
                    }
                    for number in 0..self.globals.len() as u32 {
                        section.export(&format!("global{number}"), ExportKind::Global, number);
                    }
                    built.section(&section);
                }
                Payload::ElementSection(elements) => {
                    let mut section = ElementSection::new();
                    RoundtripReencoder.parse_element_section(&mut section, elements.clone())?;
                    self.fill_slots(&mut section, 0)?;
                    built.section(&section);
                }
                Payload::CodeSectionStart { .. } => {
                    built.section(&self.code(0)?);
                }
                Payload::DataSection(_) => {
                    built.section(&self.data_of_main_part());
                }
                Payload::CustomSection(_) | Payload::CodeSectionEntry(_) => {}
                other => {
                    if let Some((id, range)) = other.as_section() {
                        let data = module.get(range.start as usize..range.end as usize).context("a cut section")?;
                        built.section(&RawSection { id, data });
                    }
                }
            }
        }
        Ok(built.finish())
    }

    /// The functions of another part, which use the memory, tables and globals of the main part.
    fn other_part(&self, module: &[u8], part: usize) -> Result<Vec<u8>> {
        let mut built = Module::new();
        for payload in Parser::new(0).parse_all(module) {
            if let Payload::TypeSection(types) = payload? {
                let range = types.range();
                let data = module.get(range.start as usize..range.end as usize).context("a cut section")?;
                built.section(&RawSection { id: 1, data });
            }
        }
        let mut imports = ImportSection::new();
        imports.import(MAIN, &self.memory_export, EntityType::Memory(RoundtripReencoder.memory_type(self.memory)?));
        for (number, table) in self.tables.iter().enumerate() {
            let mut ty = RoundtripReencoder.table_type(*table)?;
            if number == 0 {
                ty.maximum = ty.maximum.map(|maximum| maximum + self.slots.len() as u64);
            }
            imports.import(MAIN, &format!("table{number}"), EntityType::Table(ty));
        }
        for (number, global) in self.globals.iter().enumerate() {
            let ty = RoundtripReencoder.global_type(*global)?;
            imports.import(MAIN, &format!("global{number}"), EntityType::Global(ty));
        }
        built.section(&imports);
        let mut functions = FunctionSection::new();
        for number in 0..self.functions.len() {
            functions.function(self.type_in(number, part));
        }
        built.section(&functions);
        let mut elements = ElementSection::new();
        self.fill_slots(&mut elements, part)?;
        built.section(&elements);
        built.section(&self.code(part)?);
        built.section(&self.data_of(part));
        Ok(built.finish())
    }

    /// The type of a function in one part. Functions that trap have the first type, which compresses best.
    fn type_in(&self, number: usize, part: usize) -> u32 {
        let is_used = self.homes.get(number) == Some(&part) || self.slots.contains_key(&(number as u32));
        self.functions.get(number).copied().filter(|_| is_used).unwrap_or(0)
    }

    /// Puts the functions of one part that other ones call into their slots.
    fn fill_slots(&self, section: &mut ElementSection, part: usize) -> Result<()> {
        let start = *self.first_slots.get(part).context("a part without slots")?;
        let here = |number: &&u32| self.homes.get(**number as usize) == Some(&part);
        let mut functions: Vec<u32> = self.slots.keys().filter(here).copied().collect();
        functions.sort_by_key(|number| self.slots.get(number));
        section.active(None, &ConstExpr::i32_const(start as i32), Elements::Functions(functions.into()));
        if part > 0 {
            for (place, number) in self.in_table.iter().filter(|(_, number)| here(number)) {
                let functions = Elements::Functions(vec![*number].into());
                section.active(None, &ConstExpr::i32_const(*place as i32), functions);
            }
        }
        Ok(())
    }

    /// The data with zeros in place of what other parts have, which wasm-opt then removes.
    fn data_of_main_part(&self) -> DataSection {
        let mut section = DataSection::new();
        for (start, bytes) in &self.data {
            let mut bytes = bytes.to_vec();
            for (range, _) in &self.moved {
                let from = range.start.checked_sub(*start).map(|from| from as usize);
                let moved = from.and_then(|from| bytes.get_mut(from..from + range.len()));
                moved.into_iter().for_each(|bytes| bytes.fill(0));
            }
            section.active(0, &ConstExpr::i32_const(*start as i32), bytes);
        }
        section
    }

    /// The constants that only this part uses.
    fn data_of(&self, part: usize) -> DataSection {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for (range, _) in self.moved.iter().filter(|(_, of)| *of == part) {
            match ranges.last_mut().filter(|last| range.start - last.end <= MAX_GAP) {
                Some(last) => last.end = range.end,
                None => ranges.push(range.clone()),
            }
        }
        let mut section = DataSection::new();
        for range in ranges {
            let bytes = self.data.iter().find_map(|(start, bytes)| {
                let from = range.start.checked_sub(*start)? as usize;
                bytes.get(from..from + range.len())
            });
            let bytes = bytes.unwrap_or_default().iter().copied();
            section.active(0, &ConstExpr::i32_const(range.start as i32), bytes);
        }
        section
    }

    fn code(&self, part: usize) -> Result<CodeSection> {
        let mut code = CodeSection::new();
        let first = if part == 0 { self.imported } else { 0 };
        for number in first..self.functions.len() {
            if self.homes.get(number) == Some(&part) && number >= self.imported {
                let body = number.checked_sub(self.imported).and_then(|at| self.bodies.get(at));
                code.raw(body.context("a function without code")?);
            } else if let Some(slot) = self.slots.get(&(number as u32)) {
                code.function(&self.call_through(number, *slot)?);
            } else {
                let mut trap = Function::new([]);
                trap.instruction(&Instruction::Unreachable).instruction(&Instruction::End);
                code.function(&trap);
            }
        }
        Ok(code)
    }

    /// A function that calls the one in a slot with its own parameters.
    fn call_through(&self, number: usize, slot: u64) -> Result<Function> {
        let type_index = *self.functions.get(number).context("a function without a type")?;
        let ty = self.types.get(type_index as usize).context("a type that does not exist")?;
        let mut function = Function::new([]);
        for parameter in 0..ty.params().len() as u32 {
            function.instruction(&Instruction::LocalGet(parameter));
        }
        function.instruction(&Instruction::I32Const(slot as i32));
        function.instruction(&Instruction::CallIndirect { type_index, table_index: 0 });
        function.instruction(&Instruction::End);
        Ok(function)
    }
}

fn constant(expression: &wasmparser::ConstExpr) -> Result<u32> {
    match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(value as u32),
        _ => anyhow::bail!("an address is not a constant"),
    }
}

/// Which part has the code of each function, and the calls between the parts.
pub struct Division {
    /// The part that has the code of each function.
    pub homes: Vec<usize>,
    /// For each part, its functions that other parts call by name, or JavaScript.
    pub crossing: Vec<BTreeSet<u32>>,
}
