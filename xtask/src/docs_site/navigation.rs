//! The navigation of the site, which follows the index of the documentation: each heading of it is a part, and each
//! document is where the index links to it first.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::documents::{CONTRIBUTING, Documents, HOME, INDEX, on_site};

/// The part of the index that also has the references of both APIs, at its start.
const PART_WITH_REFERENCES: &str = "Look up";

/// The `SUMMARY.md` of mdBook. `references` is the path of the page with the references.
pub(super) fn summary(documents: &Documents, references: &str) -> Result<String> {
    let mut navigation = Navigation { documents, seen: BTreeSet::new(), summary: String::from("# Summary\n\n") };
    for path in [HOME, INDEX] {
        navigation.add(path, "")?;
    }
    let mut has_references = false;
    for part in documents.text(INDEX)?.split("\n## ").skip(1) {
        let heading = part.lines().next().unwrap_or_default();
        navigation.begin(heading);
        if heading == PART_WITH_REFERENCES {
            navigation.add(references, "- ")?;
            has_references = true;
        }
        for path in documents.linked_from(INDEX, part)? {
            navigation.add(&path, "- ")?;
        }
    }
    ensure!(has_references, "{INDEX} has no heading {PART_WITH_REFERENCES:?}");
    navigation.begin("Contribute");
    navigation.add(CONTRIBUTING, "- ")?;
    for path in documents.paths() {
        navigation.add(path, "- ")?;
    }
    Ok(navigation.summary)
}

struct Navigation<'a> {
    documents: &'a Documents,
    seen: BTreeSet<String>,
    summary: String,
}

impl Navigation<'_> {
    fn begin(&mut self, part: &str) {
        self.summary.push_str(&format!("\n# {part}\n\n"));
    }

    /// Adds a document, unless the navigation has it, and below it those of its folder: `a/b.md` below `a.md`.
    fn add(&mut self, path: &str, bullet: &str) -> Result<()> {
        if !self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        self.summary.push_str(&format!("{bullet}[{}]({})\n", self.documents.title(path)?, on_site(path)));
        let folder = format!("{}/", path.trim_end_matches(".md"));
        for below in self.documents.linked_from(path, self.documents.text(path)?)? {
            if below.starts_with(&folder) {
                self.add(&below, &format!("  {bullet}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;

    #[test]
    fn every_document_is_once_in_the_navigation_in_the_order_of_the_index() {
        let mut documents = Documents::collect(&sources::root(), "https://example.org").unwrap();
        documents.add("api.md", "# API reference".to_owned());
        let summary = summary(&documents, "api.md").unwrap();
        for path in documents.paths() {
            assert_eq!(summary.matches(&format!("]({})", on_site(path))).count(), 1, "{path}\n{summary}");
        }
        let parts: Vec<_> = summary.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        assert_eq!(parts, ["Summary", "Learn", "Do", "Look up", "Runtimes", "Contribute"]);
        assert!(summary.contains("\n- [Environments](docs/environments.md)\n  - ["), "{summary}");
        assert!(summary.find("](docs/javascript.md)").unwrap() < summary.find("# Do").unwrap());
    }
}
