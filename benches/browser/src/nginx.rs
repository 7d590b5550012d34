//! Runs nginx with sendfile on a folder.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use xtask::{apt, command, setup};

/// A running nginx. Dropping it ends the process.
pub(super) struct Nginx {
    child: Child,
    pub(super) url: String,
    _folder: TempDir,
}

impl Nginx {
    pub(super) fn start(files: &Path) -> Result<Nginx> {
        Nginx::start_with(files, "")
    }

    /// Starts nginx with additional directives for its server.
    pub(super) fn start_with(files: &Path, directives: &str) -> Result<Nginx> {
        let find = || {
            let paths = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"].map(Into::into);
            let found = command::in_path("nginx").into_iter().chain(paths).find(|path| path.is_file())?;
            Some(found.display().to_string())
        };
        let program = setup::ready("nginx", find, || apt::install(&["nginx-light"]))?;
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let configuration = format!(
            "daemon off; pid nginx.pid; error_log stderr; events {{}}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; root {};\n\
             client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
             uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
             server {{ listen 127.0.0.1:{port}; add_header Access-Control-Allow-Origin *;\n\
             add_header Cross-Origin-Resource-Policy cross-origin; {directives} }} }}\n",
            files.display()
        );
        // By default the worker drops root privileges and may then be unable to read the files.
        let is_root = command::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
        let user = if is_root { "user root;\n" } else { "" };
        fs::write(folder.path().join("nginx.conf"), format!("{user}{configuration}"))?;
        let mut command = Command::new(&program);
        command.arg("-p").arg(folder.path()).args(["-c", "nginx.conf"]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Nginx { child, url: format!("http://127.0.0.1:{port}"), _folder: folder })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A signal lets the worker end, too.
        let ended = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        if !ended.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
