//! `cargo xtask screenshot`: takes a screenshot of the demo page after a race, which is also its preview in links.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::chromium::Chromium;
use crate::devtools::Area;
use crate::page::{self, LOAD_LIMIT, SOON, Scheme, Window};
use crate::page_test::TENSOR;
use crate::race_test;
use xtask::demo::Demo;
use xtask::project::Project;

/// A window with the race. Its proportions are those of previews of links.
pub const DESKTOP: Window = Window { height: 688, ..page::DESKTOP };

/// How long transitions and smooth scrolling take after a click.
const SETTLE: Duration = Duration::from_millis(800);

/// Writes the screenshot.
pub fn take(project: &Project, window: Window, scheme: Scheme, area: Area, out: &Path) -> Result<()> {
    let demo = Demo::start(project)?;
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.set_window(window)?;
    page.set_scheme(scheme)?;
    page.call("Emulation.setScrollbarsHidden", json!({ "hidden": true }))?;
    page.open(&demo.page(&format!("?model={}&load=all", demo.manifest())))?;
    page.wait_for("every tensor to be loaded", LOAD_LIMIT, "window.weightstreamReport")?;
    if window.is_phone {
        page.click("#details > summary")?;
    }
    let has_tokenizer = demo.model.tokenizer.is_some();
    let buttons = [("#compute", "cache"), ("#from-network", "network"), ("#from-cache", "cache")];
    for (button, origin) in buttons.into_iter().filter(|_| has_tokenizer) {
        page.click(button)?;
        let status = "document.querySelector('#similarity-status').textContent";
        page.wait_for("the first embedding", LOAD_LIMIT, &format!("{status}.endsWith(' from the {origin}.')"))?;
    }
    page.click(&format!("[data-tensor='{TENSOR}']"))?;
    page.wait_for("the tensor to be drawn", SOON, "document.querySelector('#heatmap')")?;
    // With a cut, which is not the default of the page.
    race_test::choose_the_cut(&mut page)?;
    race_test::run(&mut page)?;
    page.evaluate("scrollTo(0, 0)")?;
    sleep(SETTLE);
    page.screenshot(area, out)
}
