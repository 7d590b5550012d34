//! The call graph of a WebAssembly module.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::split::Division;
use crate::uses::{Used, Uses, shared_name};
use anyhow::{Result, ensure};
use wasmparser::{ElementItems, ExternalKind, KnownCustom, Name, Operator, Parser, Payload, TypeRef};

/// The maximum size of a function that the compiler has often merged with equal ones, such as a closure that does
/// nothing. A merged function has the name of one of them, which says little, so that it is in the part that calls it.
const MAX_EQUAL_BYTES: usize = 16;

/// The last segment of the name of a closure, before the hash.
const CLOSURE: &str = "{{closure}}";

/// Like [`MAX_EQUAL_BYTES`], for closures: those that copy or digest bytes are equal in many places.
const MAX_EQUAL_CLOSURE_BYTES: usize = 192;

pub struct CallGraph<'a> {
    module: &'a [u8],
    /// All functions by index; imported ones come first. Data, if it is known, comes last.
    functions: Vec<Function>,
    /// Functions that are exported, or that something unknown calls.
    roots: Vec<u32>,
    /// Functions that are called through a table.
    in_table: Vec<u32>,
    /// The range of the name section, which only debuggers read.
    names: Option<Range<usize>>,
}

#[derive(Default)]
struct Function {
    /// The Rust path of the function.
    name: String,
    /// The range of its code in the module, empty for an imported function.
    code: Range<usize>,
    calls: Vec<u32>,
    /// The functions and the data whose addresses it has.
    takes: Vec<u32>,
    is_data: bool,
}

impl Function {
    /// Whether it is so short that the compiler may have merged it with one of another name.
    fn may_be_merged(&self) -> bool {
        let is_closure = self.name.rsplit("::").take(2).any(|segment| segment == CLOSURE);
        !self.is_data && self.code.len() <= if is_closure { MAX_EQUAL_CLOSURE_BYTES } else { MAX_EQUAL_BYTES }
    }
}

