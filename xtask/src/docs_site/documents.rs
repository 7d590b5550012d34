//! The documents of the site: the Markdown files that the README and the index of the documentation link to, directly
//! or not, and their images. They have the same paths as in the repository, so most links stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::links;

pub(super) const HOME: &str = "README.md";
pub(super) const INDEX: &str = "docs/README.md";
pub(super) const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// Documents that the README names, also those that it does not link to.
const FIRST: [&str; 3] = [HOME, INDEX, CONTRIBUTING];

/// The files that the site has besides documents.
const IMAGES: [&str; 2] = [".png", ".svg"];

/// The documents of the site.
pub(super) struct Documents {
    /// Their text by their path.
    texts: BTreeMap<String, String>,
    /// Other files that they link to, and their paths on the site.
    files: BTreeMap<String, String>,
}

impl Documents {
    /// Collects the documents of the repository at `root`. Links to files that the site does not have lead to the
    /// repository at the URL `repository`.
    pub(super) fn collect(root: &Path, repository: &str) -> Result<Self> {
        let mut documents = Documents { texts: BTreeMap::new(), files: BTreeMap::new() };
        let mut paths = FIRST.map(str::to_owned).to_vec();
        while let Some(path) = paths.pop() {
            if documents.texts.contains_key(&path) {
                continue;
            }
            let mut text = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
            let targets: BTreeSet<_> = links::targets(&text).map(str::to_owned).collect();
            for target in targets {
                let Some(linked) = linked_file(&path, &target)? else { continue };
                match place_of(&linked) {
                    Place::Document => paths.push(linked),
                    Place::Copy => drop(documents.files.insert(linked.clone(), linked)),
                    Place::Text => {
                        text = relinked(&text, &target, &format!("{target}.txt"));
                        documents.files.insert(linked.clone(), format!("{linked}.txt"));
                    }
                    Place::Repository => {
                        ensure!(
                            !repository.is_empty(),
                            "{path} links to {linked}, which is not on the site: Cargo.toml has to state `repository`"
                        );
                        let url = format!("{}/blob/HEAD/{linked}", repository.trim_end_matches('/'));
                        text = relinked(&text, &target, &url);
                    }
                }
            }
            documents.texts.insert(path, text);
        }
        Ok(documents)
    }

    /// Adds a document that the repository does not have.
    pub(super) fn add(&mut self, path: &str, text: String) {
        self.texts.insert(path.to_owned(), text);
    }

    /// The paths of all documents.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }

    /// The documents that a document, or a part of it, links to, in this order.
    pub(super) fn linked_from(&self, path: &str, part: &str) -> Result<Vec<String>> {
        let files = links::targets(part).map(|target| linked_file(path, target));
        let files: Vec<_> = files.filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(files.into_iter().filter(|file| self.texts.contains_key(file)).collect())
    }

    pub(super) fn text(&self, path: &str) -> Result<&str> {
        self.texts.get(path).map(String::as_str).with_context(|| format!("the site has no document {path}"))
    }

    /// The first heading of a document.
    pub(super) fn title(&self, path: &str) -> Result<&str> {
        let heading = self.text(path)?.lines().find_map(|line| line.strip_prefix("# "));
        heading.with_context(|| format!("{path} has no heading"))
    }

    /// Writes the documents to a folder, and copies other files from the repository.
    pub(super) fn write(&self, root: &Path, folder: &Path) -> Result<()> {
        for (path, text) in &self.texts {
            let copy = folder.join(on_site(path));
            fs::create_dir_all(copy.with_file_name(""))?;
            fs::write(copy, self.with_links_of_the_site(path, text)?)?;
        }
        for (path, copy) in &self.files {
            super::copy(&root.join(path), &folder.join(copy))?;
        }
        Ok(())
    }

