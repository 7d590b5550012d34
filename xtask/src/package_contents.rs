//! The files of the npm package: those that the patterns in `pkg.json` match, and `package.json`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::project::Project;
use crate::public_names::{self, Sources};
use crate::{bundle, sources};

/// A file of the package: its path relative to the root of the package, and its bytes.
pub type File = (String, Vec<u8>);

/// Collects the files of the package: those that match the patterns in `files` of `pkg.json`. Documents have the same
/// path in the repository; other files are bundled scripts, declarations, or in the build folder.
pub fn collect(project: &Project, manifest: &Value, built: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for folder in [built, &built.join(bundle::SCRIPTS)] {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a file name is not UTF-8")?;
            if entry.file_type()?.is_file() && is_listed(manifest, &name)? {
                files.push((name, fs::read(entry.path())?));
            }
        }
    }
    let sources = Sources::list(project)?;
    for name in public_names::declarations_in(manifest)? {
        files.push((name.to_owned(), sources.declarations(name)?.into_bytes()));
    }
    for path in sources::files(&project.root)? {
        if is_listed(manifest, &path)? {
            let content = fs::read(project.root.join(&path))?;
            files.push((path, content));
        }
    }
    files.sort();
    files.push(("package.json".to_owned(), package_json(project, manifest)?));
    Ok(files)
}

/// Whether a pattern in `files` of a manifest matches a path.
fn is_listed(manifest: &Value, path: &str) -> Result<bool> {
    let patterns = manifest.get("files").and_then(Value::as_array).context("pkg.json has no list `files`")?;
    Ok(patterns.iter().filter_map(Value::as_str).any(|pattern| matches(pattern, path)))
}

/// Whether a pattern is that of a path, or of a folder that it is in. `*` stands for any part of one name.
fn matches(pattern: &str, path: &str) -> bool {
    if path.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return true;
    }
    let Some((start, end)) = pattern.split_once('*') else { return false };
    let rest = path.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    rest.is_some_and(|rest| !rest.contains('/'))
}

/// Writes the package, unless the folder already contains exactly these files, which another task may be serving.
pub fn write(package: &Path, files: &[File]) -> Result<()> {
    if contains_exactly(package, files)? {
        return Ok(());
    }
    if package.exists() {
        fs::remove_dir_all(package)?;
    }
    for (name, content) in files {
        let path = package.join(name);
        fs::create_dir_all(path.parent().unwrap_or(package))?;
        fs::write(path, content)?;
    }
    Ok(())
}

fn contains_exactly(package: &Path, files: &[File]) -> Result<bool> {
    let is_same = |(name, content): &File| fs::read(package.join(name)).is_ok_and(|old| old == *content);
    Ok(package.is_dir() && sources::files(package)?.len() == files.len() && files.iter().all(is_same))
}

/// `pkg.json` with the links that are derived from the `repository` in Cargo.toml.
fn package_json(project: &Project, manifest: &Value) -> Result<Vec<u8>> {
    let mut manifest = manifest.clone();
    if let Some(fields) = manifest.as_object_mut() {
        fields.extend(links(&project.repository).into_iter().flatten());
    }
    Ok(format!("{}\n", serde_json::to_string_pretty(&manifest)?).into_bytes())
}

/// The fields of `package.json` with links to the repository, `None` if Cargo.toml has no `repository`.
fn links(repository: &str) -> Option<[(String, Value); 3]> {
    let repository = repository.trim_end_matches('/');
    (!repository.is_empty()).then(|| {
        [
            ("repository".to_owned(), json!({ "type": "git", "url": format!("git+{repository}.git") })),
            ("homepage".to_owned(), json!(format!("{repository}#readme"))),
            ("bugs".to_owned(), json!({ "url": format!("{repository}/issues") })),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_the_npm_package_are_derived_from_the_repository() {
        let fields: serde_json::Map<_, _> = links("https://example.org/o/weightstream/").unwrap().into_iter().collect();
        assert_eq!(fields["repository"]["url"], "git+https://example.org/o/weightstream.git");
        assert_eq!(fields["homepage"], "https://example.org/o/weightstream#readme");
        assert_eq!(fields["bugs"]["url"], "https://example.org/o/weightstream/issues");
        assert!(links("").is_none());
    }

    #[test]
    fn patterns_match_files_folders_and_parts_of_a_name() {
        assert!(matches("README.md", "README.md") && !matches("README.md", "docs/README.md"));
        assert!(matches("docs", "docs/environments/vite.md") && !matches("docs", "docs.md"));
        assert!(matches("benches/*.svg", "benches/results.svg") && !matches("benches/*.svg", "benches/a/b.svg"));
        assert!(!matches("a*a", "a"));
    }

    #[test]
    fn a_written_package_contains_the_files_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("pkg");
        let file = |name: &str| (name.to_owned(), name.as_bytes().to_vec());
        write(&package, &[file("a.js"), file("docs/old.md")]).unwrap();
        let files = [file("a.js"), file("docs/new.md")];
        assert!(!contains_exactly(&package, &files).unwrap());
        write(&package, &files).unwrap();
        assert!(contains_exactly(&package, &files).unwrap());
        assert!(!package.join("docs/old.md").exists());
    }
}
