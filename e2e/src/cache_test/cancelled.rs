//! Requests that the network panel shows as cancelled. They look like errors, and each costs a connection.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Site, TestCase, report};
use crate::chromium::Chromium;

/// How long the browser may take to report the end of a request after the page has received its last byte.
const EVENT_DELAY: Duration = Duration::from_millis(500);

pub(super) const CASES: [(&str, TestCase); 1] =
    [("loads from the cache, of headers and of single tensors cancel no request", cancels_nothing)];

/// A load of everything is not among them: over slow connections, one connection takes over half of the range of
/// another, whose request is then cancelled.
fn cancels_nothing(browser: &mut Chromium, site: &Site) -> Result<()> {
    let models = site.models()?;
    let url = json!(models.url());
    let largest = site.expected.iter().max_by_key(|tensor| tensor.byte_length).context("the model has no tensor")?;
    let name = json!(largest.name);
    for (what, call, requests) in [
        ("a cold load of one tensor", format!("one({url}, {name})"), 2),
        ("a warm load of one tensor", format!("one({url}, {name})"), 1),
        ("a load of one tensor without a cache", format!("one({url}, {name}, {{ cache: 'none' }})"), 2),
        ("the completion of the cache", format!("load({url}, {{ concurrency: 1 }})"), 0),
        ("a warm load", format!("load({url})"), 1),
        ("a warm load with little memory", format!("load({url}, {{ maxMemory: 1 }})"), 1),
    ] {
        let mut page = site.page(browser)?;
        page.watch_requests()?;
        let report = report(&mut page, &call)?;
        std::thread::sleep(EVENT_DELAY);
        let cancelled = page.take_cancelled_requests()?;
        ensure!(cancelled.is_empty(), "{what} cancelled {}", cancelled.join("; "));
        let is_expected = requests == 0 || report.stats.requests == requests;
        ensure!(is_expected, "{what} made {} requests instead of {requests}", report.stats.requests);
    }
    Ok(())
}
