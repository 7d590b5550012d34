//! Checks that every link of the site leads to a file and an element of it. TypeDoc and rustdoc check the links inside
//! of their references, so only their entry pages are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use xtask::links;

/// The folders of the references, and which of their pages are entries.
const REFERENCES: [(&str, usize); 2] = [("reference/", 2), ("rustdoc/", 3)];

/// Checks all pages, and returns the number of links within the site.
pub(super) fn check(site: &Path) -> Result<usize> {
    let mut files = BTreeSet::new();
    collect(site, "", &mut files)?;
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(|path| path.ends_with(".html")) {
        pages.insert(path.as_str(), Links::of(&fs::read_to_string(site.join(path))?));
    }
    let (mut count, mut dead) = (0, Vec::new());
    for (path, page) in pages.iter().filter(|(path, _)| is_checked(path)) {
        for target in page.targets.iter().filter(|target| !leads_away(target)) {
            count += 1;
            if let Err(error) = resolve(&files, &pages, path, target) {
                dead.push(format!("{path}: the link to {target} is dead: {error}"));
            }
        }
    }
    ensure!(dead.is_empty(), "{} links are dead:\n{}", dead.len(), dead.join("\n"));
    Ok(count)
}

/// Adds the paths of all files below a folder of the site.
fn collect(site: &Path, folder: &str, files: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(site.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(site, &format!("{path}/"), files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

fn is_checked(page: &str) -> bool {
    let is_entry = |depth| page.ends_with("/index.html") && page.split('/').count() == depth;
    REFERENCES.iter().all(|(folder, depth)| !page.starts_with(folder) || is_entry(*depth))
}

fn leads_away(target: &str) -> bool {
    links::is_absolute(target) || target.starts_with("data:")
}

fn resolve(files: &BTreeSet<String>, pages: &BTreeMap<&str, Links>, page: &str, target: &str) -> Result<()> {
    ensure!(!target.starts_with('/'), "it does not work below a path");
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path.split('?').next().unwrap_or(path);
    let mut file = match path {
        "" => page.to_owned(),
        path => {
            let folder = Path::new(page).parent().unwrap_or(Path::new(""));
            links::joined(folder, path).context("it leaves the site")?
        }
    };
    if path.ends_with('/') || file.is_empty() {
        file = format!("{file}/index.html").trim_start_matches('/').to_owned();
    }
    ensure!(files.contains(&file), "the file {file} does not exist");
    // The anchors of sources are ranges of lines, which a script of rustdoc shows.
    let has_anchors = !anchor.is_empty() && !file.starts_with("rustdoc/src/");
    if let Some(linked) = pages.get(file.as_str()).filter(|_| has_anchors) {
        ensure!(linked.anchors.contains(anchor), "{file} has no element #{anchor}");
    }
    Ok(())
}

/// The links of a page, and the elements that links lead to.
struct Links {
    targets: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Links {
    fn of(html: &str) -> Self {
        let (mut targets, mut anchors) = (Vec::new(), BTreeSet::new());
        for tag in tags(html) {
            targets.extend([" href=\"", " src=\""].iter().filter_map(|name| attribute(tag, name)));
            anchors.extend([" id=\"", " name=\""].iter().filter_map(|name| attribute(tag, name)));
        }
        Links { targets, anchors }
    }
}

/// The opening tags of a page, without those in scripts.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    let outside = html.split("<script").enumerate().flat_map(|(at, part)| {
        let (script, rest) = part.split_once("</script>").unwrap_or((part, ""));
        let opening = script.split('>').next().unwrap_or(script);
        if at == 0 { ["", part] } else { [opening, rest] }
    });
    outside.flat_map(|part| part.split('<').filter_map(|tag| tag.split('>').next()))
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, value) = tag.split_once(name)?;
    Some(value.split('"').next().unwrap_or(value).replace("&amp;", "&").replace("%20", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(home: &str) -> tempfile::TempDir {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir_all(site.path().join("docs")).unwrap();
        fs::write(site.path().join("index.html"), home).unwrap();
        fs::write(site.path().join("docs/a.html"), "<h1 id=\"top\">A</h1><a href=\"../index.html\">home</a>").unwrap();
        site
    }

    #[test]
    fn counts_links_within_the_site() {
        let home = "<a class=\"b\" href=\"docs/a.html#top\">a</a> <a href=\"https://example.org/\">b</a>\n\
                    <script src=\"docs/a.html\">'<a href=\"missing.html\">'</script>";
        assert_eq!(check(site(home).path()).unwrap(), 3);
    }

    #[test]
    fn reports_missing_files_and_anchors_and_links_that_need_the_root() {
        for (link, reason) in [
            ("docs/b.html", "the file docs/b.html does not exist"),
            ("docs/a.html#end", "docs/a.html has no element #end"),
            ("/docs/a.html", "it does not work below a path"),
            ("../a.html", "it leaves the site"),
        ] {
            let error = check(site(&format!("<a href=\"{link}\">a</a>")).path()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
