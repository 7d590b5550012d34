//! Finds files that use each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

/// The sets of files of which each uses all others of its set, directly or through them.
pub(super) fn cycles<'a>(uses: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let mut uses: BTreeSet<_> = uses.into_iter().collect();
    remove_ends(&mut uses);
    let files: BTreeSet<_> = uses.iter().map(|(from, _)| *from).collect();
    let reached: BTreeMap<_, _> = files.into_iter().map(|file| (file, reached_from(file, &uses))).collect();
    let with_each = |(file, others): (&&str, &BTreeSet<&'a str>)| {
        others.iter().copied().filter(|other| reached.get(other).is_some_and(|back| back.contains(file))).collect()
    };
    let cycles: BTreeSet<BTreeSet<_>> = reached.iter().map(with_each).collect();
    cycles.into_iter().filter(|cycle| !cycle.is_empty()).collect()
}

/// Removes the uses by files that no file uses, and of files that use none, until there are no such files.
fn remove_ends(uses: &mut BTreeSet<(&str, &str)>) {
    loop {
        let from: BTreeSet<_> = uses.iter().map(|(from, _)| *from).collect();
        let to: BTreeSet<_> = uses.iter().map(|(_, to)| *to).collect();
        let before = uses.len();
        uses.retain(|(user, used)| to.contains(user) && from.contains(used));
        if uses.len() == before {
            return;
        }
    }
}

fn reached_from<'a>(file: &'a str, uses: &BTreeSet<(&'a str, &'a str)>) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
    while let Some(file) = next.pop() {
        let used = uses.iter().filter(|(from, _)| *from == file).map(|(_, to)| *to);
        next.extend(used.filter(|to| reached.insert(*to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_cycle_and_nothing_beside_it() {
        let uses = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("e", "f"), ("g", "a")];
        assert_eq!(cycles(uses), [BTreeSet::from(["a", "b", "c"]), BTreeSet::from(["d", "e"])]);
        assert!(cycles([("a", "b"), ("a", "c"), ("b", "c")]).is_empty());
    }
}
