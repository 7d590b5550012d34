//! Finds or installs browsers, their WebDriver servers, nginx and varnish.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::{apt, command, setup};

/// Chrome comes before `chromium-browser`, which may be a stub on Ubuntu.
const BROWSERS: [&str; 6] = [
    "chromium",
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/// A browser that supports the Chrome DevTools Protocol: `$CHROME`, an installed one, or Debian's.
pub fn chromium() -> Result<PathBuf> {
    // A minimal system has no fonts, so pages would show no text.
    ready("Chromium", "CHROME", &BROWSERS, &["chromium", "fonts-liberation"])
}

/// The WebDriver server of Chromium: `$CHROMEDRIVER`, an installed one, or Debian's.
pub fn chromedriver() -> Result<PathBuf> {
    ready("chromedriver", "CHROMEDRIVER", &["chromedriver"], &["chromium-driver"])
}

/// Firefox: `$FIREFOX`, an installed one, or Debian's.
pub fn firefox() -> Result<PathBuf> {
    ready("Firefox", "FIREFOX", &["firefox-esr", "firefox"], &["firefox-esr", "fonts-liberation"])
}

/// The WebDriver server of WebKitGTK, which includes the browser.
pub fn webkit_driver() -> Result<PathBuf> {
    find_or_install("WebKitWebDriver", &["webkit2gtk-driver"])
}

/// A virtual display for WebKitGTK, which has no headless mode.
pub fn xvfb() -> Result<PathBuf> {
    find_or_install("Xvfb", &["xvfb"])
}

/// The nginx web server.
pub fn nginx() -> Result<PathBuf> {
    find_or_install("nginx", &["nginx-light"])
}

/// The varnish cache, which compiles its configuration with gcc.
pub fn varnish() -> Result<PathBuf> {
    find_or_install("varnishd", &["varnish", "gcc", "libc6-dev"])
}

/// Finds or installs a program without running it, because it has no `--version` option.
fn find_or_install(program: &str, packages: &[&str]) -> Result<PathBuf> {
    // Debian installs some programs in a folder that is not in the PATH of a user.
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
        Some(chosen) => bail!("{variable} is {chosen}, which cannot be run"),
        None => apt::install(packages),
    };
    Ok(setup::ready(name, find, install)?.path)
}

/// A program whose `--version` option works.
struct FoundProgram {
    path: PathBuf,
    version: String,
}

impl std::fmt::Display for FoundProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}, {}", self.version, self.path.display())
    }
}

fn working(program: &str) -> Option<FoundProgram> {
    let path = if Path::new(program).is_absolute() { program.into() } else { command::in_path(program)? };
    let version = command::output(Command::new(&path).arg("--version")).ok()?;
    Some(FoundProgram { path, version: version.trim().to_owned() })
}
