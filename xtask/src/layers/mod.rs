//! Checks that each layer of the library uses only those below it, and that its files, and those of the crate that
//! publishes models, do not use each other in cycles.
//!
//! The table in the documentation of `src/lib.rs` lists the layers from top to bottom. Rows without a name belong to
//! the layer above them. `docs/architecture.md` has the same table.
//!
//! The checks read imports and paths as follows:
//!
//! - A file uses another one if it names something that the other one defines. A name that is re-exported belongs to
//!   the file that defines it: a module that uses a type of its parent's `mod.rs` uses this file, but not if the parent
//!   only passes on the name of a sibling.
//! - `mod x;` is no use: a parent may declare modules that use the parent.
//! - `pub use` is a use for the order of the layers. For cycles it is one only if the file contains the name once more:
//!   a file that passes a name on does not depend on what it means.
//! - Code below `#[cfg(test)]` and comments are left out. So is `lib.rs`, which has only declarations and re-exports.
//! - Methods are not seen, because they need no import, nor is the code that a macro of the library generates.

mod cycles;
mod graph;
mod module;
mod table;
mod tokens;

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use crate::sources;
use graph::{Graph, Use};
use table::Table;

/// Two files of a folder may use each other, such as a type and its parser. Longer cycles, and those between folders,
/// make it impossible to understand, test or move one file without the others.
const MAX_FILES: usize = 2;

#[test]
fn both_tables_of_the_layers_are_the_same() {
    let documentation = fs::read_to_string(sources::root().join("docs/architecture.md")).unwrap();
    let expected = library_table().rows().join("\n");
    assert!(
        documentation.contains(&format!("\n\n{expected}\n\n")),
        "docs/architecture.md must have the table of src/lib.rs:\n{expected}"
    );
}

#[test]
fn the_table_lists_every_top_level_module_and_only_modules_that_exist() {
    let (table, graph) = (library_table(), library());
    let top_level = graph.files().iter().filter(|(module, file)| !module.contains("::") && *file != "lib.rs");
    let missing: Vec<_> = top_level.map(|(module, _)| module).filter(|it| table.layer_of(it).is_none()).collect();
    assert!(missing.is_empty(), "the table of layers in src/lib.rs does not list {missing:?}");
    let unknown: Vec<_> = table.modules().filter(|module| !graph.files().contains_key(*module)).collect();
    assert!(unknown.is_empty(), "the table of layers in src/lib.rs lists {unknown:?}, which do not exist");
}

#[test]
fn each_layer_uses_only_those_below_it() {
    let (table, graph) = (library_table(), library());
    let layer = |file: &str| table.layer_of(&module_of(file));
    let upward = graph.uses().into_iter().filter_map(|found| {
        let (own, other) = (layer(&found.from)?, layer(&found.to)?);
        let Use { from, line, to, .. } = found;
        let (own_name, other_name) = (table.name(own), table.name(other));
        (other < own).then(|| format!("src/{from}:{line} ({own_name}) uses src/{to} ({other_name})"))
    });
    let upward: Vec<_> = upward.collect();
    assert!(upward.is_empty(), "{} uses of a higher layer:\n{}", upward.len(), upward.join("\n"));
}

#[test]
fn only_pairs_of_files_in_one_folder_use_each_other() {
    let publish = Graph::read(&sources::root().join("publish/src"));
    let described: Vec<_> = [("src", library()), ("publish/src", &publish)]
        .into_iter()
        .flat_map(|(at, graph)| cycles_in(at, graph))
        .collect();
    assert!(described.is_empty(), "{}", described.join("\n"));
}

/// Describes the cycles in a crate that are too long or between folders.
fn cycles_in(sources: &str, graph: &Graph) -> Vec<String> {
    let uses: Vec<_> = graph.uses().into_iter().filter(|found| !found.is_reexport && found.from != "lib.rs").collect();
    let cycles = cycles::cycles(uses.iter().map(|found| (found.from.as_str(), found.to.as_str())));
    let refused = cycles.into_iter().filter(|files| files.len() > MAX_FILES || !in_one_folder(files));
    let described = refused.map(|files| {
        let own = uses.iter().filter(|found| files.contains(found.from.as_str()) && files.contains(found.to.as_str()));
        let lines: Vec<_> =
            own.map(|Use { from, line, to, .. }| format!("  {sources}/{from}:{line} uses {sources}/{to}")).collect();
        format!("{} files use each other:\n{}", files.len(), lines.join("\n"))
    });
    described.collect()
}

/// The library, which is read once for all tests.
fn library() -> &'static Graph {
    static LIBRARY: LazyLock<Graph> = LazyLock::new(|| Graph::read(&sources::root().join("src")));
    &LIBRARY
}

fn library_table() -> Table {
    Table::parse(&fs::read_to_string(sources::root().join("src/lib.rs")).unwrap())
}

/// The path of the module of a file: `codec::zstd` for `codec/zstd.rs`, `codec` for `codec/mod.rs`.
fn module_of(file: &str) -> String {
    file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::")
}

/// Whether the files are in the same folder below `src/`. A file `x.rs` also belongs to the folder `x/`.
fn in_one_folder(files: &BTreeSet<&str>) -> bool {
    let folders = |file: &str| {
        let parent = file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        [parent, file.strip_suffix(".rs").map(str::to_owned)].into_iter().flatten().collect::<BTreeSet<_>>()
    };
    let shared = files.iter().map(|file| folders(file)).reduce(|some, other| &some & &other);
    shared.is_none_or(|shared| !shared.is_empty())
}
