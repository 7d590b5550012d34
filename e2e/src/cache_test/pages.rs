//! Empty pages with the package, whose worker finds what it is to find in the browser.

use std::path::Path;
use std::{fmt, fs};

use anyhow::Result;
use tempfile::TempDir;
use weightstream_cli::serve::{Running, Server};

/// What a worker has to keep files in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Storage {
    Files,
    Database,
    Nothing,
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Storage::Files => "the origin private file system",
            Storage::Database => "IndexedDB",
            Storage::Nothing => "nothing",
        })
    }
}

/// A server of such pages: an origin of its own, with a cache of its own.
pub struct Pages {
    server: Running,
    folders: [TempDir; 2],
}

impl Pages {
    pub fn new(package: &Path, storage: Storage) -> Result<Self> {
        Pages::with(package, storage, false)
    }

    /// The same, isolated from other origins.
    pub(super) fn isolated(package: &Path) -> Result<Self> {
        Pages::with(package, Storage::Files, true)
    }

    fn with(package: &Path, storage: Storage, is_isolated: bool) -> Result<Self> {
        let (pages, package) = (tempfile::tempdir()?, package_for(package, storage)?);
        fs::write(pages.path().join("index.html"), "<!doctype html><title>cache</title>")?;
        let server = Server::new().mount("/", pages.path()).mount("/pkg", package.path()).isolated(is_isolated);
        Ok(Pages { server: server.bind("127.0.0.1:0")?.spawn(), folders: [pages, package] })
    }

    /// The package of these pages.
    pub(super) fn package(&self) -> &Path {
        let [_, package] = &self.folders;
        package.path()
    }

    /// Where the files of the pages are.
    pub(super) fn folder(&self) -> &Path {
        let [pages, _] = &self.folders;
        pages.path()
    }

    pub fn origin(&self) -> String {
        self.server.url()
    }

    /// The address of a page with nothing on it.
    pub fn url(&self) -> String {
        format!("{}/", self.server.url())
    }
}

/// The package, but for what the worker finds in the browser.
fn package_for(package: &Path, storage: Storage) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for file in fs::read_dir(package)? {
        let file = file?;
        if !file.file_type()?.is_file() {
            continue; // its documentation
        }
        fs::copy(file.path(), folder.path().join(file.file_name()))?;
    }
    if storage != Storage::Files {
        let worker = folder.path().join("weightstream.worker.js");
        fs::rename(&worker, folder.path().join("worker.js"))?;
        fs::write(worker, "import \"./hide.js\"; import \"./worker.js\";")?;
    }
    let no_files = "if (globalThis.FileSystemFileHandle) delete FileSystemFileHandle.prototype.createSyncAccessHandle;";
    let no_database = "Object.defineProperty(globalThis, 'indexedDB', { value: undefined });";
    let hidden = if storage == Storage::Nothing { format!("{no_files} {no_database}") } else { no_files.to_owned() };
    fs::write(folder.path().join("hide.js"), hidden)?;
    Ok(folder)
}
