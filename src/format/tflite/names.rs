//! Gives each tensor a name of its own.

use std::collections::HashSet;

/// The names that are taken.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

impl Names {
    /// The name of a tensor, with what distinguishes it from the ones before.
    pub(super) fn unique(&mut self, prefix: &str, name: &str, subgraph: u64, tensor: u64) -> String {
        let candidates = [
            format!("{prefix}{name}"),
            format!("{prefix}subgraph_{subgraph}/{name}"),
            format!("{prefix}subgraph_{subgraph}/{name}#{tensor}"),
        ];
        let is_free = |candidate: &String| !name.is_empty() && !self.0.contains(candidate);
        let [_, _, last] = &candidates;
        let unique = candidates.iter().find(|candidate| is_free(candidate)).unwrap_or(last).clone();
        self.0.insert(unique.clone());
        unique
    }
}
