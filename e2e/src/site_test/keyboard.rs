//! The site with the keyboard alone.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{LIVE_EXAMPLES, Site, open};
use crate::page::{PHONE, Page, SOON};

/// More controls than a page has.
const MAX_CONTROLS: usize = 250;

const IS_SEARCH_OPEN: &str = "document.activeElement.id === 'mdbook-searchbar'";

const IS_SEARCH_CLOSED: &str = "document.querySelector('#mdbook-search-wrapper').classList.contains('hidden')";

/// The element that has the focus.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Focused {
    name: String,
    /// Whether it has an outline, and is in the window.
    is_visible: bool,
}

/// Presses Tab and returns the control that has the focus then; `None` after the last one.
fn next_control(page: &mut Page) -> Result<Option<Focused>> {
    page.press("Tab")?;
    Ok(serde_json::from_value(page.evaluate(include_str!("focused.js"))?)?)
}

pub(super) fn skips_to_the_content(page: &mut Page, site: &Site) -> Result<()> {
    open(page, site, "docs/javascript.html")?;
    let first = next_control(page)?.context("Tab leads to nothing")?;
    ensure!(first.name == "Skip to the content", "the first control is {}", first.name);
    ensure!(first.is_visible, "the link to the content is not visible while it has the focus");
    page.press("Enter")?;
    page.wait_for("the focus on the content", SOON, "document.activeElement.matches('main')")?;
    let next = next_control(page)?.context("Tab leads to nothing in the content")?;
    let is_in_main = page.evaluate("document.activeElement.closest('main') !== null")?;
    ensure!(is_in_main == true, "after the link to the content, Tab leads to {}", next.name);
    Ok(())
}

pub(super) fn reaches_every_control(page: &mut Page, site: &Site) -> Result<()> {
    open(page, site, LIVE_EXAMPLES)?;
    let expected: BTreeSet<String> = serde_json::from_value(page.evaluate(include_str!("controls.js"))?)?;
    for name in ["Search", "Table of contents", "JavaScript", "Run: List the tensors", "Code: List the tensors"] {
        ensure!(expected.contains(name), "the page has no control {name}, but {expected:?}");
    }
    let mut reached = BTreeSet::new();
    for _ in 0..MAX_CONTROLS {
        let Some(control) = next_control(page)? else { break };
        ensure!(control.is_visible, "{} has no visible focus", control.name);
        reached.insert(control.name);
    }
    let missed: Vec<_> = expected.difference(&reached).collect();
    ensure!(missed.is_empty(), "the keyboard does not reach {missed:?}");
    Ok(())
}

pub(super) fn opens_the_table_of_contents(page: &mut Page, site: &Site) -> Result<()> {
    page.set_window(PHONE)?;
    open(page, site, "index.html")?;
    let is_shown = "document.querySelector('#mdbook-sidebar a.active').checkVisibility()";
    ensure!(page.evaluate(is_shown)? == false, "the table of contents covers the page");
    page.evaluate("document.querySelector('#mdbook-sidebar-toggle').focus()")?;
    page.press("Enter")?;
    page.wait_for("the table of contents", SOON, is_shown)?;
    let is_expanded = "document.querySelector('#mdbook-sidebar-toggle').getAttribute('aria-expanded')";
    ensure!(page.evaluate(is_expanded)? == "true", "the button does not state that it has opened the contents");
    page.press("Enter")?;
    page.wait_for("the table of contents to close", SOON, &format!("!{is_shown}"))
}

pub(super) fn finds_a_document(page: &mut Page, site: &Site) -> Result<()> {
    open(page, site, "docs/javascript.html")?;
    page.press("/")?;
    page.wait_for("the search to open", SOON, IS_SEARCH_OPEN)?;
    page.call("Input.insertText", json!({ "text": "stallTimeou" }))?;
    page.press("t")?;
    let results = "[...document.querySelectorAll('#mdbook-searchresults a')]";
    page.wait_for("a result", SOON, &format!("{results}.length > 0"))?;
    let found: Value = page.evaluate(&format!("{results}.map((link) => link.pathname)"))?;
    let wanted = json!("/weightstream/docs/network.html");
    ensure!(found.as_array().is_some_and(|paths| paths.contains(&wanted)), "the search finds {found}");
    page.press("Escape")?;
    page.wait_for("the search to close", SOON, IS_SEARCH_CLOSED)?;
    // The last result is a document that has the text.
    page.press("/")?;
    page.wait_for("the search to open again", SOON, IS_SEARCH_OPEN)?;
    page.press("Enter")?;
    page.wait_for("the first result", SOON, "/highlight=/.test(location.search) && document.querySelector('mark')")
}
