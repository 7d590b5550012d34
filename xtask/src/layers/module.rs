//! Reads what a module defines and imports, and which paths its code uses.

use std::collections::BTreeMap;

use super::tokens::{Token, tokens};

/// A module. Code that is compiled only for tests is left out.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Its path without `crate`, such as `codec::zstd`. Empty for the root of the crate.
    pub(super) path: String,
    /// The names of the modules that it declares.
    pub(super) children: Vec<String>,
    /// The names of its functions, types and so on.
    pub(super) items: Vec<String>,
    pub(super) imports: Vec<Import>,
    /// Paths of at least two names in its code, each with its line.
    pub(super) paths: Vec<(Vec<String>, usize)>,
    /// The names that its code contains, each with the line of the first one.
    pub(super) words: BTreeMap<String, usize>,
    /// Names in calls of macros that make items, each with its line.
    pub(super) arguments: Vec<(String, usize)>,
}

/// A name that `use` brings into a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// What the module calls it; `*` for all names of a module.
    pub(super) name: String,
    pub(super) is_public: bool,
    pub(super) line: usize,
}

/// The modules in a file: its own, whose path is given, and those that it contains in braces.
pub(super) fn modules(path: &str, source: &str) -> Vec<Module> {
    let mut reader = Reader { tokens: tokens(source), at: 0, modules: Vec::new() };
    reader.read_module(path.to_owned());
    reader.modules
}

/// The path of a module in another one.
pub(super) fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}::{name}") }
}

/// The keywords before the name of an item. That of a macro follows `macro_rules!`.
const ITEMS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    modules: Vec<Module>,
}

