//! What the functions and the constants of a module refer to, as its relocations state.
//!
//! The linker writes relocations with `--emit-relocs`: for each place in the code and in the data that has an address,
//! the symbol that it refers to. Addresses alone would not tell, because compilers also compute addresses of arrays
//! from addresses outside of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use rustc_demangle::demangle;
use wasm_encoder::{Module, RawSection};
use wasmparser::{
    DataKind, KnownCustom, Linking, Name, Operator, Parser, Payload, RelocSectionReader, RelocationType, SymbolFlags,
    SymbolInfo, TypeRef,
};

/// The flag of the linker that writes what [`Uses`] reads.
pub const LINKER_FLAG: &str = "link-arg=--emit-relocs";

/// The name of the segment whose bytes never change.
const CONSTANTS: &str = ".rodata";

/// The number of the section with the code.
const CODE_SECTION: u8 = 10;

/// The addresses that a module has.
#[derive(Default)]
pub struct Uses {
    /// The symbols of data.
    pub symbols: Vec<Symbol>,
    /// What each function refers to, by the name of the function. Functions may have the same name.
    pub of_functions: BTreeMap<String, Used>,
    /// What something else refers to.
    pub of_others: Used,
    /// The addresses of the bytes that never change.
    constants: Range<u32>,
}

/// A named range of addresses. Symbols may overlap.
pub struct Symbol {
    addresses: Range<u32>,
    pub uses: Used,
}

/// Symbols of data and functions whose addresses are in one place.
#[derive(Default)]
pub struct Used {
    /// The numbers of the symbols.
    pub symbols: BTreeSet<usize>,
    /// The names of the functions, which are in the table.
    pub functions: BTreeSet<String>,
}

impl Uses {
    pub fn read(linked: &[u8]) -> Result<Self> {
        let places = Places::read(linked)?;
        ensure!(!places.relocations.is_empty(), "the module has no relocations: link it with `-C {LINKER_FLAG}`");
        let mut uses = Uses { constants: places.constants()?, ..Self::default() };
        let mut numbers = Vec::new();
        for target in &places.symbols {
            numbers.push(uses.symbols.len());
            if let Target::Data(addresses) = target {
                uses.symbols.push(Symbol { addresses: addresses.clone(), uses: Used::default() });
            }
        }
        for relocation in &places.relocations {
            let number = *numbers.get(relocation.symbol).context("a relocation without a symbol")?;
            match places.symbols.get(relocation.symbol) {
                Some(Target::Data(addresses)) => {
                    let address = addresses.start.wrapping_add(relocation.addend as u32);
                    ensure!(relocation.value(linked)? == address, "the address at {} is another one", relocation.at);
                    uses.add(places.user_at(relocation.at), |used| _ = used.symbols.insert(number));
                }
                Some(Target::Function(index)) => {
                    let name = places.name(*index).unwrap_or_default();
                    uses.add(places.user_at(relocation.at), |used| _ = used.functions.insert(name.clone()));
                }
                _ => {}
            }
        }
        Ok(uses)
    }

    /// Calls `insert` for what has an address in this place.
    fn add(&mut self, user: Option<User>, insert: impl Fn(&mut Used)) {
        match user {
            Some(User::Function(name)) => insert(self.of_functions.entry(name).or_default()),
            Some(User::Data(address)) => {
                let mut owners = self.symbols.iter_mut().filter(|it| it.addresses.contains(&address)).peekable();
                if owners.peek().is_none() {
                    insert(&mut self.of_others);
                }
                owners.for_each(|owner| insert(&mut owner.uses));
            }
            None => insert(&mut self.of_others),
        }
    }

