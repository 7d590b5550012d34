//! No line of a source is too long to be read beside another one.

use std::fs;

use crate::sources;

const MAX_COLUMNS: usize = 120;

/// Code and prose. Not lock files and data, which programs write.
const EXTENSIONS: [&str; 10] = [".css", ".html", ".js", ".md", ".py", ".rs", ".sh", ".toml", ".ts", ".yml"];

/// Folders with long lines that are still to be broken. Of their files only the comments of Rust code are checked.
const UNFINISHED: [&str; 2] = ["src/", "tests/"];

/// A URL cannot be broken: a line with one of this length may be longer than others.
const MIN_URL_COLUMNS: usize = 100;

#[test]
fn no_line_of_a_source_is_longer_than_120_columns() {
    let root = sources::root();
    let is_source = |path: &String| EXTENSIONS.iter().any(|extension| path.ends_with(extension));
    let mut long = Vec::new();
    for path in sources::files(&root).unwrap().into_iter().filter(is_source) {
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let is_unfinished = UNFINISHED.iter().any(|folder| path.starts_with(folder)) && !path.ends_with(".md");
        let is_checked = |line: &str| !is_unfinished || (path.ends_with(".rs") && is_comment(line));
        let too_long = text.lines().enumerate().filter(|(_, line)| is_too_long(line) && is_checked(line));
        long.extend(too_long.map(|(number, line)| format!("{path}:{} has {} columns", number + 1, columns(line))));
    }
    assert!(long.is_empty(), "{} lines have more than {MAX_COLUMNS} columns:\n{}", long.len(), long.join("\n"));
}

#[test]
fn only_a_url_may_make_a_line_longer() {
    assert!(!is_too_long(&"é".repeat(120)));
    assert!(is_too_long(&"a".repeat(121)));
    assert!(is_too_long(&format!("https://example.org/{}", "a ".repeat(60))));
    assert!(!is_too_long(&format!("// https://example.org/{}", "a".repeat(120))));
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn is_too_long(line: &str) -> bool {
    let is_long_url = |word: &str| word.contains("://") && columns(word) >= MIN_URL_COLUMNS;
    columns(line) > MAX_COLUMNS && !line.split_whitespace().any(is_long_url)
}

fn columns(text: &str) -> usize {
    text.chars().count()
}
