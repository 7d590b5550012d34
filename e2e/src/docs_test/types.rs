//! Checks the types of all examples, including those that are not run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use xtask::project::Project;
use xtask::{command, npm};

use super::fences::Example;

const CHECK_LIMIT: Duration = Duration::from_secs(120);

/// What the examples use without declaring it, and the packages that the test does not have.
const DECLARATIONS: [&str; 2] = ["names.d.ts", "runtimes.d.ts"];

/// Writes the examples to `examples/` in the folder and checks them against the declarations of the package.
pub(super) fn check(project: &Project, package: &Path, folder: &Path, examples: &[Example]) -> Result<()> {
    for example in examples {
        let path = folder.join("examples").join(example.file());
        fs::create_dir_all(path.with_file_name(""))?;
        fs::write(path, &example.code)?;
    }
    let installed = folder.join("examples/node_modules/weightstream");
    fs::create_dir_all(&installed)?;
    for entry in fs::read_dir(package)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".d.ts") || name == "package.json" {
            fs::copy(&path, installed.join(name))?;
        }
    }
    for name in DECLARATIONS {
        fs::copy(project.root.join("tests/docs").join(name), folder.join("examples").join(name))?;
    }
    let files: Vec<_> = examples.iter().map(Example::file).chain(DECLARATIONS.map(str::to_owned)).collect();
    let config = json!({
        "compilerOptions": {
            "allowJs": true,
            "checkJs": true,
            "noEmit": true,
            "strict": true,
            // The examples are JavaScript, which declares no types.
            "noImplicitAny": false,
            "strictNullChecks": false,
            "useUnknownInCatchVariables": false,
            "target": "esnext",
            "module": "esnext",
            "moduleResolution": "bundler",
            "lib": ["esnext", "dom", "dom.iterable", "dom.asynciterable"],
            "types": [],
        },
        "files": files,
    });
    fs::write(folder.join("examples/tsconfig.json"), config.to_string())?;
    let mut tsc = npm::tool(&npm::ready(project)?, "typescript/bin/tsc");
    tsc.args(["--project", "tsconfig.json", "--pretty", "false"]).current_dir(folder.join("examples"));
    command::quiet(&mut tsc, CHECK_LIMIT).context("the types of examples; the line is that in the Markdown file")
}
