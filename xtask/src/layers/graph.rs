//! Which file uses which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::module::{Import, Module, joined, modules};

/// The modules of a crate and their files.
pub(super) struct Graph {
    modules: BTreeMap<String, Module>,
    files: BTreeMap<String, String>,
}

/// A place where one file uses another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) from: String,
    pub(super) line: usize,
    pub(super) to: String,
    /// Whether the file only passes a name on.
    pub(super) is_reexport: bool,
}

/// What a path leads to, in or as a module.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    ItemOf(String),
    Module(String),
}

/// The maximum length of a chain of re-exports. Globs may refer to each other without end.
const MAX_CHAIN: usize = 12;

impl Graph {
    /// Reads all modules of the crate whose `lib.rs` is in this folder, except for those of tests.
    pub(super) fn read(sources: &Path) -> Self {
        let mut graph = Graph { modules: BTreeMap::new(), files: BTreeMap::new() };
        let mut unread = vec![(String::new(), "lib.rs".to_owned())];
        while let Some((path, file)) = unread.pop() {
            let found = modules(&path, &fs::read_to_string(sources.join(&file)).unwrap());
            let is_found = |path: &String| found.iter().any(|module| module.path == *path);
            let children =
                found.iter().flat_map(|module| module.children.iter().map(|name| joined(&module.path, name)));
            for child in children.filter(|child| !is_found(child)) {
                let base = child.replace("::", "/");
                let candidates = [format!("{base}.rs"), format!("{base}/mod.rs")];
                let file = candidates.into_iter().find(|file| sources.join(file).is_file());
                unread.push((child.clone(), file.unwrap_or_else(|| panic!("the module {child} has no file"))));
            }
            graph.files.extend(found.iter().map(|module| (module.path.clone(), file.clone())));
            graph.modules.extend(found.into_iter().map(|module| (module.path.clone(), module)));
        }
        graph
    }

    /// The file of each module.
    pub(super) fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }

    /// All uses of other files.
    pub(super) fn uses(&self) -> BTreeSet<Use> {
        let all = self.modules.values().flat_map(|module| {
            let from = &self.files[&module.path];
            self.uses_of(module).into_iter().filter_map(move |(to, line, is_reexport)| {
                let to = self.files[&to].clone();
                (to != *from).then(|| Use { from: from.clone(), line, to, is_reexport })
            })
        });
        all.collect()
    }

    /// The modules whose items a module uses, with the line, and whether it only passes their names on.
    fn uses_of(&self, module: &Module) -> Vec<(String, usize, bool)> {
        let mut uses = Vec::new();
        for import in &module.imports {
            for target in self.resolve(&module.path, &import.path, 0) {
                match target {
                    Target::ItemOf(of) => {
                        uses.push((of, import.line, import.is_public && !module.words.contains_key(&import.name)));
                    }
                    Target::Module(of) if import.name == "*" => {
                        for (word, line) in &module.words {
                            let found = self.resolve_in(&of, std::slice::from_ref(word), 0);
                            uses.extend(found.into_iter().filter_map(item).map(|of| (of, *line, false)));
                        }
                        uses.extend(import.is_public.then_some((of, import.line, true)));
                    }
                    Target::Module(_) => {} // what counts are the paths that begin with it
                }
            }
        }
        for (path, line) in &module.paths {
            let found = self.resolve(&module.path, path, 0);
            uses.extend(found.into_iter().filter_map(item).map(|of| (of, *line, false)));
        }
        for (name, line) in &module.arguments {
            for target in self.resolve(&module.path, std::slice::from_ref(name), 0) {
                let (Target::ItemOf(of) | Target::Module(of)) = target;
                uses.push((of, *line, false));
            }
        }
        uses
    }

    /// What a path in the code of a module leads to; nothing if it begins with another crate.
    fn resolve(&self, module: &str, path: &[String], chain: usize) -> BTreeSet<Target> {
        let (mut start, mut rest) = (module, path);
        while let Some((first, after)) = rest.split_first() {
            start = match first.as_str() {
                "crate" => "",
                "self" => start,
                "super" => start.rsplit_once("::").map_or("", |(parent, _)| parent),
                _ => break,
            };
            rest = after;
        }
        if rest.len() == path.len() {
            self.resolve_in(module, path, chain)
        } else {
            self.item_or_module(start, rest, chain)
        }
    }

    /// Like [`Graph::resolve_in`], for a path that certainly exists: a macro defines what is not found.
    fn item_or_module(&self, module: &str, path: &[String], chain: usize) -> BTreeSet<Target> {
        let found = self.resolve_in(module, path, chain);
        if found.is_empty() { BTreeSet::from([Target::ItemOf(module.to_owned())]) } else { found }
    }

    /// What a path below a module leads to; nothing if the module does not have the first name. Different features may
    /// define a name in different places.
    fn resolve_in(&self, module: &str, path: &[String], chain: usize) -> BTreeSet<Target> {
        let Some((first, rest)) = path.split_first() else {
            return BTreeSet::from([Target::Module(module.to_owned())]);
        };
        let Some(known) = self.modules.get(module).filter(|_| chain < MAX_CHAIN) else { return BTreeSet::new() };
        if known.children.contains(first) {
            return self.item_or_module(&joined(module, first), rest, chain);
        }
        if known.items.contains(first) {
            return BTreeSet::from([Target::ItemOf(module.to_owned())]);
        }
        let is_other_crate = |import: &&Import| import.path.first() == Some(first);
        let mut named = known.imports.iter().filter(|import| import.name == *first).peekable();
        if named.peek().is_some() {
            let paths = named.filter(|import| !is_other_crate(import)).map(|import| [&import.path, rest].concat());
            return paths.flat_map(|path| self.resolve(module, &path, chain + 1)).collect();
        }
        let globs = known.imports.iter().filter(|import| import.name == "*" && !is_other_crate(import));
        let found = globs.flat_map(|import| self.resolve(module, &import.path, chain + 1));
        let inside = found.filter_map(|target| match target {
            Target::Module(of) if of != module => Some(self.resolve_in(&of, path, chain + 1)),
            _ => None,
        });
        inside.flatten().collect()
    }
}

fn item(target: Target) -> Option<String> {
    match target {
        Target::ItemOf(module) => Some(module),
        Target::Module(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_the_file_that_defines_it() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::inner::Inner;"),
            ("a/mod.rs", "pub mod inner;\npub use inner::{Inner, Other};\npub struct Own;\nfn f(_: Other) {}"),
            ("a/inner.rs", "use super::Own;\npub struct Inner;\npub struct Other;"),
            ("b.rs", "use crate::a::{self, Inner};\nuse std::fmt;\nfn f() -> fmt::Result { a::Own; a::inner::made() }"),
        ];
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        let graph = Graph::read(folder.path());
        assert_eq!(graph.files().keys().collect::<Vec<_>>(), ["", "a", "a::inner", "b"]);
        let uses = graph.uses();
        let found: Vec<_> =
            uses.iter().map(|Use { from, line, to, is_reexport }| (&**from, *line, &**to, *is_reexport)).collect();
        let expected = [
            ("a/inner.rs", 1, "a/mod.rs", false),
            ("a/mod.rs", 2, "a/inner.rs", false),
            ("a/mod.rs", 2, "a/inner.rs", true),
            ("b.rs", 1, "a/inner.rs", false),
            ("b.rs", 3, "a/inner.rs", false),
            ("b.rs", 3, "a/mod.rs", false),
            ("lib.rs", 3, "a/inner.rs", true),
        ];
        assert_eq!(found, expected);
    }
}
