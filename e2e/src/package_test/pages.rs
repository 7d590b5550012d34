//! Opens the pages of apps in three browsers, and in Chromium those that development servers make.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use weightstream_cli::serve::Server;

use super::dev_server::DevServer;
use super::report::{self, Lacks};
use super::sample::{self, Sample};
use super::with_each_browser;
use super::{bundlers, dev_server};
use crate::chromium::Chromium;
use crate::failures;
use crate::page::Page;
use xtask::project::Project;

/// The warning of the package about an option that the sample uses.
const UNCACHED: &str = "weightstream: with `cache: \"none\"`, models are downloaded again at each visit.";

/// The pages without a bundler, and those that bundlers made.
pub(super) fn load_everywhere(project: &Project, app: &Path, sample: &Sample) -> Result<()> {
    let mut server = Server::new().mount("/static", app);
    for name in bundlers::APPS {
        server = server.mount(&format!("/{name}"), app.join(name));
    }
    let server = server.bind("127.0.0.1:0")?.spawn();
    with_each_browser(project, |engine, browser| {
        let bundled = bundlers::APPS.map(|name| format!("{name}/"));
        for name in ["static/app/static.html"].into_iter().chain(bundled.iter().map(String::as_str)) {
            browser.open(&format!("{}/{name}", server.url()))?;
            let loaded =
                browser.evaluate(&call(sample)).and_then(|found| report::check(found, sample, Lacks::default()));
            failures::keep(loaded, browser, engine, name)?;
        }
        println!("{engine}: {} apps load the sample", bundlers::APPS.len() + 1);
        Ok(())
    })
}

/// Some of these servers move the scripts of dependencies away from their other files. Only a folder for them that the
/// app has chosen needs a configuration.
pub(super) fn load_in_dev_servers(project: &Project, app: &Path, tools: &Path, sample: &Sample) -> Result<()> {
    let mut browser = Chromium::launch()?;
    for vite in dev_server::vites(project, tools)? {
        let name = vite.display();
        let server = DevServer::vite(app, &vite, &[])?;
        check_page(&mut browser, &server.url(), sample)
            .with_context(|| format!("in the development server of {name}"))?;
        drop(server);
        let server = DevServer::vite(app, &vite, &["--config", "vite.config.js"])?;
        check_page(&mut browser, &server.url(), sample)
            .with_context(|| format!("in the development server of {name} with a configuration"))?;
    }
    Ok(())
}

/// Opens the page of an app in Chromium, which must report neither errors nor warnings.
pub(super) fn check_page(browser: &mut Chromium, url: &str, sample: &Sample) -> Result<()> {
    let mut page = browser.new_page()?;
    failures::keep(loads_sample(&mut page, url, sample), &mut page, "Chromium", url)
}

fn loads_sample(page: &mut Page, url: &str, sample: &Sample) -> Result<()> {
    page.open(url)?;
    page.wait_for("the app to start", crate::page::SOON, "globalThis.check")?;
    let found = page.evaluate(&call(sample))?;
    report::check(found, sample, Lacks::default())?;
    let mut console_errors = page.take_console_errors()?;
    console_errors.retain(|text| text != UNCACHED);
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    Ok(())
}

/// The expression that loads the sample.
fn call(sample: &Sample) -> String {
    format!("check({}, {})", json!(sample.url()), json!(sample::MATRIX))
}
