//! Tests the documentation site in Chromium. It is served below a path, as hosts of repositories do.

mod appearance;
mod dead_links;
mod keyboard;
mod live_examples;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;
use weightstream_cli::serve::{Running, Server};

use crate::chromium::Chromium;
use crate::page::{DESKTOP, Page, SOON, Scheme};
use crate::{accessibility_test, cases, failures};
use xtask::docs_site;
use xtask::project::Project;

/// The path of the site. Nothing else is served.
const BASE: &str = "/weightstream";

/// The pages that are looked at more closely: the home page, a document, and the live examples.
const PAGES: [&str; 3] = ["index.html", "docs/javascript.html", LIVE_EXAMPLES];

const LIVE_EXAMPLES: &str = "docs/live-examples.html";

/// The site, and what its tests need.
struct Site {
    server: Running,
    folder: PathBuf,
    /// The Markdown file with the live examples.
    live_examples: PathBuf,
    /// The source of axe-core.
    axe: String,
}

impl Site {
    fn url(&self, path: &str) -> String {
        format!("{}{BASE}/{path}", self.server.url())
    }
}

type Case = fn(&mut Page, &Site) -> Result<()>;

const CASES: [(&str, Case); 9] = [
    ("skips to the content", keyboard::skips_to_the_content),
    ("reaches the navigation and every control with the keyboard", keyboard::reaches_every_control),
    ("opens the table of contents on a phone with the keyboard", keyboard::opens_the_table_of_contents),
    ("finds a document with the keyboard", keyboard::finds_a_document),
    ("runs the live examples", live_examples::print_what_they_should),
    ("runs an edited example", live_examples::run_when_edited),
    ("has no violations of accessibility rules", appearance::has_no_violations),
    ("fits a phone", appearance::fits_a_phone),
    ("requests nothing from other hosts", appearance::requests_nothing_from_other_hosts),
];

pub fn run(project: &Project) -> Result<()> {
    let folder = docs_site::build(project, None)?;
    let links = dead_links::check(&folder)?;
    println!("{links} links of the site resolve");
    let site = Site {
        server: Server::new().mount(BASE, &folder).bind("127.0.0.1:0")?.spawn(),
        live_examples: project.root.join("docs/live-examples.md"),
        axe: accessibility_test::axe(project)?,
        folder,
    };
    let mut browser = Chromium::launch()?;
    let mut failed = 0;
    for (name, case) in CASES.iter().filter(|(name, _)| cases::is_wanted(name)) {
        let start = Instant::now();
        let mut page = browser.new_page()?;
        let outcome = failures::keep(run_case(&mut page, &site, *case), &mut page, "Chromium", name);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("  ok      {seconds:>5.1} s  {name}"),
            Err(error) => {
                failed += 1;
                println!("  FAILED  {seconds:>5.1} s  {error:#}");
            }
        }
    }
    ensure!(failed == 0, "{failed} test cases of the documentation site failed");
    Ok(())
}

fn run_case(page: &mut Page, site: &Site, case: Case) -> Result<()> {
    page.set_window(DESKTOP)?;
    page.set_scheme(Scheme::Light)?;
    // What an earlier case has chosen is forgotten.
    page.call("Storage.clearDataForOrigin", json!({ "origin": site.server.url(), "storageTypes": "all" }))?;
    case(page, site)?;
    let console_errors = page.take_console_errors()?;
    ensure!(console_errors.is_empty(), "the console shows: {}", console_errors.join("; "));
    Ok(())
}

/// Opens a page of the site, and waits until its scripts have run.
fn open(page: &mut Page, site: &Site, path: &str) -> Result<()> {
    page.open(&site.url(path))?;
    page.wait_for("the table of contents", SOON, "document.querySelector('#mdbook-sidebar a.active')")
}
