//! Tests the layout of the demo page, in windows of different widths: labels, and names of tensors.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, json};

use crate::page::{DESKTOP, PHONE, Page, SOON, Window};
use crate::page_test::{TestCase, fits, open_model, wait_for_the_model};
use xtask::demo::Demo;

pub const CASES: [(&str, TestCase); 2] = [
    ("overlaps no labels, also of extreme values", overlaps_no_labels),
    ("shows what distinguishes long names", shows_what_distinguishes_names),
];

const TABLET: Window = Window { width: 768, height: 1024, scale: 2, is_phone: true };

fn overlaps_no_labels(page: &mut Page, _: &Demo) -> Result<()> {
    for window in [PHONE, TABLET, DESKTOP] {
        page.set_window(window)?;
        open_model(page)?;
        page.evaluate("document.querySelector('#details').open = true")?;
        let overlapping = page.evaluate(&format!("({})()", include_str!("overlaps.js")))?;
        ensure!(overlapping == json!([]), "at {} px: {overlapping:#}", window.width);
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShownName {
    name: String,
    shown: String,
    is_cut: bool,
}

fn shows_what_distinguishes_names(page: &mut Page, _: &Demo) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("names.safetensors");
    fs::write(&file, model_of(&long_names())?)?;
    for window in [PHONE, TABLET, DESKTOP] {
        page.set_window(window)?;
        page.choose_files("#file-input", std::slice::from_ref(&file))?;
        wait_for_the_model(page)?;
        page.evaluate("document.querySelector('#details').open = true")?;
        let count = format!("document.querySelectorAll('tr[data-tensor]').length === {}", long_names().len());
        page.wait_for("the names", SOON, &count)?;
        let script = format!("({})()", include_str!("shown_names.js"));
        let names: Vec<ShownName> = serde_json::from_value(page.evaluate(&script)?)?;
        for ShownName { name, shown, is_cut } in &names {
            ensure!(!is_cut, "at {} px, {shown} is cut", window.width);
            let (start, end) = shown.split_once('…').unwrap_or((shown, ""));
            ensure!(
                name.starts_with(start) && name.ends_with(end.rsplit('…').next().unwrap_or(end)),
                "{shown}: {name}"
            );
        }
        let different: BTreeSet<_> = names.iter().map(|name| &name.shown).collect();
        ensure!(different.len() == names.len(), "at {} px, different names are shown alike", window.width);
        let whole = names.iter().filter(|name| name.shown == name.name).count();
        ensure!(whole > 0, "at {} px, short names are shortened", window.width);
        ensure!(whole < names.len() || window.width > PHONE.width, "no name is longer than two lines on a phone");
        fits(page, "with long names")?;
    }
    Ok(())
}

/// Names that differ at their beginning, in the middle, or at their end.
fn long_names() -> Vec<String> {
    let mut names = vec!["scale".to_owned(), "lm_head.weight".to_owned()];
    for tower in ["model.vision_tower.vision_model", "model.language_model.transformer_of_text"] {
        for (layer, end) in [(0, "weight"), (0, "bias"), (1, "weight"), (25, "weight")] {
            names.push(format!("{tower}.encoder.hidden_layers.{layer}.self_attention.output_projection.{end}"));
        }
    }
    names
}

/// A SafeTensors file with a byte for each name.
fn model_of(names: &[String]) -> Result<Vec<u8>> {
    let entry = |(at, name): (usize, &String)| {
        (name.clone(), json!({ "dtype": "U8", "shape": [1], "data_offsets": [at, at + 1] }))
    };
    let header: Map<_, _> = names.iter().enumerate().map(entry).collect();
    let header = serde_json::to_vec(&header).context("the header")?;
    Ok([&(header.len() as u64).to_le_bytes(), header.as_slice(), &vec![0; names.len()]].concat())
}
