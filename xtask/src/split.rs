//! Splits the package's module, so that a page loads the code that most models do not need only when a model needs it.
//!
//! Both halves have the functions of the whole module, with the same numbers, so that no code needs to be changed. A
//! function whose code is in the other half is a call through a slot of the table, which both share with the memory and
//! the globals, or, if this half does not call it, a trap. The main half works alone as long as nothing calls into the
//! other one: `weightstream::format::deferred` guards all entries.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    ImportSection, Instruction, Module, RawSection, TableSection,
};
use wasmparser::{CompositeInnerType, FuncType, Parser, Payload, TypeRef, Validator};
use weightstream::format::formats;

use crate::call_graph::CallGraph;

/// The code of deferred formats and of what only they use, such as the expansion of sparse tensors. The names of
/// functions contain these paths.
const DEFERRED: [&str; 8] = [
    "weightstream::format::values::cbor::",
    "weightstream::format::values::msgpack::",
    "weightstream::codec::zstd::",
    "weightstream::loader::dense::<impl weightstream::loader::loaded::Loaded",
    "structured_zstd::",
    "minicbor::",
    "twox_hash::",
    "rmp::",
];

/// The deferred layouts of formats that are not deferred.
pub const DEFERRED_LAYOUTS: [&str; 3] =
    ["weightstream::format::apr::apr1::", "weightstream::format::apr::aprn::", "weightstream::format::apr::wrapper::"];

/// Functions of deferred formats that detection calls, and a check of lengths that other formats use.
const NOT_DEFERRED: [&str; 3] = ["::recognises", "::is_manifest", "weightstream::codec::zstd::check_lengths"];

/// The name of the module whose exports the deferred half imports.
const MAIN: &str = "main";

/// The halves of a module.
pub struct Halves {
    pub main: Vec<u8>,
    pub deferred: Vec<u8>,
}

/// Splits a module that has a name section.
pub fn split(module: &[u8]) -> Result<Halves> {
    let graph = CallGraph::read(module)?;
    let paths: Vec<_> = formats().iter().filter(|format| format.is_deferred()).map(|f| f.name).collect();
    let paths: Vec<_> = paths.iter().map(|name| format!("weightstream::format::{name}::")).collect();
    let is_kept = |name: &str| NOT_DEFERRED.iter().any(|kept| name.contains(kept));
    let is_deferred = |name: &str| {
        let is_part = paths.iter().any(|path| name.contains(path))
            || DEFERRED.iter().chain(&DEFERRED_LAYOUTS).any(|path| name.contains(path));
        is_part && !is_kept(name)
    };
    let whole = Whole::read(module, graph.deferred(is_deferred, is_kept))?;
    let halves = Halves { main: whole.main_half(module)?, deferred: whole.deferred_half(module)? };
    for half in [&halves.main, &halves.deferred] {
        Validator::new().validate_all(half).context("a half of the module is invalid")?;
    }
    Ok(halves)
}

/// The parts of the module that the halves are made of.
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
    /// Whether the code of each function is in the deferred half.
    is_deferred: Vec<bool>,
    /// The slots of functions that the other half calls, from the end of the first table.
    slots: BTreeMap<u32, u64>,
    /// The number of slots of functions in the main half, which come first.
    main_slots: u64,
}

