//! Models with mirrors, of which some are dead or have other bytes. Page and servers have different origins.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::trap_test::traps::Load;
use crate::trap_test::traps::model::FILE;
use crate::trap_test::traps::server::{Server, answer};
use crate::trap_test::{Outcome, exposed, own_url};
use crate::webdriver::Browser;

pub(crate) fn unreachable_host(browser: &Browser) -> Result<()> {
    let first = Server::new(|request| exposed(answer(&FILE, request)));
    let url = own_url(&first);
    drop(first);
    sleep(Duration::from_millis(50)); // until the port is closed
    let mirror = Server::new(|request| exposed(answer(&FILE, request)));
    let headers = json!({ "Authorization": "Bearer s3cret", "X-Api-Key": "s3cret" });
    let failures = load(browser, &url, &[&mirror], &headers)?;
    ensure!(failures.first().is_some_and(Option::is_some), "the dead address is not reported: {failures:?}");
    let requests = mirror.requests();
    ensure!(requests.iter().all(|request| request.method == "GET"), "a preflight request was sent to the mirror");
    let secrets = ["authorization", "x-api-key", "cookie"];
    let is_secret = |name: &&str| requests.iter().any(|request| request.header(name).is_some());
    ensure!(!secrets.iter().any(is_secret), "credentials were sent to the mirror");
    Ok(())
}

pub(crate) fn silent_response(browser: &Browser) -> Result<()> {
    let first = Server::new(|request| {
        let reply = exposed(answer(&FILE, request));
        if request.number == 2 { reply.stall_after(40_000) } else { reply }
    });
    let mut other = FILE.clone();
    let header = other.len() - 2_550_000; // the tensors follow
    other.iter_mut().skip(header).for_each(|byte| *byte ^= 1);
    let bad = Server::new(move |request| exposed(answer(&other, request)));
    let good = Server::new(|request| exposed(answer(&FILE, request)));
    let failures = load(browser, &own_url(&first), &[&bad, &good], &json!({}))?;
    let is_named = failures.get(1).and_then(Option::as_deref).is_some_and(|failure| failure.contains("differ"));
    ensure!(is_named && failures.get(2) == Some(&None), "the mirror with other bytes is not reported: {failures:?}");
    ensure!(good.sent() > 0, "the other mirror was not used");
    Ok(())
}

/// Loads all tensors and compares them. Returns why each address is not used.
fn load(browser: &Browser, url: &str, mirrors: &[&Server], headers: &Value) -> Result<Vec<Option<String>>> {
    let mirrors: Vec<_> = mirrors.iter().map(|server| own_url(server)).collect();
    let names = ["first", "second", "third", "fourth"];
    let options = json!({ "mirrors": mirrors, "headers": headers, "cache": "none" });
    let loaded = browser.evaluate(&format!("loadAll({}, {}, {options})", json!(url), json!(names)))?;
    let failures = loaded.get("mirrors").and_then(Value::as_array).context("`stats` has no mirrors")?;
    let failures = failures.iter().map(|mirror| mirror.get("failure").and_then(Value::as_str).map(str::to_owned));
    let failures = failures.collect();
    let outcome: Outcome = serde_json::from_value(loaded).context("cannot parse the report of the page")?;
    outcome.check(&names.map(Load::One), None)?;
    Ok(failures)
}
