//! `cargo xtask screenshot`: the demo page with a loaded model, as a picture for the README.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::chromium::Chromium;
use crate::page::{LOAD_LIMIT, SOON, Window};
use xtask::demo::Demo;
use xtask::project::Project;

/// A weight matrix: it has the more telling histogram and heat map.
const TENSOR: &str = "encoder.layer.0.attention.self.query.weight";

/// How long the page may move after a click: transitions, smooth scrolling.
const SETTLE: Duration = Duration::from_millis(800);

/// `whole` takes the page to its end instead of what the window shows.
pub fn take(project: &Project, window: Window, dark: bool, whole: bool, out: &Path) -> Result<()> {
    let demo = Demo::start(project)?;
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.set_window(window)?;
    page.set_dark(dark)?;
    page.call("Emulation.setScrollbarsHidden", json!({ "hidden": true }))?;
    page.open(&demo.page(&format!("?model={}&load=all", demo.manifest())))?;
    page.wait_for("every tensor to be loaded", LOAD_LIMIT, "window.weightstreamReport")?;
    page.click(&format!("[data-tensor='{TENSOR}']"))?;
    page.wait_for("the tensor to be drawn", SOON, "document.querySelector('#heatmap')")?;
    page.evaluate("scrollTo(0, 0)")?;
    sleep(SETTLE);
    page.screenshot(whole, out)
}
