//! Empty pages with the package. Storage APIs that a test excludes are hidden from its worker.

use std::path::Path;
use std::{fmt, fs};

use anyhow::Result;
use tempfile::TempDir;
use weightstream_cli::serve::{Running, Server};

/// The storage that is available to the cache worker.
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

/// A server of such pages. Each has its own origin and therefore its own cache.
pub struct Pages {
    server: Running,
    folders: [TempDir; 2],
}

impl Pages {
    pub fn new(package: &Path, storage: Storage) -> Result<Self> {
        Pages::with(package, storage, Server::new())
    }

    /// Like `new`, with cross-origin isolation and the origin private file system.
    pub(super) fn isolated(package: &Path) -> Result<Self> {
        Pages::with(package, Storage::Files, Server::new().isolated(true))
    }

    fn with(package: &Path, storage: Storage, server: Server) -> Result<Self> {
        let (pages, package) = (tempfile::tempdir()?, package_for(package, storage)?);
        fs::write(pages.path().join("index.html"), "<!doctype html><title>cache</title>")?;
        let server = server.mount("/", pages.path()).mount("/pkg", package.path());
        Ok(Pages { server: server.bind("127.0.0.1:0")?.spawn(), folders: [pages, package] })
    }

    /// The folder of the package that the pages import.
    pub(super) fn package(&self) -> &Path {
        let [_, package] = &self.folders;
        package.path()
    }

    /// The folder with the files of the pages.
    pub(super) fn folder(&self) -> &Path {
        let [pages, _] = &self.folders;
        pages.path()
    }

    pub fn origin(&self) -> String {
        self.server.url()
    }

    /// The URL of an empty page.
    pub fn url(&self) -> String {
        format!("{}/", self.server.url())
    }
}

/// Copies the package and hides storage APIs from its worker.
fn package_for(package: &Path, storage: Storage) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    for file in fs::read_dir(package)? {
        let file = file?;
        if !file.file_type()?.is_file() {
            continue; // the folder of the documentation
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