    /// The ranges of constants that only one part has, which is not the main one, with the number of the part. `homes`
    /// are the parts of the symbols.
    pub fn only_in_parts(&self, homes: &[usize]) -> Vec<(Range<u32>, usize)> {
        let mut bytes: Vec<Option<usize>> = vec![None; self.constants.len()];
        for (symbol, home) in self.symbols.iter().zip(homes) {
            for address in symbol.addresses.clone().filter(|address| self.constants.contains(address)) {
                let byte = bytes.get_mut((address - self.constants.start) as usize);
                byte.into_iter()
                    .for_each(|byte| *byte = Some(if byte.is_none_or(|it| it == *home) { *home } else { 0 }));
            }
        }
        let mut ranges: Vec<(Range<u32>, usize)> = Vec::new();
        for (address, home) in self.constants.clone().zip(bytes) {
            let Some(part @ 1..) = home else { continue };
            match ranges.last_mut().filter(|(range, of)| range.end == address && *of == part) {
                Some((range, _)) => range.end += 1,
                None => ranges.push((address..address + 1, part)),
            }
        }
        ranges
    }
}

/// The module without its relocations, which other tools do not keep up to date.
pub fn without_relocations(linked: &[u8]) -> Result<Vec<u8>> {
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(linked) {
        let payload = payload?;
        let is_removed = |name: &str| name == "linking" || name.starts_with("reloc.");
        if matches!(&payload, Payload::CustomSection(custom) if is_removed(custom.name())) {
            continue;
        }
        if let Some((id, range)) = payload.as_section() {
            let data = linked.get(range.start as usize..range.end as usize).context("a cut section")?;
            module.section(&RawSection { id, data });
        }
    }
    Ok(module.finish())
}

/// The name of a function without the number by which wasm-bindgen tells functions of one name apart.
pub fn shared_name(name: &str) -> &str {
    let number = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    number.filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit())).map_or(name, |(name, _)| name)
}

/// What uses an address.
enum User {
    Function(String),
    /// The data at this address.
    Data(u32),
}

/// Where things are in the file of a module.
#[derive(Default)]
struct Places {
    imported: usize,
    /// The mangled names of the functions.
    names: BTreeMap<usize, String>,
    /// The code of each function that is not imported.
    bodies: Vec<Range<u64>>,
    /// The address of each data segment, its name, and its bytes in the file.
    segments: Vec<(u32, String, Range<u64>)>,
    symbols: Vec<Target>,
    relocations: Vec<Relocation>,
}

/// What a symbol is.
enum Target {
    /// Data with these addresses.
    Data(Range<u32>),
    /// The function of this number.
    Function(usize),
    Other,
}

/// A place that has the address of a symbol.
struct Relocation {
    at: u64,
    ty: RelocationType,
    symbol: usize,
    addend: i64,
}

impl Places {
    fn read(linked: &[u8]) -> Result<Self> {
        let mut places = Places::default();
        let (mut code_start, mut data_start) = (0, 0);
        for payload in Parser::new(0).parse_all(linked) {
            let payload = payload?;
            if let Some((CODE_SECTION, range)) = payload.as_section() {
                code_start = range.start;
            }
            match payload {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        places.imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::CodeSectionEntry(body) => places.bodies.push(body.range()),
                Payload::DataSection(data) => {
                    data_start = data.range().start;
                    for segment in data {
                        let segment = segment?;
                        let DataKind::Active { offset_expr, .. } = segment.kind else { anyhow::bail!("passive data") };
                        let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? else {
                            anyhow::bail!("a data segment has no constant address");
                        };
                        let bytes = segment.range.end - segment.data.len() as u64..segment.range.end;
                        places.segments.push((value as u32, String::new(), bytes));
                    }
                }
                Payload::CustomSection(custom) => match (custom.name(), custom.as_known()) {
                    (_, KnownCustom::Name(names)) => {
                        for part in names {
                            let Name::Function(names) = part? else { continue };
                            for name in names {
                                let name = name?;
                                places.names.insert(name.index as usize, name.name.to_owned());
                            }
                        }
                    }
                    (_, KnownCustom::Linking(linking)) => {
                        for part in linking.subsections() {
                            places.add_symbols(part?)?;
                        }
                    }
                    ("reloc.CODE", KnownCustom::Reloc(relocations)) => places.add(&relocations, code_start)?,
                    ("reloc.DATA", KnownCustom::Reloc(relocations)) => places.add(&relocations, data_start)?,
                    _ => {}
                },
                _ => {}
            }
        }
        Ok(places)
    }

