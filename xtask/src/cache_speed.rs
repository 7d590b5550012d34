//! What the cache costs, and what it brings: times of whole loads, as ratios within one run.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cache_test::Site;
use crate::chromium::Chromium;

const ROUNDS: usize = 5;

/// Loads everything once in each way, in one page, and gives the milliseconds that each took.
const ROUND: &str = r#"
async (url) => {
  const time = async (work) => {
    const start = performance.now();
    await work();
    return performance.now() - start;
  };
  const load = (cache) => async () => {
    const loader = await StreamingLoader.open(url, { cache });
    let bytes = 0;
    for await (const tensor of loader.tensors()) bytes += tensor.data.byteLength;
    loader.close();
    return bytes;
  };
  await clearCache();
  const plain = await time(async () => (await fetch(url, { cache: "no-store" })).arrayBuffer());
  const uncached = await time(load("none"));
  const cold = await time(load("auto"));
  const behind = await time(listCached);
  const warm = await time(load("auto"));
  return { plain, uncached, cold, behind, warm };
}"#;

/// Prints medians, against a plain `fetch().arrayBuffer()`.
pub(crate) fn measure(browser: &mut Chromium, site: &Site) -> Result<()> {
    let mut page = site.page(browser)?;
    let call = format!("({ROUND})({})", json!(site.own_url()));
    page.evaluate(&call)?; // the first round warms everything up
    let rounds = (0..ROUNDS).map(|_| page.evaluate(&call)).collect::<Result<Vec<Value>>>()?;
    let median = |name: &str| -> Result<f64> {
        let mut times: Vec<_> = rounds.iter().filter_map(|round| round.get(name)?.as_f64()).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().context("a round was not measured")
    };
    let plain = median("plain")?;
    println!("{:.1} MB, fetch().arrayBuffer() {plain:.0} ms, against which:", site.byte_length as f64 / 1e6);
    for (name, what) in [
        ("uncached", "without the cache"),
        ("cold", "filling the cache"),
        ("behind", "and what is written after that load"),
        ("warm", "from the cache"),
    ] {
        println!("  {:>5.2}  {what}", median(name)? / plain);
    }
    Ok(())
}
