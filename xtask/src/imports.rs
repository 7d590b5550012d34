//! Short names for what the module imports. wasm-bindgen's contain digests, which do not compress, and every page loads
//! them twice: in the module and in the glue.

use anyhow::{Context, Result, ensure};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{ImportSection, Module, RawSection};
use wasmparser::{Parser, Payload};

/// The module and its glue with short names.
pub fn shortened(module: &[u8], mut glue: String) -> Result<(Vec<u8>, String)> {
    let mut built = Module::new();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if let Payload::ImportSection(imports) = payload {
            let mut section = ImportSection::new();
            for (number, import) in imports.into_imports().enumerate() {
                let import = import?;
                let short = short_name(number);
                let property = format!("\n        {}: ", import.name);
                ensure!(glue.matches(&property).count() == 1, "the glue does not define `{}` once", import.name);
                glue = glue.replace(&property, &format!("\n        {short}: "));
                section.import(import.module, &short, RoundtripReencoder.entity_type(import.ty)?);
            }
            built.section(&section);
        } else if let Some((id, range)) = payload.as_section() {
            let data = module.get(range.start as usize..range.end as usize).context("a cut section")?;
            built.section(&RawSection { id, data });
        }
    }
    Ok((built.finish(), glue))
}

/// `a`, `b`, … `z`, `aa`, `ab`, …
fn short_name(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'a' + (number % 26) as u8);
        match number / 26 {
            0 => break,
            rest => number = rest - 1,
        }
    }
    letters.into_iter().rev().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_unique() {
        assert_eq!([0, 25, 26, 51, 52, 701, 702].map(short_name), ["a", "z", "aa", "az", "ba", "zz", "aaa"]);
    }
}
