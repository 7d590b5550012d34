//! `weightstream publish --check URL`: prints the findings and the configuration.

use super::Arguments;
use crate::commands::terminal::{BAD, CHANGED, GOOD, MOVED, inform, is_quiet, styled};
use crate::commands::{Failure, count, one_line};
use serde_json::{Value, json};
use std::io::{self, Write};
use weightstream_publish::check::{CheckOptions, Finding, Report, Server, Severity, check};

pub(super) fn run(url: &str, arguments: &Arguments) -> Result<(), Failure> {
    let mut options = CheckOptions::default();
    if let Some(origin) = &arguments.origin {
        options.origin.clone_from(origin);
    }
    options.headers = arguments.http.headers_for(&[&url.into()])?;
    options.same_origin_only = arguments.http.same_origin;
    let report = check(url, &options)?;
    let servers = servers_to_configure(&report, arguments.server);
    if arguments.json {
        let mut out = anstream::stdout();
        serde_json::to_writer_pretty(&mut out, &as_json(&report, &servers)).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        print(&report, &servers)?;
    }
    if report.severity() == Severity::Error { Err(Failure::Findings) } else { Ok(()) }
}

/// None, if nothing needs to change.
fn servers_to_configure(report: &Report, given: Option<Server>) -> Vec<Server> {
    if report.severity() < Severity::Warning {
        return Vec::new();
    }
    given.or(report.server).map_or_else(|| Server::ALL.to_vec(), |server| vec![server])
}

fn print(report: &Report, servers: &[Server]) -> io::Result<()> {
    let mut out = anstream::stdout();
    for finding in report.findings.iter().filter(|finding| finding.severity > Severity::Ok || !is_quiet()) {
        print_finding(&mut out, finding)?;
    }
    for server in servers {
        for snippet in server.configuration() {
            writeln!(out, "\nConfiguration of {}, {}:\n\n{}", server.name(), snippet.place, snippet.text.trim_end())?;
        }
    }
    let number = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    inform(&format!("\n{}, {}", count(errors, "error"), count(warnings, "warning")))
}

fn print_finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let style = match finding.severity {
        Severity::Error => BAD,
        Severity::Warning => CHANGED,
        Severity::Ok => GOOD,
        _ => MOVED,
    };
    let severity = styled(style, finding.severity.name());
    writeln!(out, "{severity} {}: {}", finding.name, one_line(&finding.seen))?;
    if finding.severity > Severity::Ok {
        writeln!(out, "    {}", one_line(&finding.request))?;
    }
    if !finding.advice.is_empty() {
        writeln!(out, "    {}", finding.advice)?;
    }
    Ok(())
}

fn as_json(report: &Report, servers: &[Server]) -> Value {
    let findings: Vec<_> = report.findings.iter().map(finding_as_json).collect();
    let snippets = servers.iter().flat_map(|server| {
        let of_server = |snippet: weightstream_publish::check::Snippet| {
            json!({ "server": server.name(), "place": snippet.place, "text": snippet.text })
        };
        server.configuration().into_iter().map(of_server)
    });
    let configuration: Vec<_> = snippets.collect();
    let server = report.server.map(Server::name);
    json!({ "files": report.files, "server": server, "findings": findings, "configuration": configuration })
}

fn finding_as_json(finding: &Finding) -> Value {
    json!({
        "name": finding.name,
        "severity": finding.severity.name(),
        "request": finding.request,
        "seen": finding.seen,
        "advice": finding.advice,
    })
}
