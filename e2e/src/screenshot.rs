//! `cargo xtask screenshot`: takes a screenshot of the demo page with a loaded model, for the README.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::chromium::Chromium;
use crate::page::{self, LOAD_LIMIT, SOON, Window};
use xtask::demo::Demo;
use xtask::project::Project;

/// A window with the load of the model and the computation.
pub const DESKTOP: Window = Window { height: 1700, ..page::DESKTOP };

/// A weight matrix, whose histogram and heat map are more interesting than those of a bias.
const TENSOR: &str = "encoder.layer.0.attention.self.query.weight";

/// How long transitions and smooth scrolling take after a click.
const SETTLE: Duration = Duration::from_millis(800);

/// Writes the screenshot: of the window, or with `whole`, of the whole page.
pub fn take(project: &Project, window: Window, dark: bool, whole: bool, out: &Path) -> Result<()> {
    let demo = Demo::start(project)?;
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.set_window(window)?;
    page.set_dark(dark)?;
    page.call("Emulation.setScrollbarsHidden", json!({ "hidden": true }))?;
    page.open(&demo.page(&format!("?model={}&load=all", demo.manifest())))?;
    page.wait_for("every tensor to be loaded", LOAD_LIMIT, "window.weightstreamReport")?;
    let has_tokenizer = demo.model.tokenizer.is_some();
    let buttons = [("#compute", "cache"), ("#from-network", "network"), ("#from-cache", "cache")];
    for (button, origin) in buttons.into_iter().filter(|_| has_tokenizer) {
        page.click(button)?;
        let status = "document.querySelector('#similarity-status').textContent";
        page.wait_for("the first embedding", LOAD_LIMIT, &format!("{status}.endsWith(' from the {origin}.')"))?;
    }
    page.click(&format!("[data-tensor='{TENSOR}']"))?;
    page.wait_for("the tensor to be drawn", SOON, "document.querySelector('#heatmap')")?;
    page.evaluate("scrollTo(0, 0)")?;
    sleep(SETTLE);
    page.screenshot(whole, out)
}
