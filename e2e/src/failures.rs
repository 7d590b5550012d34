//! Keeps how a browser looks, and its console, when a case of a test fails: `target/failures/<suite>/` gets
//! `<browser>-<case>.png` and `.log`. All tests with browsers pass the outcome of each case to [`keep`].

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Error, Result};

use xtask::project::Project;

/// The maximum length of the name of a case in a file name.
const MAX_NAME: usize = 100;

/// The folder of this suite.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// A browser, or a page in it.
pub trait Witness {
    /// A screenshot in PNG.
    fn screenshot(&mut self) -> Result<Vec<u8>>;

    /// The lines of the console.
    fn console(&mut self) -> Result<String>;
}

/// Deletes what the last run of this suite has kept. Failures are kept from now on.
pub fn begin(project: &Project, suite: &str) -> Result<()> {
    let folder = FOLDER.get_or_init(|| project.target.join("failures").join(suite));
    match folder.exists() {
        true => fs::remove_dir_all(folder).with_context(|| folder.display().to_string()),
        false => Ok(()),
    }
}

/// Returns the outcome of a case. If it has failed, keeps what the browser shows, and the error names the browser, the
/// case and the files.
pub fn keep<T>(outcome: Result<T>, witness: impl Witness, browser: impl Display, case: &str) -> Result<T> {
    outcome.map_err(|error| {
        let kept = FOLDER.get().map(|folder| write(folder, witness, &format!("{browser}-{case}"), &error));
        let place = match kept {
            None => String::new(),
            Some(Ok(path)) => format!(", see {} and .log", path.display()),
            Some(Err(error)) => format!(", and the browser cannot be shown: {error:#}"), // it may have crashed
        };
        error.context(format!("{browser}: {case}{place}"))
    })
}

/// Writes both files, and returns the path of the screenshot.
fn write(folder: &Path, mut witness: impl Witness, name: &str, error: &Error) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let name: String = name.chars().take(MAX_NAME).map(in_file_name).collect();
    let console = witness.console().unwrap_or_else(|error| format!("the console cannot be read: {error:#}"));
    fs::write(folder.join(format!("{name}.log")), format!("{error:?}\n\nThe console:\n{console}\n"))?;
    let path = folder.join(format!("{name}.png"));
    fs::write(&path, witness.screenshot()?)?;
    Ok(path)
}

fn in_file_name(c: char) -> char {
    if c.is_alphanumeric() || c == '-' { c } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    struct Shown;

    impl Witness for Shown {
        fn screenshot(&mut self) -> Result<Vec<u8>> {
            Ok(b"PNG".to_vec())
        }

        fn console(&mut self) -> Result<String> {
            bail!("the tab crashed")
        }
    }

    #[test]
    fn keeps_the_screenshot_and_the_error_even_without_a_console() {
        let folder = tempfile::tempdir().unwrap();
        let error = Error::msg("17 bytes arrived");
        let path = write(folder.path(), Shown, "Firefox-a/b: c", &error).unwrap();
        assert_eq!(path, folder.path().join("Firefox-a_b__c.png"));
        assert_eq!(fs::read(&path).unwrap(), b"PNG");
        let log = fs::read_to_string(path.with_extension("log")).unwrap();
        assert!(log.starts_with("17 bytes arrived") && log.contains("the tab crashed"), "{log}");
    }

    #[test]
    fn an_outcome_is_passed_on() {
        assert_eq!(keep(Ok(7), Shown, "Firefox", "a case").unwrap(), 7);
        let error = keep::<()>(Err(Error::msg("17 bytes arrived")), Shown, "Firefox", "a case").unwrap_err();
        assert_eq!(format!("{error:#}"), "Firefox: a case: 17 bytes arrived");
    }
}
