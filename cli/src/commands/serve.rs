//! `weightstream serve`: serves a folder for web apps.

use super::terminal::is_quiet;
use super::{Failure, one_line};
use std::io::{self, Write};
use std::path::PathBuf;
use weightstream::{Error, ErrorKind};
use weightstream_cli::serve::Server;

/// Serves a folder on this machine, with Range requests, ETags and CORS headers.
///
/// Every page in a browser on this machine can read the folder's files; other machines on the network cannot.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 1 if the folder or the port cannot be used, 2 for wrong usage. Ctrl-C ends the server."
)]
pub(super) struct Arguments {
    /// The folder to serve.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// The port on 127.0.0.1; 0 selects a free port.
    #[arg(long, default_value_t = 8080)]
    port: u16,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = arguments.folder.display().to_string();
    if !arguments.folder.exists() {
        let error = Error::new(ErrorKind::NotFound, "there is no such folder").advise("Check the path.");
        return Err(error.in_file(&folder).into());
    }
    let server = Server::new().mount("/", &arguments.folder).bind(("127.0.0.1", arguments.port)).map_err(|error| {
        let what = format!("port {} cannot be used: {error}", arguments.port);
        Error::new(ErrorKind::Io, what).advise("Choose another port with `--port`.")
    })?;
    // With a free port, the address is a result: it is known only from here.
    if arguments.port == 0 || !is_quiet() {
        writeln!(io::stdout(), "serving {} at {} (Ctrl-C stops it)", one_line(&folder), server.url())?;
    }
    server.run();
    Ok(())
}
