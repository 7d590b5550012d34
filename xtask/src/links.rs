//! Checks that relative links and images in Markdown files lead to files and headings that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

use anyhow::{Context, Result, ensure};

/// Checks every relative link of these Markdown files. The files and their link targets must be below `root`.
pub fn check(root: &Path, documents: &[String]) -> Result<()> {
    let mut dead = Vec::new();
    for document in documents {
        let text = fs::read_to_string(root.join(document)).with_context(|| document.clone())?;
        for target in targets(&text).filter(|target| !is_absolute(target)) {
            if let Err(error) = resolve(root, document, target) {
                dead.push(format!("{document}: the link to {target} is dead: {error}"));
            }
        }
    }
    ensure!(dead.is_empty(), "{}", dead.join("\n"));
    Ok(())
}

/// Whether a link leads to another site.
pub fn is_absolute(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn resolve(root: &Path, document: &str, target: &str) -> Result<()> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = match path {
        "" => document.to_owned(),
        path => joined(Path::new(document).parent().unwrap_or(Path::new("")), path).context("it leaves the root")?,
    };
    ensure!(root.join(&path).is_file(), "the file {path} does not exist");
    if let Some(anchor) = anchor {
        let text = fs::read_to_string(root.join(&path))?;
        ensure!(anchors(&text).contains(anchor), "{path} has no heading #{anchor}");
    }
    Ok(())
}

/// `path` relative to `folder`; `None` if it leaves the root.
pub fn joined(folder: &Path, path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for component in folder.join(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?.to_owned()),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// The targets of links and images: `[text](target)`, `[name]: target`, and HTML `src` and `href` attributes.
pub fn targets(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        let definition = line.trim_start().strip_prefix('[').and_then(|rest| Some(rest.split_once("]: ")?.1));
        let inline = without_code(line).flat_map(|part| part.split("](").skip(1).map(until(&[')', ' '])));
        let html = without_code(line).flat_map(|part| {
            ["src=\"", "href=\""].into_iter().flat_map(move |name| part.split(name).skip(1).map(until(&['"'])))
        });
        definition.into_iter().map(until(&[' '])).chain(inline).chain(html)
    })
}

fn until(ends: &'static [char]) -> impl Fn(&str) -> &str {
    move |text| text.split(ends).next().unwrap_or(text)
}

/// The lines outside fenced code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The parts of a line outside code spans. If the text of a link is a code span, its brackets remain.
fn without_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').step_by(2)
}

/// The anchors that GitHub and similar hosts generate for headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let is_kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let slug = |heading: &str| heading.to_lowercase().chars().filter(|&c| is_kept(c)).collect::<String>();
    headings.map(|heading| slug(heading).replace(' ', "-")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;

    #[test]
    fn every_relative_link_of_the_repository_resolves() {
        let root = sources::root();
        let documents: Vec<_> = sources::files(&root).unwrap().into_iter().filter(|f| f.ends_with(".md")).collect();
        assert!(documents.iter().any(|document| document == "README.md"));
        check(&root, &documents).unwrap();
    }

    #[test]
    fn finds_links_images_definitions_and_html_outside_code() {
        let text = "[a](one.md) ![b](two.svg \"title\") [`c`](three.md#x) `[d](code.md)` <img src=\"four.png\">\n\
                    ```\n[e](code.md)\n```\n[f]: five.md\n";
        assert_eq!(targets(text).collect::<Vec<_>>(), ["one.md", "two.svg", "three.md#x", "four.png", "five.md"]);
    }

    #[test]
    fn reports_dead_links() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("docs")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("README.md", "# A\n[b](docs/b.md#c-d) [url](https://example.org/x) [a](#a)");
        write("docs/b.md", "## C, d\n[readme](../README.md)");
        let documents = ["README.md".to_owned(), "docs/b.md".to_owned()];
        check(folder.path(), &documents).unwrap();
        for (text, reason) in [
            ("[x](docs/missing.md)", "the file docs/missing.md does not exist"),
            ("[x](docs/b.md#e)", "docs/b.md has no heading #e"),
            ("[x](../outside.md)", "it leaves the root"),
        ] {
            write("README.md", text);
            let error = check(folder.path(), &documents).unwrap_err().to_string();
            assert!(error.contains("README.md") && error.contains(reason), "{error}");
        }
    }
}
