//! What the pages of the site look like: contrast, names and roles, and their width. And where they come from.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{LIVE_EXAMPLES, PAGES, Site, open};
use crate::page::{DESKTOP, LOAD_LIMIT, PHONE, Page, SOON, Scheme};

/// Checks pages as they open, a live example that has run, and results of the search; wide and narrow, light and dark.
pub(super) fn has_no_violations(page: &mut Page, site: &Site) -> Result<()> {
    for (scheme, theme) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
        page.set_scheme(scheme)?;
        for (window, width) in [(DESKTOP, "wide"), (PHONE, "narrow")] {
            page.set_window(window)?;
            for path in PAGES {
                open(page, site, path)?;
                let colors = page.evaluate("getComputedStyle(document.documentElement).colorScheme")?;
                ensure!(colors == theme, "{path} is {colors} and not {theme}");
                page.evaluate(&format!("{}\n0", site.axe))?;
                if path == LIVE_EXAMPLES {
                    run_and_search(page)?;
                }
                let violations = page.evaluate(include_str!("../violations.js"))?;
                ensure!(violations == json!([]), "{path}, {theme} and {width}: axe finds {violations:#}");
            }
        }
    }
    Ok(())
}

fn run_and_search(page: &mut Page) -> Result<()> {
    page.click(".live-example button")?;
    let end = "document.querySelector('.live-example pre').dataset.state === 'done'";
    page.wait_for("the example to end", LOAD_LIMIT, end)?;
    page.click("#mdbook-search-toggle")?;
    page.wait_for("the search to open", SOON, "document.activeElement.id === 'mdbook-searchbar'")?;
    page.call("Input.insertText", json!({ "text": "abor" }))?;
    page.press("t")?;
    page.wait_for("results", SOON, "document.querySelectorAll('#mdbook-searchresults a').length > 3")
}

/// No page scrolls sideways, and nothing is cut at the edge of the window.
pub(super) fn fits_a_phone(page: &mut Page, site: &Site) -> Result<()> {
    page.set_window(PHONE)?;
    open(page, site, "index.html")?;
    let all =
        page.evaluate("[...new Set([...document.querySelectorAll('#mdbook-sidebar a')].map((a) => a.pathname))]")?;
    let all: Vec<String> = serde_json::from_value(all)?;
    ensure!(all.len() > 40, "the navigation has only {all:?}");
    for path in all {
        page.open(&format!("{}{path}", site.server.url()))?;
        let wide = page.evaluate(include_str!("too_wide.js"))?;
        ensure!(wide == json!([]), "{path}: at {} px, these are too wide: {wide:#}", PHONE.width);
    }
    Ok(())
}

/// Neither documents nor the entries of the references request anything from other hosts.
pub(super) fn requests_nothing_from_other_hosts(page: &mut Page, site: &Site) -> Result<()> {
    let references = ["reference/index.html", "rustdoc/weightstream/index.html"];
    for path in PAGES.into_iter().chain(references) {
        page.open(&site.url(path))?;
        let others = "performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => \
                      !name.startsWith(location.origin) && !name.startsWith('data:'))";
        let others: Value = page.evaluate(others)?;
        ensure!(others == json!([]), "{path} requests {others}");
        ensure!(site.folder.join(path).is_file(), "{path} is not a page of the site");
        if references.contains(&path) {
            page.take_console_errors()?; // warnings about how rustdoc preloads its fonts, and about missing icons
        }
    }
    Ok(())
}
