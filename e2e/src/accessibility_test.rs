//! Tests that the demo page is accessible and fits the window: contrast, names and roles, the keyboard, and its length.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::page::{DESKTOP, LOAD_LIMIT, PHONE, Page, SOON, Scheme, Window};
use crate::page_test::{TENSOR, TestCase, open_model, wait_for_the_drawing};
use crate::race_test;
use xtask::demo::Demo;
use xtask::npm;
use xtask::project::Project;

pub const CASES: [(&str, TestCase); 3] = [
    ("reaches every control with the keyboard", reaches_every_control),
    ("cuts no text and breaks no number, wide or narrow", cuts_no_text),
    ("is at most three screens long on a phone", is_short_on_a_phone),
];

/// More controls than the page has.
const MAX_CONTROLS: usize = 100;

const MAX_SCREENS: u32 = 3;

/// The widths of phones. The texts break at different places.
const PHONES: [u32; 3] = [375, PHONE.width, 414];

/// Fewer numbers than the page has with everything that it can show.
const MANY_NUMBERS: usize = 200;

/// The source of axe-core, which finds violations of accessibility rules.
pub fn axe(project: &Project) -> Result<String> {
    let path = npm::ready(project)?.join("axe-core/axe.min.js");
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// Checks the page before a model is open, and with everything that it can show; wide and narrow, light and dark.
pub fn has_no_violations(page: &mut Page, demo: &Demo, axe: &str) -> Result<()> {
    page.evaluate(&format!("{axe}\n0"))?;
    check_appearances(page, "empty")?;
    show_everything(page, demo)?;
    check_appearances(page, "with a model")
}

fn check_appearances(page: &mut Page, when: &str) -> Result<()> {
    for (window, width) in [(DESKTOP, "wide"), (PHONE, "narrow")] {
        page.set_window(window)?;
        for (scheme, theme) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
            page.set_scheme(scheme)?;
            let violations = page.evaluate(include_str!("violations.js"))?;
            ensure!(violations == json!([]), "{when}, {width} and {theme}, axe finds {violations:#}");
        }
    }
    page.set_window(DESKTOP)
}

fn reaches_every_control(page: &mut Page, demo: &Demo) -> Result<()> {
    // A race that is started and stopped with the keyboard alone.
    while focused(page)?.context("the focus left the page")?.name != "race-start" {}
    page.press("Enter")?;
    page.wait_for("the focus on the other button", SOON, "document.activeElement.id === 'race-stop'")?;
    page.press("Enter")?;
    page.wait_for("the race to stop", SOON, &format!("{} === 'Stopped.'", race_test::STATUS))?;

    show_everything(page, demo)?;
    page.evaluate("document.activeElement.blur()")?;
    page.evaluate("getSelection().removeAllRanges()")?;
    page.evaluate("document.querySelector('.wordmark').focus()")?;
    let expected: BTreeSet<String> = serde_json::from_value(page.evaluate(include_str!("controls.js"))?)?;
    let mut reached = BTreeSet::from(["weightstream".to_owned()]);
    for _ in 0..MAX_CONTROLS {
        let Some(control) = focused(page)? else { break };
        ensure!(control.is_outlined, "{} has no visible focus", control.name);
        reached.insert(control.name);
    }
    let missed: Vec<_> = expected.difference(&reached).collect();
    ensure!(missed.is_empty(), "the keyboard does not reach {missed:?}");
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Focused {
    name: String,
    is_outlined: bool,
}

/// Presses Tab and returns the control that has the focus then; `None` after the last one.
fn focused(page: &mut Page) -> Result<Option<Focused>> {
    page.press("Tab")?;
    Ok(serde_json::from_value(page.evaluate(include_str!("focused.js"))?)?)
}

fn cuts_no_text(page: &mut Page, demo: &Demo) -> Result<()> {
    show_everything(page, demo)?;
    race_with_a_cut(page)?;
    page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")?;
    for window in [DESKTOP, PHONE] {
        page.set_window(window)?;
        let clipped = page.evaluate(include_str!("clipped.js"))?;
        ensure!(clipped == json!([]), "at {} px, these texts are cut: {clipped:#}", window.width);
    }
    for width in PHONES {
        page.set_window(Window { width, ..PHONE })?;
        let numbers = page.evaluate(&format!("({})()", include_str!("broken_numbers.js")))?;
        let Numbers { broken, checked } = serde_json::from_value(numbers)?;
        ensure!(broken.is_empty(), "at {width} px, these numbers are broken between two lines: {broken:#?}");
        ensure!(checked > MANY_NUMBERS, "at {width} px, only {checked} numbers were found");
    }
    Ok(())
}

/// The numbers of the page, each with its unit.
#[derive(Deserialize)]
struct Numbers {
    broken: Vec<String>,
    checked: usize,
}

/// Runs a race of which the page shows everything that it can show of one.
fn race_with_a_cut(page: &mut Page) -> Result<()> {
    race_test::choose_the_cut(page)?;
    race_test::choose(page, "#race-rate", "Infinity")?;
    race_test::run(page)
}

fn is_short_on_a_phone(page: &mut Page, demo: &Demo) -> Result<()> {
    page.set_window(PHONE)?;
    page.open(&demo.page(""))?;
    race_with_a_cut(page)?;
    open_model(page)?;
    page.click("#load-all")?;
    page.wait_for("the load", LOAD_LIMIT, "document.querySelector('#progress').dataset.end === 'done'")?;
    let top = page.evaluate("document.querySelector('#details').getBoundingClientRect().top + scrollY")?;
    let top = top.as_f64().context("the page has no details")?;
    let limit = f64::from(MAX_SCREENS * PHONE.height);
    ensure!(top <= limit, "the details begin at {top} px, below {MAX_SCREENS} screens");
    let end = page.evaluate("document.documentElement.scrollHeight")?;
    ensure!(end.as_f64().is_some_and(|end| end < limit + 200.0), "the page with closed details is {end} px long");
    Ok(())
}

/// Opens the demo model, loads it, computes with it, and chooses a tensor.
fn show_everything(page: &mut Page, demo: &Demo) -> Result<()> {
    open_model(page)?;
    page.click("#load-all")?;
    page.wait_for("the load", LOAD_LIMIT, "document.querySelector('#progress').dataset.end === 'done'")?;
    if demo.model.tokenizer.is_some() {
        page.click("#compute")?;
        page.wait_for("the first embedding", LOAD_LIMIT, "!document.querySelector('#first-embedding').hidden")?;
    }
    page.click(&format!("tr[data-tensor='{TENSOR}']"))?;
    wait_for_the_drawing(page)
}
