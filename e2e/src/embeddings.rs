//! Checks the embeddings that the demo page computes, and reports how long the first one took.

use std::fs::File;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::chromium::Chromium;
use crate::failures;
use crate::page::{LOAD_LIMIT, Page};
use xtask::demo::Demo;
use xtask::project::Project;

/// The file with the reference embeddings, below `www`.
const REFERENCE: &str = "minilm/reference.json";

/// F32 computations that differ only in the order of their sums agree to about 1e-12.
const MIN_COSINE: f64 = 0.99999;

/// The most that is received when all weights are cached: the server is asked whether its files have changed.
const MAX_WARM_BYTES: u64 = 1_000_000;

#[derive(Deserialize)]
struct Sentences {
    sentences: Vec<Sentence>,
}

/// A sentence of the reference, or of the page, which does not repeat the text.
#[derive(Deserialize)]
struct Sentence {
    #[serde(default)]
    text: String,
    ids: Vec<u32>,
    embedding: Vec<f64>,
}

/// The report of the page, in `window.weightstreamEmbeddings`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    error: Option<String>,
    #[serde(default)]
    milliseconds: f64,
    #[serde(default)]
    bytes_received: u64,
    #[serde(default)]
    bytes_from_cache: u64,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    sentences: Vec<Sentence>,
}

/// Times in milliseconds.
#[derive(Deserialize)]
struct Step {
    name: String,
    begun: f64,
    waits: Vec<[f64; 2]>,
    prepared: f64,
    ended: f64,
}

/// Embeds the reference sentences twice: with nothing cached, and with the weights in the cache.
pub fn check(project: &Project, demo: &Demo) -> Result<()> {
    if demo.model.tokenizer.is_none() {
        println!("the embeddings are not checked, because the weights are synthetic");
        return Ok(());
    }
    let reference = File::open(project.root.join("www").join(REFERENCE))?;
    let reference: Sentences = serde_json::from_reader(reference).context(REFERENCE)?;
    let weights: u64 = demo.model.expected.iter().map(|tensor| tensor.byte_length).sum();

    let mut browser = Chromium::launch()?;
    let cold = embed(&mut browser, demo)?;
    ensure!(cold.bytes_received > weights / 2, "only {} bytes were received without a cache", cold.bytes_received);
    let warm = embed(&mut browser, demo)?;
    ensure!(warm.bytes_received < MAX_WARM_BYTES, "{} bytes were received although cached", warm.bytes_received);
    ensure!(warm.bytes_from_cache > weights / 2, "only {} bytes came from the cache", warm.bytes_from_cache);
    for (how, report) in [("cold", &cold), ("warm", &warm)] {
        let lowest = compare(&reference.sentences, &report.sentences).with_context(|| how.to_owned())?;
        println!(
            "{how}: the first embedding after {:.2} s; {} sentences, all cosines at least 1 - {:.1e}",
            report.milliseconds / 1000.0,
            report.sentences.len(),
            1.0 - lowest,
        );
        report.steps.iter().for_each(print);
    }
    Ok(())
}

fn embed(browser: &mut Chromium, demo: &Demo) -> Result<Report> {
    let mut page = browser.new_page()?;
    failures::keep(embed_in(&mut page, demo), &mut page, "Chromium", "embeddings")
}

fn embed_in(page: &mut Page, demo: &Demo) -> Result<Report> {
    page.open(&demo.page(&format!("?model={}&embed={REFERENCE}", demo.manifest())))?;
    page.wait_for("the embeddings", LOAD_LIMIT, "window.weightstreamEmbeddings")?;
    let report = page.evaluate("window.weightstreamEmbeddings")?;
    let report: Report = serde_json::from_value(report).context("cannot parse the embeddings of the page")?;
    let console_errors = page.take_console_errors()?;
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    if let Some(error) = report.error {
        bail!("the page reports: {error}");
    }
    Ok(report)
}

/// Compares tokens and embeddings. Returns the lowest cosine.
fn compare(reference: &[Sentence], found: &[Sentence]) -> Result<f64> {
    ensure!(reference.len() == found.len(), "{} sentences of {} were embedded", found.len(), reference.len());
    let mut lowest = 1.0;
    for (Sentence { text, ids, embedding }, found) in reference.iter().zip(found) {
        ensure!(found.ids == *ids, "the tokens of “{text}” are {:?}, not {ids:?}", found.ids);
        let cosine = cosine(embedding, &found.embedding);
        ensure!(cosine > MIN_COSINE, "the embedding of “{text}” has a cosine of {cosine} with the reference");
        lowest = cosine.min(lowest);
    }
    Ok(lowest)
}

/// The cosine of the angle between two vectors. It is NaN if one is 0 or their lengths differ.
fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    if a.len() == b.len() { product(a, b) / (product(a, a) * product(b, b)).sqrt() } else { f64::NAN }
}

fn print(Step { name, begun, waits, prepared, ended }: &Step) {
    let waited = waits.iter().fold(0.0, |sum, [from, to]| sum + to - from);
    println!(
        "  {name:<12} begun at {begun:>5.0} ms, waited {waited:>4.0} ms, prepared {:>4.0} ms, computed {:>4.0} ms",
        prepared - begun - waited,
        ended - prepared,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(ids: &[u32], embedding: &[f64]) -> Sentence {
        Sentence { text: "a".to_owned(), ids: ids.to_vec(), embedding: embedding.to_vec() }
    }

    #[test]
    fn embeddings_that_differ_from_the_reference_are_found() {
        let reference = [sentence(&[1, 2], &[0.6, 0.8])];
        assert!(compare(&reference, &[sentence(&[1, 2], &[0.6, 0.8])]).unwrap() > 0.999_999_999);
        for wrong in [
            vec![],
            vec![sentence(&[1, 3], &[0.6, 0.8])],
            vec![sentence(&[1, 2], &[0.6, 0.81])],
            vec![sentence(&[1, 2], &[0.6])],
            vec![sentence(&[1, 2], &[0.0, 0.0])],
        ] {
            assert!(compare(&reference, &wrong).is_err());
        }
    }
}
