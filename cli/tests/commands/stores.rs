//! `publish` to stores that refuse it. Stores that accept it are tested by `cargo run -p e2e -- stores`.

use super::Folder;
use super::bytes::{noise, safetensors};
use super::server::{Reply, Server};
use std::process::Command;

/// Runs `publish` with the variables of a store whose every answer is this one. Returns standard error.
fn publish(
    destination: &str,
    status: u16,
    body: &'static str,
    variables: &dyn Fn(&Server) -> Vec<(String, String)>,
) -> String {
    let (folder, server) = (Folder::new(), Server::new(move |_| Reply::new(status, body.as_bytes())));
    folder.write("m.safetensors", &safetensors(None, &[("a", "U8", &[40][..], noise(1, 40))]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weightstream"));
    command.args(["publish", "m.safetensors", destination]).current_dir(folder.0.path());
    let output = command.envs(variables(&server)).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(server.requests().iter().all(|request| request.method != "PUT"), "nothing is sent");
    String::from_utf8(output.stderr).unwrap()
}

fn pairs(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn s3(server: &Server) -> Vec<(String, String)> {
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s"), ("AWS_REGION", "us-east-1")];
    pairs(&[&keys[..], &[("AWS_ENDPOINT_URL", &server.url(""))]].concat())
}

fn google(server: &Server) -> Vec<(String, String)> {
    pairs(&[("GOOGLE_BASE_URL", &server.url("")), ("GOOGLE_BEARER_TOKEN", "test")])
}

fn azure(server: &Server) -> Vec<(String, String)> {
    let account = [("AZURE_STORAGE_ACCOUNT_NAME", "a"), ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")];
    pairs(&[&account[..], &[("AZURE_STORAGE_ENDPOINT", &server.url(""))]].concat())
}

#[test]
fn a_missing_bucket_is_named_before_anything_is_sent() {
    let missing = "<?xml version='1.0'?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not \
                   exist.</Message></Error>";
    let container = "<Error><Code>ContainerNotFound</Code><Message>The specified container does not \
                     exist.\nRequestId:1</Message></Error>";
    for printed in [
        publish("s3://none/m/", 404, missing, &s3),
        publish("gs://none/m/", 404, missing, &google),
        publish("az://none/m/", 404, container, &azure),
    ] {
        assert!(printed.starts_with("weightstream: error[NOT_FOUND]: "), "{printed}");
        assert!(printed.contains("://none/m/model.apr: the store has no bucket of this name"), "{printed}");
        assert!(printed.contains("Create the bucket") && printed.lines().count() == 1, "{printed}");
    }
}

#[test]
fn wrong_keys_are_named_before_anything_is_sent() {
    let unknown = "<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist in our \
                   records.</Message></Error>";
    let printed = publish("s3://bucket/m/", 403, unknown, &s3);
    assert!(printed.contains("(InvalidAccessKeyId: The key does not exist in our records)"), "{printed}");
    assert!(printed.contains("Check the credentials") && !printed.contains('<'), "{printed}");
}
