//! Compiles the code about types under `strict`, and runs it in Node.js.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;
use xtask::{command, npm};

use super::{INSTALL_LIMIT, World};

pub(super) fn follows_the_documentation(world: &World<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let app = folder.path();
    world.install(app)?;
    let quick_start = world.code("README.md", "js", "onProgress")?;
    let typed = world.code("docs/javascript.md", "js", "typed.is")?;
    // The second block uses the loader of the first, which closes it.
    let quick_start = quick_start.replace("loader.close();", "");
    let typed = typed.replace("floats", "asFloats");
    fs::write(app.join("main.ts"), format!("{quick_start}\n{typed}\nloader.close();\n"))?;
    let options = json!({
        "strict": true, "exactOptionalPropertyTypes": true, "noUncheckedIndexedAccess": true, "skipLibCheck": false,
        "module": "nodenext", "target": "es2022", "lib": ["es2022", "dom"], "types": [],
    });
    fs::write(app.join("tsconfig.json"), json!({ "compilerOptions": options, "files": ["main.ts"] }).to_string())?;
    for compiler in ["typescript-oldest", "typescript"] {
        let mut tsc = world.at_home(npm::tool(&world.tools, &format!("{compiler}/bin/tsc")), app);
        command::quiet(&mut tsc, INSTALL_LIMIT)?;
    }
    let printed = command::output(world.command("node", app).arg("main.js"))?;
    ensure!(printed.contains("Float32Array(512)"), "the app prints {printed}");
    ensure!(printed.contains(" bytes\n"), "the app prints no progress: {printed}");
    Ok(())
}
