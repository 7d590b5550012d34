//! `cargo xtask screenshot`: the demo page with a loaded model, as a picture for the README.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use crate::chromium::Chromium;
use crate::demo::Demo;
use crate::headless::LOAD_LIMIT;
use crate::page::{Page, SOON};
use crate::project::Project;

/// A window: CSS pixels, and device pixels to each.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scale: u32,
    pub(crate) is_phone: bool,
}

pub(crate) const DESKTOP: Window = Window { width: 1280, height: 900, scale: 2, is_phone: false };
pub(crate) const PHONE: Window = Window { width: 390, height: 844, scale: 2, is_phone: true };

/// How long the page may move after a click: transitions, smooth scrolling.
const SETTLE: Duration = Duration::from_millis(600);

pub(crate) fn take(project: &Project, window: Window, dark: bool, out: &Path) -> Result<()> {
    let demo = Demo::start(project)?;
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.set_window(window)?;
    page.set_dark(dark)?;
    page.open(&demo.page(&format!("?model={}&load=all", demo.manifest())))?;
    page.wait_for("the page to load every tensor", LOAD_LIMIT, "window.weightstreamReport")?;
    choose_a_matrix(&mut page)?;
    page.evaluate("scrollTo(0, 0)")?;
    sleep(SETTLE);
    page.screenshot(out)
}

/// A weight matrix has the more telling histogram and heat map.
fn choose_a_matrix(page: &mut Page) -> Result<()> {
    page.type_into("#search", "layer.0.attention.self.query.weight")?;
    let _ = SOON;
    Ok(())
}