impl<'a> CallGraph<'a> {
    pub fn read(module: &'a [u8]) -> Result<Self> {
        let mut graph =
            CallGraph { module, functions: Vec::new(), roots: Vec::new(), in_table: Vec::new(), names: None };
        let mut section_end = 0;
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            let section = payload.as_section().map(|(_, range)| section_end..range.end as usize);
            match payload {
                Payload::Version { range, .. } => section_end = range.end as usize,
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        if matches!(import?.ty, TypeRef::Func(_)) {
                            graph.functions.push(Function::default());
                        }
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        graph.roots.extend((export.kind == ExternalKind::Func).then_some(export.index));
                    }
                }
                Payload::StartSection { func, .. } => graph.roots.push(func),
                Payload::ElementSection(elements) => {
                    for element in elements {
                        graph.add_element(element?.items)?;
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let code = body.range().start as usize..body.range().end as usize;
                    let mut function = Function { code, ..Function::default() };
                    for operator in body.get_operators_reader()? {
                        function.calls.extend(called(&operator?));
                    }
                    graph.functions.push(function);
                }
                Payload::CustomSection(custom) => {
                    if let KnownCustom::Name(names) = custom.as_known() {
                        graph.names = section.clone();
                        for part in names {
                            graph.add_names(part?)?;
                        }
                    }
                }
                _ => {}
            }
            section_end = section.map_or(section_end, |section| section.end);
        }
        ensure!(graph.names.is_some(), "the module has no names");
        Ok(graph)
    }

    /// The module without its name section.
    pub fn without_names(&self) -> Vec<u8> {
        self.without(self.names.clone())
    }

    /// Like [`CallGraph::without_names`], and without the code that is unreachable if the functions that `is_removed`
    /// selects do not exist. The result is not a valid module, but has the size of one.
    pub fn without_functions(&self, is_removed: impl Fn(&str) -> bool) -> Vec<u8> {
        let is_removed = |number: u32| self.functions.get(number as usize).is_some_and(|it| is_removed(&it.name));
        let roots = self.roots.iter().chain(&self.in_table).copied().collect();
        let is_reached = self.reached_from(roots, is_removed);
        let unreached = self.functions.iter().zip(is_reached).filter(|(_, is_reached)| !is_reached);
        self.without(unreached.map(|(function, _)| function.code.clone()).chain(self.names.clone()))
    }

    /// The names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.iter().map(|function| function.name.as_str())
    }

    /// Adds what functions have the addresses of, and data, after the functions. Without it, functions in a table could
    /// be called by any other one.
    pub fn add_uses(&mut self, uses: &Uses) {
        let first_symbol = self.functions.len();
        let mut numbers: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (number, function) in (0..).zip(&self.functions) {
            numbers.entry(shared_name(&function.name).to_owned()).or_default().push(number);
        }
        let taken = |used: &Used| -> Vec<u32> {
            let functions = used.functions.iter().filter_map(|name| numbers.get(name)).flatten().copied();
            functions.chain(used.symbols.iter().map(|symbol| (first_symbol + symbol) as u32)).collect()
        };
        self.roots.extend(taken(&uses.of_others));
        for (name, used) in &uses.of_functions {
            let taken = taken(used);
            match numbers.get(name) {
                Some(users) => users.iter().for_each(|user| {
                    let function = self.functions.get_mut(*user as usize);
                    function.into_iter().for_each(|function| function.takes.extend(&taken));
                }),
                None => self.roots.extend(taken), // it does not exist any more, or has another name
            }
        }
        for symbol in &uses.symbols {
            self.functions.push(Function { takes: taken(&symbol.uses), is_data: true, ..Function::default() });
        }
        let all: BTreeSet<_> = self.functions.iter().flat_map(|function| &function.takes).copied().collect();
        self.roots.extend(std::mem::take(&mut self.in_table).into_iter().filter(|function| !all.contains(function)));
    }

    /// Divides the functions and the data among the main part, which has number 0, and others. `part_of` tells in which
    /// part the code of a function must be, `None` for the part that calls it. The main part has what several parts
    /// call, and all that its own functions call or have the addresses of, unless `part_of` tells another part; also
    /// what functions call that `part_of` puts into the main part. A part has what it and those call that are loaded
    /// after it: `base_of` tells which part that is.
    pub fn division(
        &self,
        part_of: impl Fn(&str) -> Option<usize>,
        base_of: impl Fn(usize) -> Option<usize>,
    ) -> Division {
        let part_of = |function: &Function| if function.may_be_merged() { None } else { part_of(&function.name) };
        let fixed: Vec<_> = self.functions.iter().map(part_of).collect();
        let fixed_in = |part: usize| {
            (0..)
                .zip(&fixed)
                .filter(move |(_, fixed)| **fixed == Some(part))
                .map(|(number, _)| number)
                .collect::<Vec<_>>()
        };
        let is_other = |part: usize| {
            let fixed = &fixed;
            move |number: u32| fixed.get(number as usize).is_some_and(|fixed| fixed.is_some_and(|fixed| fixed != part))
        };
        let roots = self.roots.iter().chain(&self.in_table).copied().collect();
        let is_main = self.reached_from(roots, is_other(0)).into_iter();
        let kept = self.reached(fixed_in(0), |_| false, is_other(0));
        let is_main = is_main.zip(kept).map(|(called, kept)| called || kept);
        let mut part: Vec<_> = is_main.map(|is_main| is_main.then_some(0)).collect();
        let last = fixed.iter().flatten().max().copied().unwrap_or(0);
        for number in 1..=last {
            let reached = self.reached_from(fixed_in(number), is_other(number));
            for (part, _) in part.iter_mut().zip(reached).filter(|(_, is_reached)| *is_reached) {
                *part = Some(part.map_or(number, |other| {
                    let mut common = [number].into_iter().chain(base_of(number));
                    common.find(|base| [Some(other), base_of(other)].contains(&Some(*base))).unwrap_or(0)
                }));
            }
        }
        // JavaScript has the code of imported functions, which only the main part can import.
        let home = |(part, function): (Option<usize>, &Function)| match function.code.is_empty() && !function.is_data {
            true => 0,
            false => part.unwrap_or(0),
        };
        let homes: Vec<_> = part.into_iter().zip(&self.functions).map(home).collect();
        let mut crossing = vec![BTreeSet::new(); last + 1];
        let mut cross = |from: usize, function: u32| {
            if let Some(home) = homes.get(function as usize).filter(|home| **home != from)
                && let Some(crossing) = crossing.get_mut(*home)
            {
                crossing.insert(function);
            }
        };
        for (function, home) in self.functions.iter().zip(&homes) {
            function.calls.iter().for_each(|called| cross(*home, *called));
        }
        self.roots.iter().for_each(|root| cross(0, *root));
        Division { homes, crossing }
    }

    /// The functions that code of another part calls or has the addresses of, after that code: what must not be called
    /// before the part is loaded. `base_of` is that of [`CallGraph::division`].
    pub fn entries(&self, division: &Division, base_of: impl Fn(usize) -> Option<usize>) -> BTreeSet<(String, String)> {
        let function = |number: u32| self.functions.get(number as usize);
        let home = |number: u32| division.homes.get(number as usize).copied().unwrap_or(0);
        let is_loaded = |own: usize, other: usize| other == 0 || other == own || base_of(own) == Some(other);
        let mut entries = BTreeSet::new();
        for (number, user) in (0..).zip(&self.functions).filter(|(_, user)| !user.is_data) {
            let (mut used, mut is_seen) = ([user.calls.as_slice(), &user.takes].concat(), BTreeSet::new());
            while let Some(number_of_used) = used.pop() {
                match function(number_of_used).filter(|_| is_seen.insert(number_of_used)) {
                    Some(data) if data.is_data => used.extend(&data.takes),
                    Some(entry) if !is_loaded(home(number), home(number_of_used)) => {
                        entries.insert((user.name.clone(), entry.name.clone()));
                    }
                    _ => {}
                }
            }
        }
        entries
    }

    /// Whether each function is reachable from `queue`, except through functions that `is_removed` selects.
    fn reached_from(&self, queue: Vec<u32>, is_removed: impl Fn(u32) -> bool) -> Vec<bool> {
        self.reached(queue, &is_removed, &is_removed)
    }

    /// Whether each function is reachable from `queue`, except through functions whose calls are not followed, and
    /// through those whose addresses are not.
    fn reached(
        &self,
        mut queue: Vec<u32>,
        is_call_removed: impl Fn(u32) -> bool,
        is_address_removed: impl Fn(u32) -> bool,
    ) -> Vec<bool> {
        let mut is_reached = vec![false; self.functions.len()];
        queue.retain(|number| !is_call_removed(*number));
        while let Some(number) = queue.pop() {
            let function = self.functions.get(number as usize).zip(is_reached.get_mut(number as usize));
            let Some((function, is_reached)) = function else { continue };
            if !std::mem::replace(is_reached, true) {
                queue.extend(function.calls.iter().filter(|called| !is_call_removed(**called)));
                queue.extend(function.takes.iter().filter(|taken| !is_address_removed(**taken)));
            }
        }
        is_reached
    }

    /// The module without these ranges, which must be sorted.
    fn without(&self, ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<u8> {
        let (mut rest, mut position) = (Vec::with_capacity(self.module.len()), 0);
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            rest.extend_from_slice(self.module.get(position..range.start).unwrap_or_default());
            position = range.end;
        }
        rest.extend_from_slice(self.module.get(position..).unwrap_or_default());
        rest
    }

    fn add_element(&mut self, items: ElementItems) -> Result<()> {
        match items {
            ElementItems::Functions(numbers) => {
                for number in numbers {
                    self.in_table.push(number?);
                }
            }
            ElementItems::Expressions(_, expressions) => {
                for expression in expressions {
                    for operator in expression?.get_operators_reader() {
                        self.in_table.extend(called(&operator?));
                    }
                }
            }
        }
        Ok(())
    }

    fn add_names(&mut self, part: Name) -> Result<()> {
        if let Name::Function(names) = part {
            for naming in names {
                let naming = naming?;
                if let Some(function) = self.functions.get_mut(naming.index as usize) {
                    function.name = naming.name.to_owned();
                }
            }
        }
        Ok(())
    }
}

