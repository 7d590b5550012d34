//! The project's tasks: `cargo xtask <task>`. They find or install what they need by themselves.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser};
use xtask::project::Project;
use xtask::{demo, environment, fuzz, miri, model, package, release, setup, sizes, suite, workspace};

/// The tasks of the weightstream project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Find or install every tool: wasm32 target, wasm-bindgen, wasm-pack, npm tools, Chromium.
    Setup,
    /// Build the npm package into pkg/, and tell what each format costs in its module.
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
    /// Compare with the formats' own tools, in both directions: what they write we read, what we write they read.
    #[command(disable_help_flag = true)]
    Interop(Passed),
    /// Measure loading in a headless browser against plain `fetch()`, and what was promised of it.
    #[command(disable_help_flag = true)]
    Bench(Passed),
    /// Load random models from a server that cuts, stalls, lies and changes files; every tensor is bit-exact or an
    /// error.
    #[command(disable_help_flag = true)]
    Chaos(Passed),
    /// Run every check that must hold, or only the steps that are named.
    Test { steps: Vec<String> },
    /// Run the fuzz targets under libFuzzer and AddressSanitizer.
    Fuzz {
        /// Only this one.
        target: Option<String>,
        /// How long each runs. An hour over all of them is 250 s each.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// What watches their memory.
        #[arg(long, value_enum, default_value = "address")]
        sanitizer: fuzz::Sanitizer,
    },
    /// Run the tests of the core under Miri.
    Miri,
    /// Check that this state may be released; the release workflow runs it before it publishes anything.
    Release {
        /// The tag of the release, which must be the version.
        #[arg(long)]
        tag: Option<String>,
    },
    /// Write a picture of the demo page with the loaded model.
    #[command(disable_help_flag = true)]
    Screenshot(Passed),
}

/// Arguments of another program of the workspace, which explains them with `--help`.
#[derive(Args)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    environment::run(|root| run(Task::parse(), root))
}

fn run(task: Task, root: PathBuf) -> Result<()> {
    let project = Project::at(root)?;
    match task {
        Task::Setup => setup::all(&project),
        Task::Build => package::build(&project).and_then(|_| sizes::print(&project)),
        Task::Model => model::ready(&project).map(drop),
        Task::Demo { headless: true, .. } => end_to_end(&project, "headless", &[]),
        Task::Demo { headless: false, port } => demo::run(&project, port),
        Task::Interop(passed) => end_to_end(&project, "interop", &passed.arguments),
        Task::Bench(passed) => workspace::run(&project, "browser-benchmarks", &passed.arguments),
        Task::Chaos(passed) => end_to_end(&project, "chaos", &passed.arguments),
        Task::Test { steps } => suite::run(&project, &steps),
        Task::Fuzz { target, seconds, sanitizer } => fuzz::run(&project, target.as_deref(), seconds, sanitizer),
        Task::Miri => miri::run(&project),
        Task::Release { tag } => release::check(&project, tag.as_deref()),
        Task::Screenshot(passed) => end_to_end(&project, "screenshot", &passed.arguments),
    }
}

fn end_to_end(project: &Project, task: &str, arguments: &[String]) -> Result<()> {
    let task = std::iter::once(task.to_owned()).chain(arguments.iter().cloned());
    workspace::run(project, "e2e", &task.collect::<Vec<_>>())
}
