//! Bundles the first code of the README with Vite, without a configuration, and opens the page.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weightstream_cli::serve::Server;
use xtask::{command, npm};

use super::{INSTALL_LIMIT, World};
use crate::chromium::Chromium;
use crate::package_test::dev_server::vites;
use crate::page::SOON;

/// Keeps what the code prints.
const KEEP: &str = "globalThis.printed = [];
const { log } = console;
console.log = (...values) => { printed.push(String(values[0])); log(...values); };";

pub(super) fn follows_the_readme(world: &World<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let app = folder.path();
    world.install(app)?;
    fs::write(app.join("main.js"), world.code("README.md", "js", "for await")?)?;
    let scripts = format!("<script>{KEEP}</script><script type=\"module\" src=\"main.js\"></script>");
    let html = format!("<!doctype html><link rel=\"icon\" href=\"data:,\">{scripts}");
    fs::write(app.join("index.html"), html)?;
    let vite = vites(world.project, &world.tools)?.pop().context("there is no Vite")?;
    let mut vite = world.at_home(npm::tool(&vite, "bin/vite.js"), app);
    command::quiet(vite.arg("build"), INSTALL_LIMIT)?;

    let server = Server::new().mount("/", app.join("dist")).bind("127.0.0.1:0")?.spawn();
    let mut browser = Chromium::launch()?;
    let mut page = browser.new_page()?;
    page.open(&format!("{}/index.html", server.url()))?;
    page.wait_for("all tensors", SOON, "globalThis.printed?.length === 5")?;
    let mut printed: Vec<String> = serde_json::from_value(page.evaluate("printed")?)?;
    printed.sort();
    let names = ["blk.0.attn_q.weight", "embeddings.weight", "encoder.bias", "encoder.weight", "position_ids"];
    ensure!(json!(printed) == json!(names), "the page prints {printed:?}");
    let errors = page.take_console_errors()?;
    ensure!(errors.is_empty(), "the console shows {errors:?}");
    Ok(())
}
