//! Checks that the README has the results of the last benchmark.

use std::fs;

use serde_json::Value;

use crate::sources;

/// The rows of the README's table, and the cases of `benches/results.json` that each row shows.
const ROWS: [(&str, &[&str]); 9] = [
    ("raw tensors", &["raw"]),
    ("raw tensors, `inWorker`", &["raw-in-worker"]),
    ("CRC-32 verified", &["crc32"]),
    ("BLAKE3 verified, by default; one thread", &["blake3-default", "blake3"]),
    ("SHA-256 verified", &["sha256-default"]),
    ("LZ4, 8-bit quantized, by default; one thread", &["lz4-q8-default", "lz4-q8"]),
    ("LZ4, highly compressible, one thread", &["lz4-sparse"]),
    ("first load, which fills the cache", &["cold"]),
    ("from the cache", &["warm"]),
];

#[test]
fn the_readme_has_the_results_of_the_last_benchmark() {
    let root = sources::root();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let results = json("benches/results.json");
    for (title, cases) in ROWS {
        let time = figures(&results, cases, "time against fetch().arrayBuffer()");
        let peak = figures(&results, cases, "renderer's peak against the payload");
        let row = format!("| {title} | {time} | {peak} |");
        assert!(readme.contains(&row), "the README should have this row:\n{row}");
    }
    let fetch =
        format!("| `fetch(url).arrayBuffer()` | 1.00 | {} |", figures(&results, &["raw"], "the same of fetch()"));
    assert!(readme.contains(&fetch), "the README should have this row:\n{fetch}");
    let (rounds, cores) = (&results["rounds"], &results["cores"]);
    assert!(readme.contains(&format!("{cores} cores, {rounds} rounds;")), "{cores} cores, {rounds} rounds");
}

#[test]
fn the_readme_has_the_last_comparison_with_other_loaders() {
    let (words, peers) = (words("README.md"), json("benches/peers.json"));
    let ratio = |case: &str| {
        let (title, quantity) = (format!("weightstream, {case}"), "time against the fastest peer");
        let mut rows = peers["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["title"] == *title && row["quantity"] == quantity).unwrap();
        format!("{:.2}", row["value"].as_f64().unwrap())
    };
    let sentence = format!(
        "{} of the time of the fastest other library, {} while filling a cache, and {} when loading from the cache.",
        ratio("no cache"),
        ratio("cold, fills the cache"),
        ratio("warm"),
    );
    assert!(words.contains(&sentence), "the README should state: {sentence}");
}

/// The text of a file, whose words are separated by single spaces.
fn words(path: &str) -> String {
    let text = fs::read_to_string(sources::root().join(path)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&fs::read(sources::root().join(path)).unwrap()).unwrap()
}

/// The results of these cases, rounded as in the README.
fn figures(results: &Value, cases: &[&str], quantity: &str) -> String {
    let figure = |case: &&str| {
        let rows = results["rows"].as_array().unwrap().iter();
        let mut case_rows = rows.filter(|row| row["case"] == *case);
        let row = case_rows.find(|row| row["quantity"].as_str().unwrap().starts_with(quantity)).unwrap();
        format!("{:.2}", row["value"].as_f64().unwrap())
    };
    cases.iter().map(figure).collect::<Vec<_>>().join("; ")
}
