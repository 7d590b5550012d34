//! What is not listed, and why.

use std::collections::BTreeMap;

/// The number of names that a warning has.
const MAX_NAMES: usize = 8;

/// Objects that are not read, by the reason.
#[derive(Debug, Default)]
pub(super) struct Refused {
    datasets: BTreeMap<&'static str, Names>,
    links: Names,
    heaps: Names,
    again: Names,
}

/// A number of objects, and the names of the first ones.
#[derive(Debug, Default)]
struct Names {
    count: u64,
    first: Vec<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < MAX_NAMES {
            self.first.push(name.chars().take(100).collect());
        }
    }

    fn first_name(&self) -> Option<&str> {
        self.first.first().map(String::as_str)
    }

    fn warning(&self, what: &str) -> Option<String> {
        let more = self.count.saturating_sub(self.first.len() as u64);
        let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (self.count > 0).then(|| format!("not listed: {what}: {}{and_more}", self.first.join(", ")))
    }
}

impl Refused {
    pub(super) fn dataset(&mut self, reason: &'static str, path: &str) {
        self.datasets.entry(reason).or_default().add(path);
    }

    pub(super) fn link(&mut self, path: &str) {
        self.links.add(path);
    }

    pub(super) fn heap(&mut self, path: &str) {
        self.heaps.add(if path.is_empty() { "/" } else { path });
    }

    pub(super) fn again(&mut self, path: &str) {
        self.again.add(path);
    }

    /// Adds what was not read of a group.
    pub(super) fn extend(&mut self, other: Refused) {
        for (names, more) in [(&mut self.links, other.links), (&mut self.heaps, other.heaps)] {
            names.count += more.count;
            let left = MAX_NAMES.saturating_sub(names.first.len());
            names.first.extend(more.first.into_iter().take(left));
        }
    }

    /// The first object that is not read, and why.
    pub(super) fn first(&self) -> Option<(&'static str, &str)> {
        let dataset = self.datasets.iter().find_map(|(reason, names)| Some((*reason, names.first_name()?)));
        dataset.or_else(|| Some(("has its links in a fractal heap", self.heaps.first_name()?)))
    }

    /// The warnings.
    pub(super) fn warnings(&self) -> Vec<String> {
        let datasets = self.datasets.iter().map(|(reason, names)| names.warning(&format!("datasets ({reason})")));
        let others = [
            self.links.warning("soft and external links"),
            self.heaps.warning("the links of groups in fractal heaps"),
            self.again.warning("groups that other links have listed"),
        ];
        datasets.chain(others).flatten().collect()
    }
}