    /// The text of a document with the titles of others in place of their file names, such as `[Caching](caching.md)`,
    /// and links to where the site has them.
    fn with_links_of_the_site(&self, path: &str, text: &str) -> Result<String> {
        let mut titled = text.to_owned();
        for target in links::targets(text).collect::<BTreeSet<_>>() {
            let Some(linked) = linked_file(path, target)?.filter(|linked| self.texts.contains_key(linked)) else {
                continue;
            };
            let name = target.split('#').next().unwrap_or(target);
            titled = titled.replace(&format!("[{name}]({target})"), &format!("[{}]({target})", self.title(&linked)?));
            titled = relinked(&titled, target, &target.replacen(name, &on_site(name), 1));
        }
        Ok(titled)
    }
}

/// The path of a document on the site. A `README.md` is the page of its folder.
pub(super) fn on_site(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// What the site has in place of a file of the repository.
#[derive(Debug, PartialEq)]
enum Place {
    Document,
    Copy,
    /// A copy with an extension, from which servers know that it is text.
    Text,
    /// Nothing: the file is only in the repository.
    Repository,
}

fn place_of(path: &str) -> Place {
    let name = path.rsplit('/').next().unwrap_or(path);
    match path {
        _ if path.ends_with(".md") => Place::Document,
        _ if IMAGES.iter().any(|extension| path.ends_with(extension)) => Place::Copy,
        _ if name.starts_with("LICENSE") => Place::Text,
        _ => Place::Repository,
    }
}

/// The file that a link leads to, `None` if it leads to another site or to a heading of the same document.
fn linked_file(document: &str, target: &str) -> Result<Option<String>> {
    let path = target.split('#').next().unwrap_or(target);
    if path.is_empty() || links::is_absolute(target) {
        return Ok(None);
    }
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    links::joined(folder, path).map(Some).with_context(|| format!("{document}: the link {target} leaves the root"))
}

fn relinked(text: &str, from: &str, to: &str) -> String {
    text.replace(&format!("]({from})"), &format!("]({to})")).replace(&format!("\"{from}\""), &format!("\"{to}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(readme: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs")).unwrap();
        let files =
            [(HOME, readme), (INDEX, "# Index\n[rust](rust.md#a)"), (CONTRIBUTING, "# C"), ("docs/rust.md", "# Rust")];
        for (path, text) in files {
            fs::write(root.path().join(path), text).unwrap();
        }
        root
    }

    #[test]
    fn the_site_has_what_documents_link_to() {
        let root = repository("# Home\n[MIT](LICENSE-MIT) ![a](www/a.png) [other](https://example.org/a.md) [h](#h)");
        let documents = Documents::collect(root.path(), "").unwrap();
        assert_eq!(documents.paths().collect::<Vec<_>>(), [CONTRIBUTING, HOME, INDEX, "docs/rust.md"]);
        assert!(documents.text(HOME).unwrap().contains("[MIT](LICENSE-MIT.txt) ![a](www/a.png)"));
        assert_eq!(documents.files["LICENSE-MIT"], "LICENSE-MIT.txt");
        assert_eq!(documents.files["www/a.png"], "www/a.png");
        assert_eq!(documents.title("docs/rust.md").unwrap(), "Rust");
    }

    #[test]
    fn links_have_titles_and_lead_to_the_pages_of_folders() {
        let root = repository("# Home\n[docs/rust.md](docs/rust.md) and [all](docs/README.md#e)");
        let documents = Documents::collect(root.path(), "").unwrap();
        let site = tempfile::tempdir().unwrap();
        documents.write(root.path(), site.path()).unwrap();
        let home = fs::read_to_string(site.path().join("index.md")).unwrap();
        assert_eq!(home, "# Home\n[Rust](docs/rust.md) and [all](docs/index.md#e)");
    }

    #[test]
    fn links_to_other_files_lead_to_the_repository() {
        let root = repository("# Home\n[source](src/lib.rs)");
        let documents = Documents::collect(root.path(), "https://example.org/o/w/").unwrap();
        assert!(documents.text(HOME).unwrap().contains("[source](https://example.org/o/w/blob/HEAD/src/lib.rs)"));
        let error = Documents::collect(root.path(), "").err().unwrap().to_string();
        assert!(error.contains("README.md links to src/lib.rs"), "{error}");
    }
}
