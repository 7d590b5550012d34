//! The live examples print what the document states, and can be edited.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{LIVE_EXAMPLES, Site, open};
use crate::page::{LOAD_LIMIT, Page};

/// Runs each example with the keyboard, and compares its output with the block that follows it in the document.
pub(super) fn print_what_they_should(page: &mut Page, site: &Site) -> Result<()> {
    let expected = expected_outputs(&fs::read_to_string(&site.live_examples)?)?;
    open(page, site, LIVE_EXAMPLES)?;
    let count = page.evaluate("document.querySelectorAll('.live-example').length")?;
    ensure!(count == expected.len(), "the page has {count} live examples, and the document {}", expected.len());
    for (number, expected) in expected.iter().enumerate() {
        page.evaluate(&format!(
            "document.querySelectorAll('.live-example')[{number}].querySelector('button').focus()"
        ))?;
        page.press("Enter")?;
        let (state, output) = end_of(page, number)?;
        ensure!(state == "done" && output == *expected, "example {number}: {state}, and prints\n{output}");
    }
    Ok(())
}

pub(super) fn run_when_edited(page: &mut Page, site: &Site) -> Result<()> {
    open(page, site, LIVE_EXAMPLES)?;
    let original = page.evaluate("document.querySelector('.live-example textarea').value")?;
    for (code, state, expected) in [
        (
            "console.log(1, [2n], new Float32Array(9), { a: null });",
            "done",
            "1 [2] Float32Array(9) [0, 0, 0, 0, …] { a: null }",
        ),
        ("console.log('before'); throw new TypeError('of the test');", "failed", "before\nTypeError: of the test"),
        ("const = 1;", "failed", "SyntaxError: Unexpected token '='"),
        (
            "import { StreamingLoader } from 'weightstream'; await StreamingLoader.open(new ArrayBuffer(4));",
            "failed",
            "TRUNCATED: ",
        ),
        ("", "done", "The example ended without output."),
    ] {
        page.type_into(".live-example textarea", code)?;
        if code.is_empty() {
            page.evaluate("document.querySelector('.live-example textarea').value = ''")?;
        }
        page.click(".live-example button")?;
        let (ended, output) = end_of(page, 0)?;
        ensure!(ended == state && output.starts_with(expected), "{code}: {ended}, and prints {output}");
    }
    page.click(".live-example button + button")?;
    let reset = page.evaluate("document.querySelector('.live-example textarea').value")?;
    ensure!(reset == original, "Reset restores {reset}");
    Ok(())
}

/// Waits until an example has ended. Returns how, and what it has printed.
fn end_of(page: &mut Page, number: usize) -> Result<(String, String)> {
    let output = format!("document.querySelectorAll('.live-example')[{number}].querySelector('pre')");
    let state = format!("({output}.dataset.state ?? 'running')");
    page.wait_for("the example to end", LOAD_LIMIT, &format!("{state} !== 'running'"))?;
    let end = page.evaluate(&format!("[{state}, {output}.textContent.trimEnd()]"))?;
    ensure!(end != json!(null), "the example has no output");
    Ok(serde_json::from_value(end)?)
}

/// The blocks of text that follow live examples in a document.
fn expected_outputs(document: &str) -> Result<Vec<String>> {
    let examples = document.split("\n```js live\n").skip(1);
    let outputs = examples.map(|example| {
        let (_, output) = example.split_once("\n```\n\n```text\n")?;
        Some(output.split_once("\n```")?.0.to_owned())
    });
    outputs.collect::<Option<_>>().context("a live example is not followed by a block of text with its output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_live_example_has_its_own_output() {
        let example = "\n```js live\na();\n```\n\n```text\n1\n2\n```\n";
        assert_eq!(expected_outputs(&example.repeat(2)).unwrap(), ["1\n2", "1\n2"]);
        assert!(expected_outputs("\n```js live\na();\n```\n").is_err());
    }
}
