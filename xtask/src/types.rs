//! Checks the types of the JavaScript sources: of the package against its public declarations, of the demo page against
//! the package.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::project::Project;
use crate::{command, npm};

/// One for each kind of global scope: pages and workers have other APIs.
const PROJECTS: [&str; 2] = ["src/js/tsconfig.json", "src/js/tsconfig.worker.json"];

const CHECK_LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn run(project: &Project) -> Result<()> {
    let tools = npm::ready(project)?;
    for config in PROJECTS {
        let mut tsc = npm::tool(&tools, "typescript/bin/tsc");
        tsc.args(["--project", config]).current_dir(&project.root);
        command::quiet(&mut tsc, CHECK_LIMIT).with_context(|| format!("{config} has type errors"))?;
    }
    Ok(())
}
