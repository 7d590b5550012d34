//! Loads the sample in an extension of Chromium: in its background, which is a service worker, and an offscreen page.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use xtask::project::Project;

use super::link_all;
use super::report::{self, Lacks};
use super::sample::{self, Sample};
use crate::chromium::Chromium;

pub(super) fn load_in_extension(project: &Project, app: &Path, sample: &Sample) -> Result<()> {
    let extension = tempfile::tempdir()?;
    let extension = extension.path();
    link_all(&app.join("app"), &extension.join("app"))?;
    link_all(&app.join("node_modules/weightstream"), &extension.join("node_modules/weightstream"))?;
    let manifest = project.root.join("tests/package/extension/manifest.json");
    fs::copy(manifest, extension.join("manifest.json"))?;

    let flag = format!("--load-extension={}", extension.display());
    let mut browser = Chromium::launch_with(&[&flag, "--disable-features=DisableLoadExtensionCommandLineSwitch"])?;
    let model = [json!(sample.url()), json!(sample::MATRIX)];
    let has_no_workers = Some("workers cannot be started: Worker is not available in this context");
    let found = browser.call_in("/app/background.js", "check", &model)?;
    report::check(found, sample, Lacks { cache: None, workers: has_no_workers }).context("in the background")?;
    browser.call_in("/app/background.js", "openOffscreenPage", &[])?;
    let found = browser.call_in("/app/offscreen.html", "check", &model)?;
    report::check(found, sample, Lacks::default()).context("in an offscreen page")
}
