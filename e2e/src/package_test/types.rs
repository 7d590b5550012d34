//! Checks the type declarations of the installed package: with several versions of TypeScript, and with linters.

use std::fs;
use std::path::Path;

use crate::timed::timed;
use anyhow::{Context, Result};
use serde_json::json;
use xtask::{command, npm};

use super::TOOL_LIMIT;

/// The versions of TypeScript, by the names that they are installed as, and whether their typed arrays are generic.
const VERSIONS: [(&str, bool); 4] =
    [("typescript-oldest", false), ("typescript-5.7", true), ("typescript-5.9", true), ("typescript", true)];

/// The libraries that apps choose, and whether they have `Symbol.dispose`.
const LIBRARIES: [(&[&str], bool); 3] = [
    (&["es2022", "dom"], false),
    (&["es2022", "webworker"], false),
    (&["esnext", "dom", "dom.iterable", "dom.asynciterable"], true),
];

/// How modules are found: `module` and `moduleResolution`.
const RESOLUTIONS: [(&str, &str); 2] = [("esnext", "bundler"), ("nodenext", "nodenext")];

pub(super) fn are_valid(app: &Path, tools: &Path, sources: &Path, tarball: &Path) -> Result<()> {
    for name in ["sample.ts", "oldest.ts", "data.ts", "using.ts", "node.ts"] {
        fs::copy(sources.join(name), app.join(name)).with_context(|| name.to_owned())?;
    }
    for (compiler, has_generic_arrays) in VERSIONS {
        // One process for all configurations, because most of the time of each is that of starting the compiler.
        let mut tsc = npm::tool(tools, &format!("{compiler}/bin/tsc"));
        tsc.arg("--build").current_dir(app);
        for (library, has_dispose) in LIBRARIES {
            for (module, resolution) in RESOLUTIONS {
                let mut files = vec!["oldest.ts", "data.ts"];
                files.extend(has_dispose.then_some("using.ts"));
                files.extend((has_dispose && has_generic_arrays).then_some("sample.ts"));
                let name = format!("tsconfig.{compiler}.{}.{resolution}.json", library.join("."));
                let config = json!({ "files": files, "compilerOptions": {
                    "strict": true, "exactOptionalPropertyTypes": true, "noUncheckedIndexedAccess": true,
                    "noUnusedLocals": true, "skipLibCheck": false, "noEmit": true, "types": [],
                    "target": library.first(), "lib": library, "module": module, "moduleResolution": resolution,
                } });
                fs::write(app.join(&name), config.to_string())?;
                tsc.arg(name);
            }
        }
        // An app for Node.js does not have the DOM.
        let name = format!("tsconfig.{compiler}.node.json");
        let config = json!({ "files": ["node.ts"], "compilerOptions": {
            "strict": true, "exactOptionalPropertyTypes": true, "noUncheckedIndexedAccess": true,
            "skipLibCheck": false, "noEmit": true, "types": ["node"],
            "typeRoots": [tools.join("@types")], "target": "es2022", "lib": ["es2022"],
            "module": "nodenext", "moduleResolution": "nodenext",
        } });
        fs::write(app.join(&name), config.to_string())?;
        tsc.arg(name);
        timed(compiler, || command::quiet(&mut tsc, TOOL_LIMIT)).with_context(|| compiler.to_owned())?;
    }
    are_found(tools, tarball)
}

/// All entries of the tarball must have types that TypeScript finds in every kind of project.
fn are_found(tools: &Path, tarball: &Path) -> Result<()> {
    // The package has only ES modules, which Node.js since 20.19 and bundlers also load with `require`. This profile
    // leaves out the resolutions of CommonJS, which TypeScript reports for all such packages.
    let mut attw = npm::tool(tools, "@arethetypeswrong/cli/dist/index.js");
    attw.args(["--profile", "esm-only", "--no-definitely-typed", "--format", "ascii", "--no-color"]).arg(tarball);
    timed("attw", || command::quiet(&mut attw, TOOL_LIMIT))?;
    let mut publint = npm::tool(tools, "publint/src/cli.js");
    command::quiet(publint.arg("run").arg(tarball).arg("--strict"), TOOL_LIMIT)
}
