//! `std::error::Error::source` of an error is the error that caused it.

use std::error::Error as _;
use std::io;
use std::iter::successors;
use weightstream::internals::native::Reader;
use weightstream::{Error, ErrorKind};

/// The first error of type `E` in the chain of causes.
fn cause<E: std::error::Error + 'static>(error: &Error) -> Option<&E> {
    successors(error.source(), |&cause| cause.source()).find_map(|cause| cause.downcast_ref())
}

#[test]
fn a_missing_file_has_the_error_of_the_operating_system() {
    let folder = tempfile::tempdir().unwrap();
    let error = Reader::open(folder.path().join("missing.apr")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
}

#[test]
#[cfg(feature = "safetensors")]
fn malformed_json_has_the_error_of_the_parser() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let header = br#"{bias:{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_slice(), &[0; 8]].concat()).unwrap();
    let error = Reader::open(&path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Format);
    let source = error.source().unwrap().downcast_ref::<serde_json::Error>().unwrap();
    assert!(source.is_syntax(), "{source}");
    assert!(error.what.contains(&source.to_string()), "{error}");
}

#[test]
#[cfg(feature = "http")]
fn a_refused_connection_has_the_error_of_the_operating_system() {
    use std::net::TcpListener;
    use weightstream::RetryPolicy;
    use weightstream::internals::loader::Options;
    use weightstream::internals::native::RemoteReader;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/model.safetensors", listener.local_addr().unwrap());
    drop(listener); // no server listens on this port any more
    let options = Options::default().with_retry(RetryPolicy::default().max_attempts(0));
    let error = RemoteReader::open(&url, &[], options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network);
    assert_eq!(cause::<io::Error>(&error).unwrap().kind(), io::ErrorKind::ConnectionRefused);
}
