//! `weightstream publish`: checks the server of published files.

mod check;

use super::Failure;
use super::model::HttpArguments;
use weightstream::publish::check::Server;

/// Checks how a server or CDN delivers a published model to web apps, and prints what to change.
///
/// Sends the requests of a page of another origin: ranges, conditions, CORS, compression, caching and redirects.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 if nothing is an error, although there may be warnings; 1 if a finding is an \
                        error or the server does not answer; 2 for wrong usage.")]
pub(super) struct Arguments {
    /// The URL of a file of tensors or of a manifest to check.
    #[arg(long, value_name = "URL", required = true)]
    check: String,
    /// The origin of the page that loads the model.
    #[arg(long, value_name = "ORIGIN", default_value = "https://app.example")]
    origin: String,
    /// The server whose configuration to print, if something should change. By default, it is recognized by its
    /// response headers; if they do not tell, the configurations of all are printed.
    #[arg(long, value_name = "SERVER", value_parser = server)]
    server: Option<Server>,
    /// Print all findings and the configuration as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    http: HttpArguments,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    check::run(arguments)
}

fn server(name: &str) -> Result<Server, String> {
    let names = Server::ALL.map(Server::name).join(", ");
    Server::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| format!("write one of {names}"))
}
