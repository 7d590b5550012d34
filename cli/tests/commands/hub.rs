//! Tests of the `weightstream` command with addresses on a hub.

use super::FILE;
use super::Folder;
use super::hub_server::{Api, COMMIT, MockHub, TOKEN};
use std::process::{Command, Output};

fn run(mock: &MockHub, folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.env("HF_ENDPOINT", mock.hub.url("")).env("HF_TOKEN", TOKEN);
    command.args(arguments).current_dir(folder.0.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_model_of_the_hub_is_inspected_verified_and_converted() {
    let (mock, folder) = (MockHub::new(Api::Full, &[("m.safetensors", &FILE)]), Folder::new());
    let inspected = run(&mock, &folder, &["inspect", "hf:owner/name@main/m.safetensors"]);
    assert!(inspected.status.success(), "{}", text(&inspected.stderr));
    assert!(text(&inspected.stdout).contains("second"), "{}", text(&inspected.stdout));
    let is_pinned = |path: &str| path.contains(&format!("/resolve/{COMMIT}/"));
    assert!(mock.hub.requests().iter().any(|request| is_pinned(&request.path)));
    let verified = run(&mock, &folder, &["verify", "hf:owner/name"]);
    assert!(text(&verified.stdout).contains("sha256"), "{verified:?}");
    let converted = run(&mock, &folder, &["convert", "hf:owner/name/m.safetensors", "m.apr"]);
    assert!(converted.status.success(), "{}", text(&converted.stderr));
    let listed = run(&mock, &folder, &["inspect", "m.apr"]);
    assert!(text(&listed.stdout).contains("second"), "{listed:?}");
    let requests = mock.hub.requests();
    assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer hf_s3cret")));
    assert!(mock.storage.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn refusals_say_what_to_do_and_never_show_the_token() {
    let (mock, folder) = (MockHub::new(Api::Full, &[]), Folder::new());
    for (address, part) in [("hf:owner/gated", "is gated"), ("hf:owner/missing", "there is no repository")] {
        let output = run(&mock, &folder, &["inspect", address]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(message.contains(part) && message.contains("HF_TOKEN") && !message.contains(TOKEN), "{message}");
    }
}
