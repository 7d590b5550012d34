//! Tables with aligned columns, truncated to the width of the terminal.

use super::one_line;
use super::terminal::{HEADING, styled};
use console::{Term, measure_text_width};
use std::io::{self, Write};

/// The gap between columns.
const GAP: &str = "  ";
/// Names are not truncated below this width: the terminal wraps instead.
const MIN_NAME_WIDTH: usize = 16;

/// A table whose first column is truncated if the terminal is too narrow.
pub(super) struct Table {
    headings: Vec<&'static str>,
    right_aligned: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table. Columns whose heading ends with `>` are right-aligned.
    pub(super) fn new(headings: &[&'static str]) -> Self {
        Table {
            headings: headings.iter().map(|heading| heading.trim_end_matches('>')).collect(),
            right_aligned: headings.iter().map(|heading| heading.ends_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    pub(super) fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        self.rows.insert(0, self.headings.iter().map(|&heading| heading.to_owned()).collect());
        let mut widths = vec![0; self.headings.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = measure_text_width(cell).max(*width);
            }
        }
        if let (Some(terminal), [name, others @ ..]) = (terminal_width(), widths.as_mut_slice()) {
            let others: usize = others.iter().map(|width| width + GAP.len()).sum();
            *name = (*name).min(terminal.saturating_sub(others).max(MIN_NAME_WIDTH));
        }
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, ((cell, &width), &right)) in row.iter().zip(&widths).zip(&self.right_aligned).enumerate() {
                let cell = if column == 0 { cut_middle(cell, width) } else { cell.clone() };
                let padding = " ".repeat(width.saturating_sub(measure_text_width(&cell)));
                let (before, after) = if right { (padding.as_str(), "") } else { ("", padding.as_str()) };
                line.extend([if column == 0 { "" } else { GAP }, before, &cell, after]);
            }
            match number {
                0 => writeln!(out, "{}", styled(HEADING, line.trim_end()))?,
                _ => writeln!(out, "{}", line.trim_end())?,
            }
        }
        Ok(())
    }
}

/// Returns the width of the terminal; `None` if standard output is not a terminal.
pub(super) fn terminal_width() -> Option<usize> {
    Term::stdout().size_checked().map(|(_, width)| usize::from(width))
}

/// Truncates the end of the text to a width.
pub(super) fn cut_end(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    format!("{}…", fit(text.chars(), width.saturating_sub(1)))
}

/// Truncates the middle of the text to a width, because tensor names differ at both ends.
fn cut_middle(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let tail_width = width.saturating_sub(1) / 2;
    let head = fit(text.chars(), width.saturating_sub(1 + tail_width));
    let tail: String = fit(text.chars().rev(), tail_width).chars().rev().collect();
    format!("{head}…{tail}")
}

/// Takes characters up to a width.
fn fit(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut text = String::new();
    let mut left = width;
    for c in chars {
        match left.checked_sub(measure_text_width(c.encode_utf8(&mut [0; 4]))) {
            Some(rest) => left = rest,
            None => break,
        }
        text.push(c);
    }
    text
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn names_are_truncated_in_the_middle() {
        assert_eq!(cut_middle("encoder.layer.0.weight", 11), "encod…eight");
        assert_eq!(cut_middle("short", 11), "short");
        assert_eq!(cut_middle("重み重み重み", 6), "重…み");
        assert_eq!(cut_end("abcdef", 4), "abc…");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["NAME", "BYTES>"]);
        table.row(vec!["a\n".to_owned(), "10".to_owned()]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "\u{1b}[1mNAME  BYTES\u{1b}[0m\na\\n      10\n");
    }
}
