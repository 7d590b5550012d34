//! Loads the sample in an app of Next.js, in development and as built for production.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use xtask::project::Project;
use xtask::{command, npm};

use super::dev_server::DevServer;
use super::pages::check_page;
use super::sample::Sample;
use super::{TOOL_LIMIT, link_all};
use crate::chromium::Chromium;

const FILES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// `installed` is the folder of the installed package.
pub(super) fn load_in_next(project: &Project, installed: &Path, sample: &Sample) -> Result<()> {
    let modules = npm::installed(project, "Next.js", "tests/package/next", &FILES)?;
    let sources = project.root.join("tests/package");
    let app = tempfile::tempdir()?;
    let app = app.path();
    // Turbopack reads no files outside of the folder of the app.
    link_all(&modules, &app.join("node_modules"))?;
    link_all(installed, &app.join("node_modules/weightstream"))?;
    link_all(&sources.join("next/app"), &app.join("app"))?;
    fs::copy(sources.join("app/check.js"), app.join("app/check.js"))?;
    fs::copy(sources.join("next/package.json"), app.join("package.json"))?;

    let next = || {
        let mut next = npm::tool(&app.join("node_modules"), "next/dist/bin/next");
        next.env("NEXT_TELEMETRY_DISABLED", "1").current_dir(app);
        next
    };
    let served = |mode: &str| -> Result<()> {
        let mut serving: Command = next();
        serving.args([mode, "--hostname", "127.0.0.1", "--port"]);
        let server = DevServer::start(serving, app, mode, |port| port.to_string())?;
        check_page(&mut Chromium::launch()?, &server.url(), sample).with_context(|| format!("next {mode}"))
    };
    served("dev")?;
    command::quiet(next().arg("build"), TOOL_LIMIT)?;
    served("start")
}
