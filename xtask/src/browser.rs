//! Finding browsers, what steers them, and a server that is not ours.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

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
pub fn chromium() -> Result<PathBuf> {
    // A bare machine has no font; without one, pages would show no text.
    ready("Chromium", "CHROME", &BROWSERS, &["chromium", "fonts-liberation"])
}

/// The WebDriver server for it: `$CHROMEDRIVER`, an installed one, else Debian's.
pub fn chromedriver() -> Result<PathBuf> {
    ready("chromedriver", "CHROMEDRIVER", &["chromedriver"], &["chromium-driver"])
}

/// Firefox: `$FIREFOX`, an installed one, else Debian's.
pub fn firefox() -> Result<PathBuf> {
    ready("Firefox", "FIREFOX", &["firefox-esr", "firefox"], &["firefox-esr", "fonts-liberation"])
}

/// The WebDriver server of WebKitGTK, which brings its browser.
pub fn webkit_driver() -> Result<PathBuf> {
    present("WebKitWebDriver", &["webkit2gtk-driver"])
}

/// A screen that nobody sees, for WebKitGTK, which has no headless mode.
pub fn xvfb() -> Result<PathBuf> {
    present("Xvfb", &["xvfb"])
}

/// A web server.
pub fn nginx() -> Result<PathBuf> {
    present("nginx", &["nginx-light"])
}

/// A program that does not tell its version.
fn present(program: &str, packages: &[&str]) -> Result<PathBuf> {
    // Debian has some where a person's PATH does not lead.
    let system = Path::new("/usr/sbin").join(program);
    let find = || command::in_path(program).or_else(|| system.is_file().then(|| system.clone()));
    let find = || find().map(|path| path.display().to_string());
    Ok(setup::ready(program, find, || apt::install(packages))?.into())
}

fn ready(name: &str, variable: &str, programs: &[&str], packages: &[&str]) -> Result<PathBuf> {
    let chosen = env::var(variable).ok();
    let find = || match &chosen {
        Some(chosen) => working(chosen),
        None => programs.iter().copied().find_map(working),
    };
    let install = || match &chosen {
        Some(chosen) => bail!("{variable} names {chosen}, which does not run"),
        None => apt::install(packages),
    };
    Ok(setup::ready(name, find, install)?.path)
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
