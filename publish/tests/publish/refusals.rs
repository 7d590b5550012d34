//! What servers refuse is one sentence that says what to do.

use crate::model::Folder;
use crate::published::{options, seven_layers};
use crate::server::{Refusal, Server};
use weightstream::ErrorKind;

/// The error of publishing at a server, and whether it was asked to keep a file.
fn refused(refusal: Refusal) -> (weightstream::Error, bool) {
    let (folder, server) = (Folder::new(), Server::refusing(refusal));
    let destination = server.url("/m/");
    let error = weightstream_publish::publish_with(&seven_layers(&folder), &destination, &options(), &()).unwrap_err();
    (error, server.requests().iter().any(|request| request.method == "PUT"))
}

#[track_caller]
fn assert_says(refusal: Refusal, sentence: &str, advice: &str) {
    let error = refused(refusal).0;
    let message = error.to_string();
    assert_eq!(error.kind, ErrorKind::Http, "{message}");
    assert!(message.contains(sentence) && message.contains(advice), "{message}");
    assert!(message.contains("/m/") && !message.contains('<') && !message.contains('\n'), "{message}");
}

#[test]
fn a_limit_of_the_server_is_named_with_its_setting() {
    assert_says(
        |method| {
            (method == "PUT").then_some(("413 Request Entity Too Large", "<html>\r\n<title>413</title>\r\n</html>"))
        },
        "the server does not accept files of this size (HTTP status 413)",
        "client_max_body_size",
    );
}

#[test]
fn a_server_without_put_is_named() {
    let refusal: Refusal = |method| (method == "PUT").then_some(("405 Not Allowed", "<html>"));
    assert_says(refusal, "the server does not accept this method (HTTP status 405)", "Enable PUT");
}

#[test]
fn a_folder_that_the_server_does_not_have_is_named() {
    let error =
        refused(|method| matches!(method, "PUT" | "MKCOL").then_some(("404 Not Found", "<html>"))).0.to_string();
    assert!(error.contains("does not accept a file here (HTTP status 404). Create the folder"), "{error}");
}

#[test]
fn refused_credentials_are_named_before_anything_is_sent() {
    for refusal in [
        |_: &str| Some(("401 Unauthorized", "")),
        |_: &str| Some(("403 Forbidden", "<Error><Code>SignatureDoesNotMatch</Code><Message>Wrong.</Message></Error>")),
    ] as [Refusal; 2]
    {
        assert_says(refusal, "the store refuses access (", "Check the credentials");
        assert!(!refused(refusal).1);
    }
    let forbidden: Refusal = |method| (method == "PUT").then_some(("403 Forbidden", "<html>"));
    assert_says(forbidden, "the store refuses access (HTTP status 403)", "allow to read and write this path");
}
