//! Checks the maximum line length of source files.

use std::fs;

use crate::sources;

const MAX_COLUMNS: usize = 120;

/// Code and prose. Lock files and data are excluded, because programs write them.
const EXTENSIONS: [&str; 10] = [".css", ".html", ".js", ".md", ".py", ".rs", ".sh", ".toml", ".ts", ".yml"];

/// A line may exceed the limit if it contains a URL of at least this length, which cannot be broken.
const MIN_URL_COLUMNS: usize = 100;

#[test]
fn source_lines_have_at_most_120_columns() {
    let root = sources::root();
    let is_source = |path: &String| EXTENSIONS.iter().any(|extension| path.ends_with(extension));
    let mut long = Vec::new();
    for path in sources::files(&root).unwrap().into_iter().filter(is_source) {
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let too_long = text.lines().enumerate().filter(|(_, line)| is_too_long(line));
        long.extend(too_long.map(|(number, line)| format!("{path}:{} has {} columns", number + 1, columns(line))));
    }
    assert!(long.is_empty(), "{} lines have more than {MAX_COLUMNS} columns:\n{}", long.len(), long.join("\n"));
}

#[test]
fn only_lines_with_long_urls_may_exceed_the_limit() {
    assert!(!is_too_long(&"é".repeat(120)));
    assert!(is_too_long(&"a".repeat(121)));
    assert!(is_too_long(&format!("https://example.org/{}", "a ".repeat(60))));
    assert!(!is_too_long(&format!("// https://example.org/{}", "a".repeat(120))));
}

fn is_too_long(line: &str) -> bool {
    let is_long_url = |word: &str| word.contains("://") && columns(word) >= MIN_URL_COLUMNS;
    columns(line) > MAX_COLUMNS && !line.split_whitespace().any(is_long_url)
}

fn columns(text: &str) -> usize {
    text.chars().count()
}