    fn add_symbols(&mut self, part: Linking) -> Result<()> {
        match part {
            Linking::SegmentInfo(segments) => {
                for (known, segment) in self.segments.iter_mut().zip(segments) {
                    known.1 = segment?.name.to_owned();
                }
            }
            Linking::SymbolTable(symbols) => {
                for symbol in symbols {
                    let target = match symbol? {
                        SymbolInfo::Data { flags, symbol: Some(data), .. }
                            if !flags.contains(SymbolFlags::ABSOLUTE) =>
                        {
                            let segment = self.segments.get(data.index as usize).context("a symbol without data")?;
                            let start = segment.0 + data.offset;
                            Target::Data(start..start + data.size)
                        }
                        SymbolInfo::Func { index, .. } => Target::Function(index as usize),
                        _ => Target::Other,
                    };
                    self.symbols.push(target);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the relocations of addresses in a section.
    fn add(&mut self, relocations: &RelocSectionReader, section: u64) -> Result<()> {
        for entry in relocations.entries() {
            let entry = entry?;
            match entry.ty {
                RelocationType::MemoryAddrLeb
                | RelocationType::MemoryAddrSleb
                | RelocationType::MemoryAddrI32
                | RelocationType::TableIndexSleb
                | RelocationType::TableIndexI32 => {
                    let at = section + u64::from(entry.offset);
                    let symbol = entry.index as usize;
                    self.relocations.push(Relocation { at, ty: entry.ty, symbol, addend: entry.addend });
                }
                RelocationType::FunctionIndexLeb
                | RelocationType::FunctionIndexI32
                | RelocationType::TypeIndexLeb
                | RelocationType::GlobalIndexLeb
                | RelocationType::TableNumberLeb => {}
                other => anyhow::bail!("the module has relocations of the type {other:?}"),
            }
        }
        Ok(())
    }

    fn user_at(&self, at: u64) -> Option<User> {
        let body = self.bodies.partition_point(|body| body.end <= at);
        if self.bodies.get(body).is_some_and(|body| body.contains(&at)) {
            return self.name(self.imported + body).map(User::Function);
        }
        let (start, _, bytes) = self.segments.iter().find(|(.., bytes)| bytes.contains(&at))?;
        Some(User::Data(start + (at - bytes.start) as u32))
    }

    /// The name of a function, as in the module that wasm-bindgen writes.
    fn name(&self, function: usize) -> Option<String> {
        let name = demangle(self.names.get(&function)?).to_string();
        Some(shared_name(&name).to_owned())
    }

    fn constants(&self) -> Result<Range<u32>> {
        let mut segments = self.segments.iter().filter(|(_, name, _)| name == CONSTANTS);
        let (start, _, bytes) = segments.next().context("the module has no segment of constants")?;
        ensure!(segments.next().is_none(), "the module has several segments of constants");
        Ok(*start..start + (bytes.end - bytes.start) as u32)
    }
}

impl Relocation {
    /// The address that is in this place.
    fn value(&self, module: &[u8]) -> Result<u32> {
        let bytes = module.get(self.at as usize..).context("a relocation outside of the module")?;
        if self.ty == RelocationType::MemoryAddrI32 {
            return Ok(u32::from_le_bytes(*bytes.first_chunk().context("a cut address")?));
        }
        // LEB128, in 5 bytes, of which the last one has the upper 4 bits and those of the sign.
        let digits = bytes.first_chunk::<5>().context("a cut address")?;
        Ok(digits.iter().rev().fold(0, |value, digit| value << 7 | u32::from(digit & 0x7f)))
    }
}