impl<'a> Whole<'a> {
    fn read(module: &'a [u8], deferred: Deferred) -> Result<Self> {
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
            is_deferred: deferred.functions,
            slots: BTreeMap::new(),
            main_slots: deferred.calls_into_main.len() as u64,
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
                _ => {}
            }
        }
        ensure!(whole.is_deferred.len() == whole.functions.len(), "the module has other functions than its call graph");
        let first = whole.tables.first().context("the module has no table")?.initial;
        let crossing = deferred.calls_into_main.iter().chain(&deferred.entries);
        whole.slots = crossing.zip(first..).map(|(function, slot)| (*function, slot)).collect();
        Ok(whole)
    }

    /// The module with calls through the table in place of deferred functions, and exports for the other half.
    fn main_half(&self, module: &[u8]) -> Result<Vec<u8>> {
        let mut half = Module::new();
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            match &payload {
                Payload::FunctionSection(_) => {
                    let mut functions = FunctionSection::new();
                    for number in self.imported..self.functions.len() {
                        functions.function(self.type_in(number, false));
                    }
                    half.section(&functions);
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
                    half.section(&section);
                }
                Payload::ExportSection(exports) => {
                    let mut section = ExportSection::new();
                    RoundtripReencoder.parse_export_section(&mut section, exports.clone())?;
                    for number in 0..self.tables.len() as u32 {
                        section.export(&format!("table{number}"), ExportKind::Table, number);
                    }
                    for number in 0..self.globals.len() as u32 {
                        section.export(&format!("global{number}"), ExportKind::Global, number);
                    }
                    half.section(&section);
                }
                Payload::ElementSection(elements) => {
                    let mut section = ElementSection::new();
                    RoundtripReencoder.parse_element_section(&mut section, elements.clone())?;
                    self.fill_slots(&mut section, false)?;
                    half.section(&section);
                }
                Payload::CodeSectionStart { .. } => {
                    half.section(&self.code(false)?);
                }
                Payload::CustomSection(_) | Payload::CodeSectionEntry(_) => {}
                other => {
                    if let Some((id, range)) = other.as_section() {
                        let data = module.get(range.start as usize..range.end as usize).context("a cut section")?;
                        half.section(&RawSection { id, data });
                    }
                }
            }
        }
        Ok(half.finish())
    }

    /// The deferred functions, which use the memory, tables and globals of the main half.
    fn deferred_half(&self, module: &[u8]) -> Result<Vec<u8>> {
        let mut half = Module::new();
        for payload in Parser::new(0).parse_all(module) {
            if let Payload::TypeSection(types) = payload? {
                let range = types.range();
                let data = module.get(range.start as usize..range.end as usize).context("a cut section")?;
                half.section(&RawSection { id: 1, data });
            }
        }
        let mut imports = ImportSection::new();
        imports.import(MAIN, "memory", EntityType::Memory(RoundtripReencoder.memory_type(self.memory)?));
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
        half.section(&imports);
        let mut functions = FunctionSection::new();
        for number in 0..self.functions.len() {
            functions.function(self.type_in(number, true));
        }
        half.section(&functions);
        let mut elements = ElementSection::new();
        self.fill_slots(&mut elements, true)?;
        half.section(&elements);
        half.section(&self.code(true)?);
        Ok(half.finish())
    }

    /// The type of a function in one half. Functions that trap have the first type, which compresses best.
    fn type_in(&self, number: usize, is_deferred_half: bool) -> u32 {
        let is_here = self.is_deferred.get(number) == Some(&is_deferred_half);
        let is_used = is_here || self.slots.contains_key(&(number as u32));
        self.functions.get(number).copied().filter(|_| is_used).unwrap_or(0)
    }

    /// Puts the functions of one half that the other one calls into their slots.
    fn fill_slots(&self, section: &mut ElementSection, is_deferred_half: bool) -> Result<()> {
        let first = self.tables.first().context("the module has no table")?.initial;
        let start = if is_deferred_half { first + self.main_slots } else { first };
        let here = |number: &&u32| self.is_deferred.get(**number as usize) == Some(&is_deferred_half);
        let mut functions: Vec<u32> = self.slots.keys().filter(here).copied().collect();
        functions.sort_by_key(|number| self.slots.get(number));
        section.active(None, &ConstExpr::i32_const(start as i32), Elements::Functions(functions.into()));
        Ok(())
    }

    fn code(&self, is_deferred_half: bool) -> Result<CodeSection> {
        let mut code = CodeSection::new();
        let first = if is_deferred_half { 0 } else { self.imported };
        for number in first..self.functions.len() {
            if self.is_deferred.get(number) == Some(&is_deferred_half) {
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

/// Which functions are deferred, and the calls between the halves.
pub struct Deferred {
    /// Whether each function is deferred.
    pub functions: Vec<bool>,
    /// The functions of the main half that deferred functions call.
    pub calls_into_main: BTreeSet<u32>,
    /// The deferred functions that the main half calls or references.
    pub entries: BTreeSet<u32>,
}
