//! `cargo xtask docs`: builds the documentation site with mdBook. All its links are relative, so that any folder of any
//! server can have it.

mod documents;
mod navigation;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weightstream_cli::serve::Server;

use crate::project::Project;
use crate::{cargo_tools, command, package, reference, rustdoc};
use documents::Documents;

/// The configuration of mdBook, the template of pages, and the scripts and styles of the site.
const CONFIGURATION: &str = "www/docs";

const ICON: &str = "www/icon.svg";

/// The model of the live examples, and its URL.
const MODEL: (&str, &str) = ("tests/fixtures/ztensor/zt123_zstd_sha.zt", "docs/model/net.zt");

/// A page that only the site has: the entries of both references.
const REFERENCES: &str = "api.md";

/// mdBook needs a second or two. Its build is not optimised.
const BUILD_LIMIT: Duration = Duration::from_secs(180);

/// The default port of `--serve`. If it is in use, a free one is chosen.
const DEFAULT_PORT: u16 = 8090;

/// A file that every site has. A folder with other files and without this one is not replaced.
const MARK: &str = "pkg/weightstream.js";

/// Builds the site in a folder, by default `docs-site` in the target folder, and returns that folder.
pub fn build(project: &Project, out: Option<PathBuf>) -> Result<PathBuf> {
    let default = project.target.join("docs-site");
    let out = out.map_or(Ok(default.clone()), std::path::absolute)?;
    ensure!(out == default || is_replaceable(&out)?, "{} has other files: delete them first", out.display());
    let package = package::build(project)?;
    let reference = reference::build(project)?;
    let rustdoc = rustdoc::published(project)?;
    let mdbook = cargo_tools::mdbook(project)?.join("mdbook");

    let _lock = project.lock()?;
    let book = write_book(project)?;
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&book).arg("--dest-dir").arg(&out);
    if !project.repository.is_empty() {
        build.env("MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL", &project.repository);
    }
    let log = command::both_outputs(&mut build, BUILD_LIMIT)?;
    ensure!(!log.contains("WARN"), "mdBook warns:\n{log}");

    copy_folder(&package, &out.join("pkg"), &|name| name.ends_with(".js") || name.ends_with(".wasm"))?;
    copy_folder(&reference, &out.join("reference"), &|_| true)?;
    copy_folder(&rustdoc, &out.join("rustdoc"), &|name| !name.starts_with('.'))?;
    copy(&project.root.join(MODEL.0), &out.join(MODEL.1))?;
    eprintln!("docs: the site is in {}", out.display());
    Ok(out)
}

/// Serves a site until the process is interrupted.
pub fn serve(site: &Path) -> Result<()> {
    let server = || Server::new().mount("/", site);
    let bound = match server().bind(("127.0.0.1", DEFAULT_PORT)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => server().bind("127.0.0.1:0")?,
        bound => bound?,
    };
    println!("{}/", bound.url());
    eprintln!("docs: open this URL in a browser; press Ctrl-C to stop the server");
    bound.run();
    Ok(())
}

fn is_replaceable(folder: &Path) -> Result<bool> {
    Ok(!folder.exists() || folder.join(MARK).is_file() || fs::read_dir(folder)?.next().is_none())
}

/// Writes what mdBook reads, and returns the folder.
fn write_book(project: &Project) -> Result<PathBuf> {
    let book = project.target.join("docs-book");
    if book.exists() {
        fs::remove_dir_all(&book)?;
    }
    copy_folder(&project.root.join(CONFIGURATION), &book, &|_| true)?;
    copy(&project.root.join(ICON), &book.join("theme/favicon.svg"))?;

    let mut documents = Documents::collect(&project.root, &project.repository)?;
    documents.add(REFERENCES, references(project)?);
    let source = book.join("src");
    documents.write(&project.root, &source)?;
    fs::write(source.join("SUMMARY.md"), navigation::summary(&documents, REFERENCES)?)?;
    Ok(book)
}

/// The page with the entries of both references.
fn references(project: &Project) -> Result<String> {
    let mut page = String::from(
        "# API reference\n\n\
         - JavaScript and TypeScript: [weightstream](reference/index.html) and all its entry points\n",
    );
    for (name, description) in crate::release::described(project)? {
        let folder = name.replace('-', "_");
        page.push_str(&format!("- Rust: [{name}](rustdoc/{folder}/index.html). {description}\n"));
    }
    Ok(page)
}

fn copy_folder(from: &Path, to: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to.join(name), is_wanted)?;
        } else if is_wanted(&name.to_string_lossy()) {
            copy(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.with_file_name(""))?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_files_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_replaceable(&folder.path().join("new")).unwrap() && is_replaceable(folder.path()).unwrap());
        fs::write(folder.path().join("letter.txt"), "").unwrap();
        assert!(!is_replaceable(folder.path()).unwrap());
        copy(&folder.path().join("letter.txt"), &folder.path().join(MARK)).unwrap();
        assert!(is_replaceable(folder.path()).unwrap());
    }
}
