//! Folders that are created for outputs.

use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that an output needed and that did not exist. Dropping this removes those that are empty, which is what a
/// call leaves that fails before it writes a file.
#[derive(Debug, Default)]
pub struct CreatedFolders(Vec<PathBuf>);

impl CreatedFolders {
    /// Creates a folder, and those that it is in, unless they exist.
    ///
    /// # Errors
    /// `IO`.
    pub fn create(&mut self, folder: &Path) -> Result<()> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let mut missing: Vec<_> = folder.ancestors().take_while(is_missing).collect();
        while let Some(path) = missing.pop() {
            self.create_one(path).map_err(|error| Error::from(error).in_file(&path.display().to_string()))?;
        }
        // A file has the path, for example.
        fs::create_dir_all(folder).map_err(|error| Error::from(error).in_file(&folder.display().to_string()))
    }

    /// Creates a folder in an existing one, unless something has its path.
    ///
    /// # Errors
    /// Those of creating a folder.
    pub fn create_one(&mut self, folder: &Path) -> io::Result<()> {
        match fs::create_dir(folder) {
            Ok(()) => self.0.push(folder.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            fs::remove_dir(folder).ok(); // fails if the folder has files
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn removes_the_empty_folders_that_it_created() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        fs::create_dir(at("existing")).unwrap();
        for folder in ["existing/a/b", "existing/a/../c", "new/a/b/", "existing"] {
            let mut folders = CreatedFolders::default();
            folders.create(&at(folder)).unwrap();
            assert!(at(folder).is_dir());
            drop(folders);
            assert!(at("existing").is_dir(), "{folder}");
            assert_eq!(fs::read_dir(at("existing")).unwrap().count(), 0, "{folder}");
            assert!(!at("new").exists());
        }
    }

    #[test]
    fn keeps_folders_with_files() {
        let place = tempfile::tempdir().unwrap();
        let mut folders = CreatedFolders::default();
        folders.create(&place.path().join("a/b")).unwrap();
        fs::write(place.path().join("a/m.apr"), "").unwrap();
        drop(folders);
        assert!(place.path().join("a/m.apr").exists() && !place.path().join("a/b").exists());
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        for path in ["file", "file/a"] {
            assert!(CreatedFolders::default().create(&place.path().join(path)).is_err(), "{path}");
        }
        assert!(place.path().join("file").is_file());
    }
}
