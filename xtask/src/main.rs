//! The project's chores: `cargo xtask <chore>`. They find or install whatever they need by themselves.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::project::Project;

mod apt;
mod browser;
mod cargo_tools;
mod chromium;
mod command;
mod demo;
mod devtools;
mod expected;
mod headless;
mod model;
mod npm;
mod package;
mod page;
mod project;
mod setup;
mod synthetic;
mod wasm_sysroot;
mod wasm_target;

/// The chores of the weightstream project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Chore {
    /// Find or install every tool: wasm32 target, wasm-bindgen, wasm-pack, npm tools, Chromium.
    Setup,
    /// Build the npm package into pkg/.
    Build,
    /// Fetch the demo model's weights and convert them.
    Model,
    /// Build and serve the demo page; its address goes to standard output.
    Demo {
        /// Load the whole model in a headless browser instead, compare every tensor and end.
        #[arg(long, conflicts_with = "port")]
        headless: bool,
        /// Serve on this port only.
        #[arg(long)]
        port: Option<u16>,
    },
}

fn main() -> ExitCode {
    match run(Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    let project = Project::find()?;
    match chore {
        Chore::Setup => setup::all(&project),
        Chore::Build => package::build(&project).map(drop),
        Chore::Model => model::ready(&project).map(drop),
        Chore::Demo { headless: true, .. } => headless::run(&project),
        Chore::Demo {
            headless: false,
            port,
        } => demo::run(&project, port),
    }
}
