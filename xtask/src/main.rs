//! The project's tasks: `cargo xtask <task>`. They find or install the tools that they need.

#![warn(clippy::too_many_lines)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser};
use xtask::project::Project;
use xtask::suite::Extent;
use xtask::{
    api, demo, demo_folder, docs_site, environment, fuzz, miri, model, package, release, setup, sizes, suite, workspace,
};

/// The tasks of the weightstream project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Find or install every tool: wasm32 target, wasm-bindgen, npm tools, Chromium.
    Setup,
    /// Build the npm package in pkg/ and print how much each format adds to the size of its module.
    Build,
    /// Download the weights of the demo model and convert them.
    Model,
    /// Build and serve the demo page, and print its URL to standard output.
    Demo {
        /// Load the whole model in a headless browser, compare every tensor and exit.
        #[arg(long, conflicts_with = "port")]
        headless: bool,
        /// Use this port or fail.
        #[arg(long)]
        port: Option<u16>,
        /// Write the page with a small model to this folder, for any web server, and exit.
        #[arg(long, value_name = "FOLDER", conflicts_with_all = ["headless", "port"])]
        out: Option<PathBuf>,
    },
    /// Build the documentation site: the documents with a search, both API references, and live examples.
    Docs {
        /// Write the site to this folder instead of docs-site in the target folder.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// Serve the site and print its URL to standard output.
        #[arg(long)]
        serve: bool,
    },
    /// Compare with the formats' own tools: weightstream and the tools must read each other's files.
    #[command(disable_help_flag = true)]
    Interop(ForwardedArgs),
    /// Measure loading in a headless browser relative to plain `fetch()`, and compare with the targets.
    #[command(disable_help_flag = true)]
    Bench(ForwardedArgs),
    /// Load random models from a faulty server. Every tensor must be bit-exact or an error.
    #[command(disable_help_flag = true)]
    Chaos(ForwardedArgs),
    /// Run the test suite, or only the named steps.
    Test {
        /// Includes the long steps, as continuous integration does.
        #[arg(long, conflicts_with = "steps")]
        all: bool,
        /// Leaves these steps out, separated by commas.
        #[arg(long, value_name = "STEPS", value_delimiter = ',', conflicts_with = "steps")]
        except: Vec<String>,
        steps: Vec<String>,
    },
    /// Run the fuzz targets under libFuzzer and AddressSanitizer.
    Fuzz {
        /// Run only this target.
        target: Option<String>,
        /// How long each target runs, in seconds. 250 s each is about an hour in total.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// The sanitizer of the targets.
        #[arg(long, value_enum, default_value = "address")]
        sanitizer: fuzz::Sanitizer,
    },
    /// Run the tests of the core under Miri.
    Miri,
    /// Check that everything is ready for a release. The release workflow runs this task before it publishes.
    Release {
        /// The tag of the release, which must match the version.
        #[arg(long)]
        tag: Option<String>,
    },
    /// Write a screenshot of the demo page after a race.
    #[command(disable_help_flag = true)]
    Screenshot(ForwardedArgs),
}

/// Arguments for another program of the workspace, which documents them with `--help`.
#[derive(Args)]
struct ForwardedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    if let Some(code) = api::as_rustdoc() {
        return code;
    }
    environment::run(|root| run(Task::parse(), root))
}

fn run(task: Task, root: PathBuf) -> Result<()> {
    let project = Project::at(root)?;
    match task {
        Task::Setup => setup::all(&project),
        Task::Build => package::build(&project).and_then(|_| sizes::print(&project)),
        Task::Model => model::ready(&project).map(drop),
        Task::Demo { headless: true, .. } => end_to_end(&project, "headless", &[]),
        Task::Demo { out: Some(folder), .. } => demo_folder::write(&project, &folder),
        Task::Demo { headless: false, port, out: None } => demo::run(&project, port),
        Task::Docs { out, serve: true } => docs_site::serve(&docs_site::build(&project, out)?),
        Task::Docs { out, serve: false } => docs_site::build(&project, out).map(drop),
        Task::Interop(forwarded) => end_to_end(&project, "interop", &forwarded.arguments),
        Task::Bench(forwarded) => workspace::run(&project, "browser-benchmarks", &forwarded.arguments),
        Task::Chaos(forwarded) => end_to_end(&project, "chaos", &forwarded.arguments),
        Task::Test { all, except, steps } => {
            suite::run(&project, if all { Extent::All } else { Extent::Short }, &except, &steps)
        }
        Task::Fuzz { target, seconds, sanitizer } => fuzz::run(&project, target.as_deref(), seconds, sanitizer),
        Task::Miri => miri::run(&project),
        Task::Release { tag } => release::check(&project, tag.as_deref()),
        Task::Screenshot(forwarded) => end_to_end(&project, "screenshot", &forwarded.arguments),
    }
}

fn end_to_end(project: &Project, task: &str, arguments: &[String]) -> Result<()> {
    let task = std::iter::once(task.to_owned()).chain(arguments.iter().cloned());
    workspace::run(project, "e2e", &task.collect::<Vec<_>>())
}
