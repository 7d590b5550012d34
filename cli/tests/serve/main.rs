//! Tests of the range server over raw sockets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod client;
mod conditions;
mod connections;
mod files;
mod half_open;
mod paths;
mod ranges;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weightstream_cli::serve::{Running, Server};

use client::{Client, Reply};

/// A served temporary folder.
struct Site {
    server: Running,
    folder: TempDir,
}

impl Site {
    /// Serves files with these names and contents; a slash in a name creates a folder.
    fn with(files: &[(&str, &[u8])]) -> Self {
        Self::configured(files, |server| server)
    }

    fn configured(files: &[(&str, &[u8])], configure: impl FnOnce(Server) -> Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            write(folder.path(), name, content);
        }
        let server = configure(Server::new().mount("/", folder.path()));
        Self { server: server.bind("127.0.0.1:0").unwrap().spawn(), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self) -> Client {
        Client::connect(&self.server)
    }

    /// Sends a request over a new connection. `headers` are complete lines.
    fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Reply {
        self.client().ask(method, path, headers)
    }

    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[])
    }
}

fn write(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Returns bytes without repetitions, so that bytes from a wrong offset are detected.
fn noise(byte_length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(byte_length + 8);
    while bytes.len() < byte_length {
        bytes.extend_from_slice(&next());
    }
    bytes.truncate(byte_length);
    bytes
}
