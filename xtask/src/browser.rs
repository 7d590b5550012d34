//! Finding a Chromium, and the driver that `wasm-pack test` steers it with.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{apt, command, setup};

/// Chrome before `chromium-browser`: on Ubuntu the latter may be a stub that only says where to get the real one.
const BROWSERS: [&str; 6] = [
    "chromium",
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/// A browser that speaks the Chrome DevTools Protocol: `$CHROME`, an installed one, else Debian's.
pub(crate) fn chromium() -> Result<PathBuf> {
    let find = || match env::var("CHROME") {
        Ok(chosen) => working(&chosen),
        Err(_) => BROWSERS.into_iter().find_map(working),
    };
    Ok(setup::ready("Chromium", find, || apt::install(&["chromium"]))?.path)
}

/// The WebDriver server for it: `$CHROMEDRIVER`, an installed one, else Debian's.
pub(crate) fn chromedriver() -> Result<PathBuf> {
    let find = || match env::var("CHROMEDRIVER") {
        Ok(chosen) => working(&chosen),
        Err(_) => working("chromedriver"),
    };
    Ok(setup::ready("chromedriver", find, || apt::install(&["chromium-driver"]))?.path)
}

/// A program that answered when asked for its version.
struct Working {
    path: PathBuf,
    version: String,
}

impl std::fmt::Display for Working {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}, {}", self.version, self.path.display())
    }
}

fn working(program: &str) -> Option<Working> {
    let path = if Path::new(program).is_absolute() { program.into() } else { command::in_path(program)? };
    let version = command::output(Command::new(&path).arg("--version")).ok()?;
    Some(Working { path, version: version.trim().to_owned() })
}
