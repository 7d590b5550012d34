//! The files of the npm package: those that `pkg.json` lists, the bundled scripts, and `package.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bundle;
use crate::project::Project;

/// A file of the package: its path relative to the root of the package, and its bytes.
pub type File = (String, Vec<u8>);

/// Collects the files of the package. Files that are neither in `built` nor in `src/js` have the same path in the
/// repository.
pub fn collect(project: &Project, manifest: &Value, built: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(built.join(bundle::SCRIPTS))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a script without a name")?;
        files.push((name.to_owned(), fs::read(&path)?));
    }
    files.sort();
    for name in listed(manifest)? {
        let sources = [built.join(name), project.root.join("src/js").join(name), project.root.join(name)];
        let source = sources.iter().find(|source| source.is_file());
        let source = source.with_context(|| format!("pkg.json lists {name}, which does not exist"))?;
        files.push((name.to_owned(), fs::read(source)?));
    }
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    files.push(("package.json".to_owned(), package_json(project, manifest, &names)?));
    Ok(files)
}

/// The paths in the list `files` of a manifest. That of pkg.json lacks bundled scripts, that of the package has all
/// files but `package.json` itself.
pub fn listed(manifest: &Value) -> Result<Vec<&str>> {
    let names = manifest.get("files").and_then(Value::as_array).context("pkg.json has no list `files`")?;
    names.iter().map(|name| name.as_str().context("pkg.json: a file name is not a string")).collect()
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
    Ok(package.is_dir() && files_below(package)?.len() == files.len() && files.iter().all(is_same))
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

/// `pkg.json` with the names of all files and the links that are derived from the `repository` in Cargo.toml.
fn package_json(project: &Project, manifest: &Value, names: &[&str]) -> Result<Vec<u8>> {
    let mut manifest = manifest.clone();
    if let Some(fields) = manifest.as_object_mut() {
        fields.insert("files".to_owned(), names.into());
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
