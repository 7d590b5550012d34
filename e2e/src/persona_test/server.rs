//! Runs the first code about servers in Node.js, Deno and Bun.

use std::fs;

use anyhow::{Context, Result, ensure};
use xtask::command;

use super::World;
use crate::package_test::servers::pinned_runtimes;

pub(super) fn follows_the_documentation(world: &World<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let app = folder.path();
    world.install(app)?;
    let code = world.code("docs/node.md", "js", "models/model.safetensors")?;
    fs::write(app.join("main.mjs"), code + "\nconsole.log(`${data.constructor.name} of ${data.length}`);\n")?;
    fs::create_dir(app.join("models"))?;
    fs::copy(world.models.path().join("model.safetensors"), app.join("models/model.safetensors"))?;
    // The permission that the page names for files.
    let deno = ["run", "--allow-read", "--node-modules-dir=manual"];
    let mut runtimes = vec![("Node.js".to_owned(), "node".into(), Vec::new())];
    for (name, program, _) in pinned_runtimes(world.project)? {
        let arguments = if name == "Deno" { deno.to_vec() } else { Vec::new() };
        runtimes.push((name.to_owned(), program, arguments));
    }
    for (name, program, arguments) in runtimes {
        let mut run = world.command(&program, app);
        let printed = command::output(run.args(arguments).arg("main.mjs")).with_context(|| name.clone())?;
        ensure!(printed.trim() == "Float32Array of 16384", "{name} prints {printed}");
    }
    Ok(())
}
