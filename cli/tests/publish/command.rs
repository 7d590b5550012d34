//! The command: exit codes, JSON and the printed configuration.

use super::server::{self, Change};
use std::process::{Command, Output};

fn run(change: Change, more: &[&str]) -> Output {
    let url = format!("{}/model.safetensors", server::start(change));
    Command::new(env!("CARGO_BIN_EXE_weightstream")).args(["publish", "--check", &url]).args(more).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn exits_with_0_and_prints_no_configuration_if_all_is_well() {
    let output = run(|_, _| {}, &[]);
    assert!(output.status.success());
    assert!(text(&output).ends_with("0 errors, 0 warnings\n") && !text(&output).contains("Configuration"));
}

#[test]
fn exits_with_0_after_a_warning_and_1_after_an_error() {
    assert_eq!(run(|_, response| response.remove("etag"), &[]).status.code(), Some(0));
    assert_eq!(run(|_, response| response.remove("access-control-allow-origin"), &[]).status.code(), Some(1));
}

#[test]
fn prints_the_configuration_of_the_server_that_responded() {
    let nginx: Change = |_, response| {
        response.remove("etag");
        response.set("server", "nginx/1.22.1");
    };
    let printed = text(&run(nginx, &[]));
    assert!(printed.contains("Configuration of nginx") && !printed.contains("Configuration of s3"));
    let given = text(&run(nginx, &["--server", "s3"]));
    assert!(given.contains("Configuration of s3") && !given.contains("Configuration of nginx"));
    let unknown = text(&run(|_, response| response.remove("etag"), &[]));
    for server in ["nginx", "s3", "cloudflare"] {
        assert!(unknown.contains(&format!("Configuration of {server}")), "{unknown}");
    }
    assert_eq!(run(nginx, &["--server", "apache"]).status.code(), Some(2));
}

#[test]
fn prints_findings_as_json() {
    let output = run(|_, response| response.remove("etag"), &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let etag = findings.iter().find(|finding| finding["name"] == "etag").unwrap();
    assert_eq!((&etag["severity"], &etag["seen"]), (&"warning".into(), &"no etag".into()));
    assert!(json["configuration"].as_array().unwrap().len() >= 3);
}
