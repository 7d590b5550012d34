//! Bundles apps that use the installed package. Each app has a page in a folder of its own.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use xtask::parts::PARTS;
use xtask::{command, npm};

use super::TOOL_LIMIT;

/// The folders of the apps that [`build`] writes.
pub(super) const APPS: [&str; 6] = ["vite", "esbuild", "esbuild-iife", "rollup", "rollup-assets", "webpack"];

pub(super) fn build(app: &Path, tools: &Path) -> Result<()> {
    vite(app, tools)?;
    esbuild(app, tools)?;
    rollup(app, tools)?;
    webpack(app, tools)
}

fn vite(app: &Path, tools: &Path) -> Result<()> {
    let mut vite = npm::tool(tools, "vite/bin/vite.js");
    vite.args(["build", "app", "--base", "./", "--outDir", "../vite"]).current_dir(app);
    command::quiet(&mut vite, TOOL_LIMIT)?;
    let assets = fs::read_dir(app.join("vite/assets"))?.collect::<Result<Vec<_>, _>>()?;
    let modules = assets.iter().filter(|asset| asset.path().extension().is_some_and(|e| e == "wasm")).count();
    let parts = 1 + PARTS.len();
    ensure!(modules == parts, "vite emits {modules} WebAssembly modules instead of the {parts} parts");
    Ok(())
}

fn esbuild(app: &Path, tools: &Path) -> Result<()> {
    let mut explicit = npm::tool(tools, "esbuild/bin/esbuild");
    explicit.args(["app/explicit.js", "--bundle", "--format=esm", "--loader:.wasm=file", "--outdir=esbuild"]);
    command::quiet(explicit.current_dir(app), TOOL_LIMIT)?;
    fs::copy(app.join("node_modules/weightstream/weightstream.worker.js"), app.join("esbuild/worker.js"))?;
    page(app, "esbuild", "explicit.js")?;

    let mut inline = npm::tool(tools, "esbuild/bin/esbuild");
    inline.args(["app/inline.js", "--bundle", "--format=iife", "--outdir=esbuild-iife", "--log-level=error"]);
    command::quiet(inline.current_dir(app), TOOL_LIMIT)?;
    let html = page(app, "esbuild-iife", "inline.js")?.replace("type=\"module\"", "defer");
    Ok(fs::write(app.join("esbuild-iife/index.html"), html)?)
}

fn rollup(app: &Path, tools: &Path) -> Result<()> {
    let mut rollup = npm::tool(tools, "rollup/dist/bin/rollup");
    // The configuration imports plugins, which are installed beside the tool.
    for scope in ["@rollup", "@web"] {
        std::os::unix::fs::symlink(tools.join(scope), app.join("node_modules").join(scope))?;
    }
    rollup.args(["--config", "rollup.config.js", "--silent"]).current_dir(app);
    command::quiet(&mut rollup, TOOL_LIMIT)?;
    page(app, "rollup", "inline.js")?;
    page(app, "rollup-assets", "main.js")?;
    Ok(())
}

fn webpack(app: &Path, tools: &Path) -> Result<()> {
    let mut webpack = npm::tool(tools, "webpack-cli/bin/cli.js");
    webpack.args(["./app/main.js", "--mode", "production", "--output-path", "webpack"]).current_dir(app);
    command::quiet(&mut webpack, TOOL_LIMIT)?;
    page(app, "webpack", "main.js")?;
    Ok(())
}

/// Writes the page of an app whose script has this name.
fn page(app: &Path, folder: &str, script: &str) -> Result<String> {
    let html = fs::read_to_string(app.join("app/index.html"))?.replace("main.js", script);
    fs::write(app.join(folder).join("index.html"), &html)?;
    Ok(html)
}
