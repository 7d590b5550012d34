//! Loads every fixture with the main part of the module alone. The files that need another part are a reviewed list: a
//! change after which pages with a common format load another part fails this test.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weightstream_cli::serve::Server;

use super::{IN_THE_PAGE, NativeResult, compare};
use crate::engine::Engine;
use crate::failures;
use crate::webdriver::Browser;
use xtask::parts::PARTS;
use xtask::project::Project;

/// The fixtures that need more than the main part, one in a line.
const SNAPSHOT: &str = "tests/package/needs_more_than_the_main_part.txt";

/// What the message of a call says if a part of the module cannot be loaded.
const REFUSAL: &str = ", cannot be loaded: ";

/// One browser is enough: which part has a function does not depend on it.
pub(super) fn test(
    project: &Project,
    package: &Path,
    fixtures: &Path,
    models: &[(String, NativeResult)],
) -> Result<()> {
    let main_part = tempfile::tempdir()?;
    for file in fs::read_dir(package)? {
        let path = file?.path();
        let name = path.file_name().context("a file without a name")?;
        if path.is_file() && !PARTS.iter().any(|part| *part.file == *name) {
            fs::copy(&path, main_part.path().join(name))?;
        }
    }
    let server = Server::new().mount("/", fixtures).mount("/pkg", main_part.path()).bind("127.0.0.1:0")?.spawn();
    let browser = Browser::launch(project, Engine::Chromium)?;
    browser.open(&format!("{}/", server.url()))?;
    let options = json!({ "cache": "none", "workers": 0 });
    let mut need_more = BTreeSet::new();
    for (path, native) in models.iter().filter(|(path, _)| !path.starts_with("long/")) {
        let loaded = browser.evaluate(&format!("({IN_THE_PAGE})({}, {options})", json!(format!("/{path}"))))?;
        if loaded.get("message").and_then(Value::as_str).is_some_and(|message| message.contains(REFUSAL)) {
            need_more.insert(&**path);
        } else {
            let compared = compare(&loaded, native).context("with the main part alone");
            failures::keep(compared, &browser, Engine::Chromium, path)?;
        }
    }
    let found: String = need_more.iter().map(|path| format!("{path}\n")).collect();
    let snapshot = project.root.join(SNAPSHOT);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(snapshot, found)?;
        return Ok(());
    }
    let known = fs::read_to_string(snapshot).context(SNAPSHOT)?;
    let known: BTreeSet<&str> = known.lines().collect();
    let more: Vec<_> = need_more.difference(&known).collect();
    let fewer: Vec<_> = known.difference(&need_more).collect();
    ensure!(
        need_more == known,
        "of the fixtures that need more than the main part of the module, {SNAPSHOT} lacks {more:?}, and lists \
         {fewer:?}, which do not. To accept this: UPDATE_SNAPSHOTS=1 cargo xtask test parity"
    );
    println!(
        "{} files load with the main part alone, and {} need another one",
        models.len() - known.len(),
        known.len()
    );
    Ok(())
}
