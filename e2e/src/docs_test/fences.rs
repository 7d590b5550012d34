//! The fenced code blocks of a Markdown file, and the examples that they make.

use anyhow::{Result, bail, ensure};

/// The languages of blocks that this test does not check. `cargo test --doc` and the tests of the command line run some
/// of them.
const UNCHECKED: [&str; 4] = ["json", "rust,no_run", "sh", "text"];

/// Marks an example that needs a runtime or a context that the test does not have. Its types are checked.
const NO_RUN: &str = "no_run";

/// Marks an example that the documentation site also runs in the page.
const LIVE: &str = "live";

/// A fenced code block.
#[derive(Debug, PartialEq)]
pub(crate) struct Fence {
    /// The line of the opening fence, from 1.
    pub(crate) line: usize,
    pub(super) kind: Kind,
    /// The lines of code, without the indentation of the fence.
    pub(crate) code: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    Script {
        is_run: bool,
    },
    /// A part of this file in `tests/package`, or in `tests/interop/python` for Python.
    Copy(String),
    Unchecked,
}

/// A complete example: a block of JavaScript with an import, or the first one of a page, and the blocks after it that
/// have no imports.
#[derive(Debug)]
pub(super) struct Example {
    /// The Markdown file.
    pub(super) page: String,
    pub(super) line: usize,
    pub(super) is_run: bool,
    /// The module. Its lines have the numbers that they have in the Markdown file. Each block after the first is a
    /// block of JavaScript inside that of the block before: it uses the names of earlier blocks, and may declare them
    /// again.
    pub(super) code: String,
    pub(super) blocks: usize,
}

impl Example {
    /// The name of the module, by which errors in it are found.
    pub(super) fn file(&self) -> String {
        format!("{}.{}.js", self.page, self.line)
    }
}

/// The blocks of a Markdown file.
pub(crate) fn fences(page: &str, text: &str) -> Result<Vec<Fence>> {
    let mut fences = Vec::new();
    let mut open: Option<(usize, &str, Fence)> = None;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        match (&mut open, trimmed.strip_prefix("```")) {
            (None, Some(info)) => {
                let kind = kind(info.trim()).map_err(|error| error.context(format!("{page}:{}", at + 1)))?;
                let indent = line.len() - trimmed.len();
                open = Some((indent, line, Fence { line: at + 1, kind, code: Vec::new() }));
            }
            (Some(_), Some("")) => fences.extend(open.take().map(|(_, _, fence)| fence)),
            (Some((indent, _, fence)), _) => fence.code.push(line.get(*indent..).unwrap_or_default().to_owned()),
            (None, None) => {}
        }
    }
    if let Some((_, _, fence)) = open {
        bail!("{page}:{}: the code block does not end", fence.line);
    }
    Ok(fences)
}

fn kind(info: &str) -> Result<Kind> {
    match info.split_once(' ') {
        None if info == "js" => Ok(Kind::Script { is_run: true }),
        Some(("js", LIVE)) => Ok(Kind::Script { is_run: true }),
        Some(("js", NO_RUN)) => Ok(Kind::Script { is_run: false }),
        Some((_, path)) => Ok(Kind::Copy(path.to_owned())),
        None if UNCHECKED.contains(&info) => Ok(Kind::Unchecked),
        None => bail!(
            "the test does not know the language {info:?}: use js, {}, or a language with a file of another test",
            UNCHECKED.join(", ")
        ),
    }
}

/// The examples of a Markdown file with these blocks.
pub(super) fn examples(page: &str, fences: &[Fence]) -> Result<Vec<Example>> {
    let mut examples: Vec<Example> = Vec::new();
    for fence in fences {
        let Kind::Script { is_run } = fence.kind else { continue };
        let begins = fence.code.iter().any(|line| line.starts_with("import "));
        match examples.last_mut() {
            Some(example) if !begins => {
                ensure!(
                    is_run || !example.is_run,
                    "{page}:{}: mark the example, which begins at line {}, with {NO_RUN}",
                    fence.line,
                    example.line
                );
                example.blocks += 1;
                append(&mut example.code, fence, "{");
            }
            _ => {
                let (page, line) = (page.to_owned(), fence.line);
                let mut example = Example { page, line, is_run, code: String::new(), blocks: 1 };
                append(&mut example.code, fence, "");
                examples.push(example);
            }
        }
    }
    for example in &mut examples {
        example.code.push_str(&"}".repeat(example.blocks - 1));
        example.code.push_str(" export {};\n");
    }
    Ok(examples)
}

/// Appends a block at the lines at which it is in the Markdown file; `opening` replaces the fence.
fn append(code: &mut String, fence: &Fence, opening: &str) {
    let lines = code.matches('\n').count();
    code.push_str(&"\n".repeat(fence.line - 1 - lines));
    for line in [opening].into_iter().chain(fence.code.iter().map(String::as_str)) {
        code.push_str(line);
        code.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n```js\nimport { a } from \"a\";\nconst b = a();\n```\ntext\n\n- item:\n\n  \
                        ```js\n  b.c();\n  ```\n```sh\nls\n```\n```js no_run\nimport \"d\";\n```\n\
                        ```html app/x.html\n<p>\n```\n";

    #[test]
    fn blocks_without_imports_continue_the_example_before_at_their_own_lines() {
        let examples = examples("a.md", &fences("a.md", PAGE).unwrap()).unwrap();
        let first = examples.first().unwrap();
        assert_eq!((examples.len(), first.is_run, first.blocks, first.file()), (2, true, 2, "a.md.3.js".to_owned()));
        let lines: Vec<_> = first.code.lines().collect();
        assert_eq!(lines[3..5], ["import { a } from \"a\";", "const b = a();"]);
        assert_eq!(lines[10..], ["{", "b.c();", "} export {};"]);
        assert!(!examples.last().unwrap().is_run);
    }

    #[test]
    fn every_block_is_run_compared_or_of_a_known_language() {
        let kinds: Vec<_> = fences("a.md", PAGE).unwrap().into_iter().map(|fence| fence.kind).collect();
        assert_eq!(kinds[2..], [Kind::Unchecked, Kind::Script { is_run: false }, Kind::Copy("app/x.html".to_owned()),]);
        assert_eq!(fences("a.md", "```js live\n```\n").unwrap()[0].kind, Kind::Script { is_run: true });
        assert!(fences("a.md", "```html\n```\n").unwrap_err().chain().any(|error| error.to_string() == "a.md:1"));
    }

    #[test]
    fn a_block_that_cannot_run_begins_its_own_example() {
        let text = "```js\nimport \"a\";\n```\n```js no_run\nb();\n```\n";
        let error = examples("a.md", &fences("a.md", text).unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("a.md:4: mark the example, which begins at line 1"));
    }
}
