//! Reads the header of an array: a Python literal, of which arrays need a dictionary with a text, a truth value and a
//! tuple of integers. Nothing is evaluated.

use crate::dtype::MAX_DIMS;
use crate::error::{Error, Result, malformed};

/// The maximum depth of brackets in a value that is stepped over: fields of structured dtypes may be structured.
const MAX_DEPTH: usize = 32;

/// A value of the dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal<'a> {
    Text(&'a str),
    Bool(bool),
    /// A tuple of integers.
    Sizes(Vec<u64>),
    /// Any other value, as it is written.
    Other(&'a str),
}

/// Reads a dictionary whose keys are texts, and calls `take` for each entry.
///
/// # Errors
/// `FORMAT` for anything else; those of `take`.
pub(super) fn read_dictionary<'a>(
    text: &'a str,
    mut take: impl FnMut(&'a str, Literal<'a>) -> Result<()>,
) -> Result<()> {
    let mut rest = expect(text.trim(), '{')?;
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return if after.is_empty() { Ok(()) } else { Err(invalid(after)) };
        }
        let (key, after) = read_text(rest)?;
        let (value, after) = read_value(expect(after.trim_start(), ':')?.trim_start())?;
        take(key, value)?;
        rest = after.trim_start();
        if !rest.starts_with('}') {
            rest = expect(rest, ',')?;
        }
    }
}

/// Reads a value, and returns it with what follows.
fn read_value(text: &str) -> Result<(Literal<'_>, &str)> {
    match text.chars().next() {
        Some('\'' | '"') => read_text(text).map(|(text, rest)| (Literal::Text(text), rest)),
        Some('(') => match read_sizes(text)? {
            Some((sizes, rest)) => Ok((Literal::Sizes(sizes), rest)),
            None => read_other(text),
        },
        _ => match (text.strip_prefix("True"), text.strip_prefix("False")) {
            (Some(rest), _) => Ok((Literal::Bool(true), rest)),
            (_, Some(rest)) => Ok((Literal::Bool(false), rest)),
            _ => read_other(text),
        },
    }
}

/// Reads a text without escapes: NumPy's own contain none.
fn read_text(text: &str) -> Result<(&str, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"')).ok_or_else(|| invalid(text))?;
    let (content, rest) = text.get(1..).and_then(|rest| rest.split_once(quote)).ok_or_else(|| invalid(text))?;
    if content.contains('\\') { Err(invalid(text)) } else { Ok((content, rest)) }
}

/// Reads a tuple of integers; `None` for another tuple. Python 2 wrote an `L` behind some integers.
fn read_sizes(text: &str) -> Result<Option<(Vec<u64>, &str)>> {
    let Some((inside, rest)) = text.strip_prefix('(').and_then(|text| text.split_once(')')) else {
        return Err(invalid(text));
    };
    let mut sizes = Vec::new();
    let mut items = inside.split(',').map(str::trim).peekable();
    while let Some(item) = items.next() {
        if item.is_empty() && items.peek().is_none() {
            break;
        }
        let digits = item.strip_suffix('L').unwrap_or(item);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let Some(size) = digits.parse().ok().filter(|_| is_number) else { return Ok(None) };
        if sizes.len() == MAX_DIMS {
            return Err(malformed(format!("its shape has more than {MAX_DIMS} dimensions")));
        }
        sizes.push(size);
    }
    Ok(Some((sizes, rest)))
}

/// Steps over a value: to the next comma or bracket that is not in brackets or quotes.
fn read_other(text: &str) -> Result<(Literal<'_>, &str)> {
    let (mut depth, mut quote) = (0, None);
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) => quote = (character != open).then_some(open),
            (None, '\'' | '"') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ',' | ')' | ']' | '}') if depth == 0 => {
                let (value, rest) = text.split_at(at);
                if value.is_empty() {
                    break;
                }
                return Ok((Literal::Other(value.trim_end()), rest));
            }
            (None, ')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            break;
        }
    }
    Err(invalid(text))
}

fn expect(text: &str, character: char) -> Result<&str> {
    text.strip_prefix(character).ok_or_else(|| invalid(text))
}

fn invalid(rest: &str) -> Error {
    let shown: String = rest.chars().take(40).collect();
    malformed(format!("its header is not the dictionary that NumPy writes, at `{}`", shown.escape_debug()))
}

#[cfg(all(test, native))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<(&str, Literal<'_>)>> {
        let mut entries = Vec::new();
        read_dictionary(text, |key, value| {
            entries.push((key, value));
            Ok(())
        })?;
        Ok(entries)
    }

    #[test]
    fn reads_what_versions_of_numpy_write() {
        let sizes = |sizes: &[u64]| ("shape", Literal::Sizes(sizes.to_vec()));
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n";
        let expected = [("descr", Literal::Text("<f4")), ("fortran_order", Literal::Bool(false)), sizes(&[2, 3])];
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read("{'shape': ()}").unwrap(), [sizes(&[])]);
        assert_eq!(read("{\"shape\": (3L,), }").unwrap(), [sizes(&[3])]);
        let structured = "[('a', '<f4', (2,)), ('b', [('}', '|S1')])]";
        let text = format!("{{'descr': {structured}, 'x': None}}");
        assert_eq!(read(&text).unwrap(), [("descr", Literal::Other(structured)), ("x", Literal::Other("None"))]);
    }

    #[test]
    fn refuses_anything_else() {
        for text in ["", "{", "{'a'}", "{'a': }", "{'a': (1", "{'a': 'b", "{'a': 1} x", "{a: 1}", "[1]", "{'\\x61': 1}"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&format!("{{'shape': ({})}}", "1,".repeat(65))).is_err());
        assert!(read(&format!("{{'a': {}", "[".repeat(100_000))).is_err());
        assert_eq!(read("{'shape': (-1,)}").unwrap(), [("shape", Literal::Other("(-1,)"))]);
    }

    proptest! {
        #[test]
        fn any_text_causes_no_panic(text in "[{}()\\[\\],:'\"a1L \u{e9}]{0,40}") {
            _ = read(&text);
        }
    }
}