impl Reader<'_> {
    /// Reads up to the end of the file, or to the brace that closes the module.
    fn read_module(&mut self, path: String) {
        let mut module = Module { path, ..Module::default() };
        let mut depth = 0_usize;
        while let Some(&token) = self.tokens.get(self.at) {
            match token.text {
                "}" if depth == 0 => break,
                "{" => depth += 1,
                "}" => depth -= 1,
                "#" if self.is_attribute() => {
                    let is_test = self.is_test_attribute();
                    self.at = self.close(self.at + 1);
                    if is_test {
                        self.at = self.item_end();
                    }
                }
                "use" if self.text(1) != "<" => self.read_use(&mut module),
                "mod" if depth == 0 && self.text(2) == ";" => {
                    module.children.push(self.text(1).to_owned());
                    self.at += 2;
                }
                "mod" if depth == 0 && self.text(2) == "{" => {
                    let name = self.text(1).to_owned();
                    self.at += 3;
                    self.read_module(joined(&module.path, &name));
                    module.children.push(name);
                }
                _ if token.is_name() => self.read_name(&mut module, depth == 0),
                _ => {}
            }
            self.at += 1;
        }
        self.modules.push(module);
    }

    /// Reads a name or path of code, and stays at its last token.
    fn read_name(&mut self, module: &mut Module, is_item: bool) {
        let Token { text, line } = self.tokens[self.at];
        let before = self.before(1);
        if matches!(before, "." | "::") {
            return; // a field, a method, or the rest of a path
        }
        if is_item && (ITEMS.contains(&before) || (before == "!" && self.before(2) == "macro_rules")) {
            module.items.push(text.to_owned());
            return;
        }
        if is_item && self.text(1) == "!" && text != "macro_rules" {
            let arguments = &self.tokens[self.at + 2..self.close(self.at + 2)];
            let names = arguments.iter().filter(|token| token.is_name());
            module.arguments.extend(names.map(|token| (token.text.to_owned(), token.line)));
        }
        module.words.entry(text.to_owned()).or_insert(line);
        let mut path = vec![text.to_owned()];
        while self.text(1) == "::" && self.tokens.get(self.at + 2).is_some_and(Token::is_name) {
            path.push(self.text(2).to_owned());
            self.at += 2;
        }
        if path.len() > 1 {
            module.paths.push((path, line));
        }
    }

    /// Reads a declaration, and stays at its semicolon.
    fn read_use(&mut self, module: &mut Module) {
        let is_public = matches!(self.before(1), "pub" | ")");
        self.at += 1;
        if self.text(0) == "::" {
            self.at += 1;
        }
        self.read_tree(&[], is_public, &mut module.imports);
    }

    /// Reads a path with all its groups, and stays behind it.
    fn read_tree(&mut self, prefix: &[String], is_public: bool, imports: &mut Vec<Import>) {
        let mut path = prefix.to_vec();
        loop {
            let Token { text, line } = self.tokens[self.at];
            self.at += 1;
            match text {
                "{" => {
                    while !matches!(self.text(0), "}" | "") {
                        self.read_tree(&path, is_public, imports);
                        if self.text(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "::" => continue,
                "self" if !path.is_empty() => {}
                "*" => {
                    imports.push(Import { path, name: "*".to_owned(), is_public, line });
                    return;
                }
                name => path.push(name.to_owned()),
            }
            if self.text(0) != "::" {
                let renamed = self.text(0) == "as";
                let name = if renamed { self.text(1) } else { path.last().map_or("", String::as_str) }.to_owned();
                self.at += if renamed { 2 } else { 0 };
                imports.push(Import { path, name, is_public, line });
                return;
            }
        }
    }

    fn is_attribute(&self) -> bool {
        self.text(1) == "["
    }

    /// Whether an attribute is `cfg(test)` or `cfg(all(test, …))`.
    fn is_test_attribute(&self) -> bool {
        let end = self.close(self.at + 1);
        let texts: Vec<_> = self.tokens[self.at + 2..end].iter().map(|token| token.text).collect();
        match texts.as_slice() {
            ["cfg", "(", "test", ")"] => true,
            ["cfg", "(", "all", "(", conditions @ ..] => conditions.split(|&text| text == ",").any(|c| c == ["test"]),
            _ => false,
        }
    }

    /// The last token of the item or field that follows the attributes from here on.
    fn item_end(&self) -> usize {
        let mut at = self.at + 1;
        while self.tokens.get(at).is_some_and(|token| token.text == "#") {
            at = self.close(at + 1) + 1;
        }
        let is_value = |token: &Token| matches!(token.text, "use" | "static" | "let");
        let mut is_statement = false;
        while let Some(token) = self.tokens.get(at) {
            is_statement |= is_value(token);
            match token.text {
                ";" | "," => return at,
                "}" | ")" | "]" => return at - 1,
                "{" if !is_statement => return self.close(at),
                "{" | "(" | "[" => at = self.close(at),
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// The token that closes the bracket at `open`.
    fn close(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len()
    }

    /// The text of a token before the current one.
    fn before(&self, offset: usize) -> &str {
        self.at.checked_sub(offset).map_or("", |at| self.tokens[at].text)
    }

    /// The text of a token after the current one.
    fn text(&self, offset: usize) -> &str {
        self.tokens.get(self.at + offset).map_or("", |token| token.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_imports_with_groups_renames_and_globs() {
        let source = "use crate::a::{self, b::{C, D as E},\n    f::*};\npub(crate) use super::g;";
        let module = modules("", source).remove(0);
        let imports: Vec<_> = module.imports.iter().map(|import| (import.path.join("::"), &*import.name)).collect();
        let expected = [("a", "a"), ("a::b::C", "C"), ("a::b::D", "E"), ("a::f", "*")];
        let expected = expected.map(|(path, name)| (format!("crate::{path}"), name));
        assert_eq!(imports, [&expected[..], &[("super::g".to_owned(), "g")]].concat());
        let places: Vec<_> = module.imports.iter().map(|import| (import.line, import.is_public)).collect();
        assert_eq!(places, [(1, false), (1, false), (1, false), (2, false), (3, true)]);
    }

    #[test]
    fn reads_items_and_paths_of_each_module() {
        let source = "mod a;\nmod b { fn f() { c::d::<u8>(x.e::<u8>()); } }\n/// [g::h]\nstatic S: T = m!(i::j);";
        let found = modules("p", source);
        assert_eq!(found.iter().map(|module| &*module.path).collect::<Vec<_>>(), ["p::b", "p"]);
        assert_eq!(
            (&found[1].children, &found[1].items),
            (&vec!["a".to_owned(), "b".to_owned()], &vec!["S".to_owned()])
        );
        let paths: Vec<_> =
            found.iter().flat_map(|module| &module.paths).map(|(path, line)| (path.join("::"), *line)).collect();
        assert_eq!(paths, [("c::d".to_owned(), 2), ("i::j".to_owned(), 4)]);
    }

    #[test]
    fn leaves_out_code_for_tests() {
        let source = "#[cfg(test)]\nuse a::{b, c};\n\
                      #[cfg(all(test, unix))]\n#[rustfmt::skip]\nmod t { fn f() { d::e() } }\n\
                      #[cfg(any(unix, test))]\nmod kept;\n\
                      struct S { #[cfg(test)] x: g::H, y: i::J }";
        let module = modules("", source).remove(0);
        assert!(module.imports.is_empty());
        assert_eq!(module.children, ["kept"]);
        assert_eq!(module.paths, [(vec!["i".to_owned(), "J".to_owned()], 8)]);
    }
}
