//! The steps of the test suite.

use anyhow::Result;

use super::native::{compile, dependencies, documentation, formatting, hostile_tests, lock_files, native_tests};
use super::wasm::{browser_tests, clippy_for_wasm, standards};
use crate::project::Project;
use crate::{api, bridges, msrv, package, reference, release, scripts, setup, types, workspace};

/// Ten seconds, enough to detect frequent failures.
const SHORT_CHAOS_MINUTES: &str = "0.17";

pub(super) struct Step {
    /// The name of the step on the command line.
    pub(super) name: &'static str,
    /// What the step checks.
    pub(super) description: &'static str,
    pub(super) run: fn(&Project) -> Result<()>,
}

/// The tools of all steps. Without the long ones, steps install what they need.
pub(super) const TOOLS: Step = Step { name: "tools", description: "all tools are installed", run: setup::all };

/// What compiles, and what needs nothing compiled. The package takes as long as everything else here, on one core.
pub(super) const FIRST_STEPS: [Step; 7] = [
    Step { name: "build", description: "the npm package is built", run: |project| package::build(project).map(drop) },
    Step { name: "compile", description: "everything compiles natively, and clippy reports no warnings", run: compile },
    Step { name: "clippy-wasm", description: "clippy reports no warnings for wasm32", run: clippy_for_wasm },
    Step { name: "fmt", description: "the code is formatted", run: formatting },
    Step { name: "locks", description: "the lock files fit the manifests", run: lock_files },
    Step { name: "types", description: "the JavaScript matches its types and the public API", run: types::run },
    Step { name: "js", description: "the JavaScript passes its unit tests and the linter", run: scripts::check },
];

/// Steps that run once all of that is compiled, the longest first.
pub(super) const SHORT_STEPS: [Step; 3] = [
    Step { name: "native", description: "the native tests pass", run: native_tests },
    Step { name: "page", description: "the demo page works", run: |project| end_to_end(project, &["page"]) },
    Step {
        name: "standards",
        description: "fetch and Blobs of the package behave like those of the platform",
        run: standards,
    },
];

/// Steps that take minutes, or need tools that take minutes to install. They run with `--all`, the longest first.
pub(super) const LONG_STEPS: [Step; 32] = [
    Step {
        name: "bridges",
        description: "the crates for candle and burn pass their tests, and their examples run in a browser",
        run: bridges::test,
    },
    Step {
        name: "hostile",
        description: "hostile files stay within the limits of memory and time",
        run: hostile_tests,
    },
    Step {
        name: "cache",
        description: "the persistent cache works and never breaks a load",
        run: |project| end_to_end(project, &["cache"]),
    },
    Step {
        name: "workers",
        description: "workers return the same as the page, and loads succeed without them",
        run: |project| end_to_end(project, &["workers"]),
    },
    Step {
        name: "traps",
        description: "the package handles network traps in three browsers",
        run: |project| end_to_end(project, &["traps"]),
    },
    Step {
        name: "hub",
        description: "models load from a hub in three browsers",
        run: |project| end_to_end(project, &["hub"]),
    },
    Step {
        name: "rust-app",
        description: "an app in Rust loads with a cache and workers in three browsers",
        run: |project| end_to_end(project, &["rust-app"]),
    },
    Step {
        name: "signatures",
        description: "signed models, with the reference implementation and in three browsers",
        run: |project| end_to_end(project, &["signatures"]),
    },
    Step {
        name: "runtimes",
        description: "runtimes compute the same with weights from the package",
        run: |project| end_to_end(project, &["runtimes"]),
    },
    Step {
        name: "personas",
        description: "new users who follow the documentation see their results",
        run: |project| end_to_end(project, &["personas"]),
    },
    Step {
        name: "interop",
        description: "weightstream and the formats' own tools read each other's files",
        run: |project| end_to_end(project, &["interop"]),
    },
    Step {
        name: "nginx",
        description: "models load from nginx in various configurations",
        run: |project| end_to_end(project, &["nginx"]),
    },
    Step {
        name: "scale",
        description: "many clients load through caches, and return at different times after an outage",
        run: |project| workspace::run(project, "scale-simulation", &["--check".to_owned()]),
    },
    Step {
        name: "stores",
        description: "models are published in emulators of stores, and in parts with Ray, Slurm and Kubernetes",
        run: |project| end_to_end(project, &["stores"]),
    },
    Step {
        name: "publish-check",
        description: "`publish --check` of nginx and varnish, before and after the printed configuration",
        run: |project| end_to_end(project, &["publish-check"]),
    },
    Step {
        name: "package",
        description: "the npm package is complete, typed and within its size budget",
        run: |project| end_to_end(project, &["package"]),
    },
    Step { name: "api", description: "the public Rust API matches its snapshot", run: api::run },
    Step {
        name: "msrv",
        description: "the library compiles with the minimum supported Rust version, with each feature alone",
        run: msrv::run,
    },
    Step {
        name: "parity",
        description: "every fixture is identical in three browsers and through mmap",
        run: |project| end_to_end(project, &["parity"]),
    },
    Step {
        name: "files",
        description: "files of any format load in three browsers",
        run: |project| end_to_end(project, &["files"]),
    },
    Step {
        name: "crash",
        description: "a panic is reported, and the next open works",
        run: |project| end_to_end(project, &["crash"]),
    },
    Step {
        name: "model",
        description: "the demo page loads the whole model bit-exact",
        run: |project| end_to_end(project, &["headless"]),
    },
    Step {
        name: "formats",
        description: "the model loads bit-exact from every format that has a writer",
        run: |project| end_to_end(project, &["formats"]),
    },
    Step {
        name: "examples",
        description: "the web examples build and show a model",
        run: |project| end_to_end(project, &["examples"]),
    },
    Step {
        name: "docs",
        description: "the JavaScript of the documentation runs",
        run: |project| end_to_end(project, &["docs"]),
    },
    Step {
        name: "site",
        description: "the documentation site has no dead links, is accessible, and its examples run",
        run: |project| end_to_end(project, &["site"]),
    },
    Step { name: "web", description: "the Rust tests pass in a browser", run: browser_tests },
    Step { name: "doc", description: "the reference of the Rust API builds without warnings", run: documentation },
    Step { name: "publish", description: "npm and crates.io would accept the packages", run: release::dry_run },
    Step {
        name: "reference",
        description: "the reference of the JavaScript API builds without warnings",
        run: |project| reference::build(project).map(drop),
    },
    Step {
        name: "chaos",
        description: "loads from a faulty server give correct bytes or an error",
        run: |project| end_to_end(project, &["chaos", "--only", "native", "--minutes", SHORT_CHAOS_MINUTES]),
    },
    Step { name: "deny", description: "licences and sources of dependencies are allowed", run: dependencies },
];

/// All steps.
pub(super) fn all() -> impl Iterator<Item = &'static Step> {
    [&TOOLS].into_iter().chain(&FIRST_STEPS).chain(&LONG_STEPS).chain(&SHORT_STEPS)
}

/// Runs an end-to-end test.
fn end_to_end(project: &Project, arguments: &[&str]) -> Result<()> {
    workspace::run(project, "e2e", &arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn the_workflow_runs_every_step_once() {
        let workflow = include_str!("../../../.github/workflows/ci.yml");
        let lists = workflow.lines().filter_map(|line| line.trim().strip_prefix("steps: "));
        let mut run: Vec<_> = lists.flat_map(str::split_whitespace).collect();
        run.sort_unstable();
        let mut names: Vec<_> = all().map(|step| step.name).collect();
        names.sort_unstable();
        assert_eq!(run, names);
    }
}