/// The function that an operator calls or references.
fn called(operator: &Operator) -> Option<u32> {
    match operator {
        Operator::Call { function_index: function }
        | Operator::ReturnCall { function_index: function }
        | Operator::RefFunc { function_index: function } => Some(*function),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that exports `a`, which calls `b`, which calls `c`. It has a name section.
    const MODULE: &[u8] = b"\0asm\x01\0\0\0\
        \x01\x04\x01\x60\0\0\
        \x03\x04\x03\0\0\0\
        \x07\x05\x01\x01a\0\0\
        \x0a\x0e\x03\x04\0\x10\x01\x0b\x04\0\x10\x02\x0b\x02\0\x0b\
        \0\x11\x04name\x01\x0a\x03\0\x01a\x01\x01b\x02\x01c";

    #[test]
    fn removing_a_function_removes_functions_that_only_it_calls() {
        let graph = CallGraph::read(MODULE).unwrap();
        let whole = graph.without_names();
        assert_eq!(whole, MODULE[..MODULE.len() - 19]);
        assert_eq!(whole.len() - graph.without_functions(|name| name == "c").len(), 2);
        assert_eq!(whole.len() - graph.without_functions(|name| name == "b").len(), 4 + 2);
        assert_eq!(graph.without_functions(|_| false), whole);
    }
}
