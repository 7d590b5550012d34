//! Names of the JavaScript sources and of the files that the npm package makes of them. The package has one flat
//! folder, in which `weightstream.NAME.js` is made of the only `NAME.js` in the folders of `src/js`. Names that begin
//! with `weightstream` are the same in both.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::project::Project;
use crate::sources;

const PREFIX: &str = "weightstream";

/// The files below `src/js`.
pub struct Sources {
    root: PathBuf,
    /// Their paths below the root, with slashes.
    paths: Vec<String>,
}

impl Sources {
    pub fn list(project: &Project) -> Result<Self> {
        let root = project.root.join("src/js");
        Ok(Self { paths: sources::files(&root)?, root })
    }

    /// The path of the source of a file of the package, below `src/js`.
    pub fn of(&self, public: &str) -> Result<&str> {
        let made_of = self.paths.iter().filter(|path| public_name(path) == public);
        match made_of.collect::<Vec<_>>()[..] {
            [path] => Ok(path),
            [] => bail!("{public} of the package has no source in src/js"),
            [one, other, ..] => bail!("{public} of the package has two sources in src/js: {one} and {other}"),
        }
    }

    /// Declarations as a file of the package: they import each other by their public names.
    pub fn declarations(&self, public: &str) -> Result<String> {
        let path = self.root.join(self.of(public)?);
        Ok(with_public_imports(&fs::read_to_string(&path).with_context(|| path.display().to_string())?))
    }

    /// Copies the scripts, with their folders.
    pub fn copy_scripts(&self, to: &Path) -> Result<()> {
        for path in self.paths.iter().filter(|path| path.ends_with(".js") && !path.ends_with(".test.js")) {
            let copy = to.join(path);
            fs::create_dir_all(copy.parent().unwrap_or(to))?;
            fs::copy(self.root.join(path), copy)?;
        }
        Ok(())
    }
}

/// Writes the declarations of the package to a folder, which `www/tsconfig.json` and the reference use, and returns it.
pub fn write_declarations(project: &Project, manifest: &Value) -> Result<PathBuf> {
    let folder = project.root.join("target/declarations");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let sources = Sources::list(project)?;
    for name in declarations_in(manifest)? {
        fs::write(folder.join(name), sources.declarations(name)?)?;
    }
    Ok(folder)
}

/// The declarations of the package's entry points, which `exports` of its manifest lists.
pub fn declarations_in(manifest: &Value) -> Result<Vec<&str>> {
    targets(manifest, |condition| condition == "types")
}

/// The scripts in `exports` of a manifest.
pub fn scripts_in(manifest: &Value) -> Result<Vec<&str>> {
    let mut scripts = targets(manifest, |condition| condition != "types")?;
    scripts.retain(|target| target.ends_with(".js"));
    Ok(scripts)
}

/// The files in `exports` of a manifest, for some of their conditions.
fn targets(manifest: &Value, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<&str>> {
    let exports = manifest.get("exports").and_then(Value::as_object).context("pkg.json has no `exports`")?;
    let conditions = exports.values().filter_map(Value::as_object).flat_map(|conditions| conditions.iter());
    let targets = conditions.filter(|(condition, _)| is_wanted(condition)).filter_map(|(_, target)| target.as_str());
    let mut names: Vec<_> = targets.filter_map(|target| target.strip_prefix("./")).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// The name that a source has in the package.
fn public_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.starts_with(PREFIX) { name.to_owned() } else { format!("{PREFIX}.{name}") }
}

/// Replaces the paths of relative imports by public names.
fn with_public_imports(declarations: &str) -> String {
    let parts = declarations.split(" from \"").enumerate().map(|(at, part)| match part.split_once('"') {
        Some((path, rest)) if at > 0 && path.starts_with('.') => format!("./{}\"{rest}", public_name(path)),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join(" from \"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_not_a_part_of_public_names() {
        assert_eq!(public_name("weightstream.js"), "weightstream.js");
        assert_eq!(public_name("runtimes/tfjs/tfjs.d.ts"), "weightstream.tfjs.d.ts");
        assert_eq!(public_name("module/weightstream.inlined.js"), "weightstream.inlined.js");
    }

    #[test]
    fn a_public_name_stands_for_one_source() {
        let paths = ["a/one.js", "a/two.js", "b/two.js"].map(str::to_owned).to_vec();
        let sources = Sources { root: PathBuf::new(), paths };
        assert_eq!(sources.of("weightstream.one.js").unwrap(), "a/one.js");
        assert!(sources.of("weightstream.two.js").unwrap_err().to_string().contains("two sources"));
        assert!(sources.of("weightstream.three.js").unwrap_err().to_string().contains("no source"));
    }

    #[test]
    fn published_declarations_import_each_other_by_public_names() {
        let source =
            "import type { A } from \"../../weightstream.js\";\nexport * from \"../fetch.js\";\n// from \"b\"\n";
        let public = "import type { A } from \"./weightstream.js\";\nexport * from \"./weightstream.fetch.js\";\n\
                      // from \"b\"\n";
        assert_eq!(with_public_imports(source), public);
    }
}
