//! Splits Rust source into tokens, as far as imports and definitions require.

/// A word, a `::`, a literal, or one character of punctuation. Comments are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

impl Token<'_> {
    pub(super) fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The tokens of a file that compiles.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut rest, mut line) = (Vec::new(), source, 1);
    while !rest.is_empty() {
        let (text, after) = rest.split_at(length(rest));
        let is_comment = text.starts_with("//") || text.starts_with("/*");
        if !is_comment && !text.trim().is_empty() {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// The length of the token, comment or white space at the start of `rest`.
fn length(rest: &str) -> usize {
    let after_spaces = rest.trim_start();
    if after_spaces.len() < rest.len() {
        return rest.len() - after_spaces.len();
    }
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with("::") {
        return 2;
    }
    let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (prefix, after) = rest.split_at(word);
    match prefix {
        "" | "b" | "c" if after.starts_with('"') => word + quoted(after, '"'),
        "" if is_character(rest) => quoted(rest, '\''),
        "b" if after.starts_with('\'') => word + quoted(after, '\''),
        "r" | "br" | "cr" if after.trim_start_matches('#').starts_with('"') => word + raw_string(after),
        "" => rest.chars().next().map_or(0, char::len_utf8),
        _ => word,
    }
}

/// Block comments may be nested.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(next) = rest.get(at..).and_then(|after| after.find(['/', '*'])) {
        at += next;
        let after = rest.get(at..).unwrap_or_default();
        if after.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if after.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Whether a quote begins a character literal, as opposed to a lifetime.
fn is_character(rest: &str) -> bool {
    let mut after = rest.chars();
    after.next() == Some('\'') && (after.next() == Some('\\') || after.next() == Some('\''))
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|&(_, c)| {
        let is_end = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(rest.len(), |(at, _)| at + quote.len_utf8())
}

fn raw_string(rest: &str) -> usize {
    let hashes = rest.find('"').unwrap_or_default();
    let end = format!("\"{}", "#".repeat(hashes));
    let content = rest.get(hashes + 1..).unwrap_or_default();
    content.find(&end).map_or(rest.len(), |at| hashes + 1 + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn leaves_out_comments_and_keeps_literals_whole() {
        let source = "a::b /* x /* y */ z */ 'c' '\\'' 'static b'\"' // d\nr#\"e\"f\"# \"g\\\"h\" r#type";
        let found: Vec<_> = tokens(source).iter().map(|token| (token.text, token.line)).collect();
        let first = ["a", "::", "b", "'c'", "'\\''", "'", "static", "b'\"'"].map(|text| (text, 1));
        let second = ["r#\"e\"f\"#", "\"g\\\"h\"", "r", "#", "type"].map(|text| (text, 2));
        assert_eq!(found, [&first[..], &second[..]].concat());
    }
}
