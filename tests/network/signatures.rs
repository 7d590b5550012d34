//! Signed models: only bytes that match the signature are returned, whatever the server sends.

use super::bytes::{noise, safetensors};
use super::server::{Reply, Server, answer, limited, whole};
use super::{HttpLoader, options, run};
use futures::TryStreamExt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use weightstream::ErrorKind;
use weightstream::Result;
use weightstream::internals::codec::digest::digest_of;
use weightstream::internals::index::Algorithm;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::{Loader, RemoteFile, SignedDigests, TensorRequest};
use weightstream::internals::signature::SignedFiles;
use weightstream::internals::source::http::HttpSource;

const SHA256: Digest = Digest::Sha256([0; 32]);

/// A model of several blocks, and the bytes of its tensors.
fn model() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let (a, b) = (noise(1, 1_000_000), noise(2, 900_000));
    let file = safetensors(None, &[("a", "U8", &[1000, 1000][..], a.clone()), ("b", "U8", &[900, 1000], b.clone())]);
    (file, a, b)
}

fn signature(file: &[u8]) -> SignedDigests {
    let mut files = SignedFiles::default();
    files.add_file("m.safetensors", digest_of(file, SHA256)).unwrap();
    SignedDigests::default().with_files(Arc::new(files))
}

/// The same as `signature`, with digests of pieces.
fn in_pieces(file: &[u8], length: usize) -> SignedDigests {
    let mut files = SignedFiles::default();
    for (number, piece) in file.chunks(length).enumerate() {
        let start = (number * length) as u64;
        let end = start + piece.len() as u64;
        files.add_piece("m.safetensors", start, Some(end), digest_of(piece, SHA256)).unwrap();
    }
    SignedDigests::default().with_files(Arc::new(files))
}

async fn open(server: &Server, signature: SignedDigests) -> Result<HttpLoader> {
    let options = options().with_signature(Some(signature));
    Loader::open(HttpSource::new(&server.url("/m.safetensors"), &[])?, options).await.map(Rc::new)
}

async fn load(loader: &HttpLoader, name: &str, rows: Option<Range<u64>>) -> Result<(Vec<u8>, Option<Algorithm>)> {
    let request = TensorRequest::default().with_rows(rows);
    let mut loaded = loader.load_tensor(name, request, Rc::new(())).await?;
    Ok((loaded.components.remove(0).buffer, loaded.verified))
}

/// Loads everything in every way, and compares it.
async fn check(loader: &HttpLoader, a: &[u8], b: &[u8]) -> Result<()> {
    assert_eq!(load(loader, "b", None).await?, (b.to_vec(), Some(Algorithm::Sha256)));
    assert_eq!(load(loader, "a", Some(700..703)).await?, (a[700_000..703_000].to_vec(), Some(Algorithm::Sha256)));
    let tensors: Vec<_> = loader.tensors(None, Rc::new(())).await?.try_collect().await?;
    assert_eq!(tensors.iter().map(|tensor| &*tensor.components[0].buffer).collect::<Vec<_>>(), [a, b]);
    assert_eq!(loader.verify(Rc::new(())).await?, Some(Algorithm::Sha256));
    Ok(())
}

#[test]
fn loads_what_was_signed_from_any_server() {
    let (file, a, b) = model();
    for (name, signature) in [("file", signature(&file)), ("pieces", in_pieces(&file, 300_001))] {
        for kind in ["ranges", "whole", "chunked", "broken"] {
            let served = file.clone();
            let server = Server::new(move |request| match kind {
                "ranges" => answer(&served, request),
                "whole" => whole(&served),
                "chunked" => whole(&served).chunked(),
                _ if request.number % 2 == 1 => answer(&served, request).cut_after(400_000),
                _ => answer(&served, request),
            });
            let outcome = run(async { check(&open(&server, signature.clone()).await?, &a, &b).await });
            assert_eq!(outcome, Ok(()), "{name}, {kind}");
        }
    }
}

/// A response that ends within a block is not taken for a broken connection.
#[test]
fn limited_responses_are_continued_without_an_attempt() {
    let (file, a, b) = model();
    for limit in [300_000, 700_000] {
        let served = file.clone();
        let server = Server::new(move |request| answer(&served, &limited(request, limit)));
        let no_attempts = options().with_retry(options().retry.max_attempts(0));
        let outcome = run(async {
            let source = HttpSource::new(&server.url("/m.safetensors"), &[])?;
            let loader = Loader::open(source, no_attempts.with_signature(Some(signature(&file)))).await?;
            check(&Rc::new(loader), &a, &b).await
        });
        assert_eq!(outcome, Ok(()), "{limit}");
    }
}

#[test]
fn refuses_a_file_that_differs_in_one_byte_anywhere() {
    let (file, ..) = model();
    for at in [0, 100, 300_000, file.len() - 1] {
        for signature in [signature(&file), in_pieces(&file, 300_001)] {
            let mut served = file.clone();
            served[at] ^= 1;
            let server = Server::new(move |request| answer(&served, request));
            let error = run(async { open(&server, signature).await.map(drop) }).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Signature, "{at}: {error}");
            assert!(error.context.url.is_some_and(|url| url.ends_with("/m.safetensors")));
        }
    }
}

#[test]
fn refuses_a_file_that_is_cut_or_extended() {
    let (file, ..) = model();
    for served in [file[..file.len() - 1].to_vec(), [&file[..], b"x"].concat()] {
        for signature in [signature(&file), in_pieces(&file, 300_001)] {
            let served = served.clone();
            let server = Server::new(move |request| answer(&served, request));
            let error = run(async { open(&server, signature).await.map(drop) }).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Signature, "{error}");
        }
    }
}

/// The server sends the signed file once, and then other bytes under the same ETag.
#[test]
fn refuses_bytes_that_change_after_the_check() {
    let (file, a, _) = model();
    let at = file.len() - 500_000; // in the tensor `b`
    let server = Server::new(move |request| match request.number {
        0 => answer(&file, request),
        _ => {
            let mut changed = file.clone();
            changed[at] ^= 1;
            answer(&changed, request)
        }
    });
    run(async {
        let loader = open(&server, signature(&model().0)).await.unwrap();
        assert_eq!(load(&loader, "a", None).await.unwrap().0, a);
        let error = load(&loader, "b", None).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Signature, "{error}");
        assert!(error.to_string().contains("have changed since"), "{error}");
    });
}

#[test]
fn refuses_a_file_that_was_not_signed() {
    let (file, ..) = model();
    let server = Server::new(|_| Reply::new(500, b""));
    for path in ["other.safetensors", "sub/m.safetensors", "."] {
        let signature = signature(&file).with_path(Some(path.to_owned()));
        let error = run(async { open(&server, signature).await.map(drop) }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Signature, "{path}: {error}");
    }
    assert!(server.requests().is_empty(), "a file was requested that cannot be right");
}

#[test]
fn refuses_an_empty_file_in_place_of_a_signed_one() {
    let (file, ..) = model();
    for is_range in [true, false] {
        let range = || Reply::new(416, b"").with("Content-Range", "bytes */0");
        let server = Server::new(move |_| if is_range { range() } else { Reply::new(200, b"") });
        for signature in [signature(&file), in_pieces(&file, 300_001)] {
            let source = HttpSource::new(&server.url("/m.safetensors"), &[]).unwrap();
            let opening = RemoteFile::open_signed(source, options().retry, None, Some(&signature));
            let error = run(async { opening.await.map(drop) }).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Signature, "{error}");
        }
    }
}

#[test]
fn other_files_of_a_model_must_be_signed_as_well() {
    let shard = |name, seed| safetensors(None, &[(name, "U8", &[3000][..], noise(seed, 3000))]);
    let (a, b) = (shard("a", 1), shard("b", 2));
    let index = br#"{"metadata":{},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}}"#;
    for (signed, expected) in [(&["a", "b"][..], true), (&["a"], false)] {
        let (a, b) = (a.clone(), b.clone());
        let mut files = SignedFiles::default();
        files.add_file("m/model.safetensors.index.json", digest_of(index, SHA256)).unwrap();
        for name in signed {
            let bytes = if *name == "a" { &a } else { &b };
            files.add_file(&format!("m/{name}.safetensors"), digest_of(bytes, SHA256)).unwrap();
        }
        let signature = SignedDigests::default().with_files(Arc::new(files));
        let signature = signature.with_path(Some("m/model.safetensors.index.json".to_owned()));
        let server = Server::new(move |request| match request.path.as_str() {
            "/a.safetensors" => answer(&a, request),
            "/b.safetensors" => answer(&b, request),
            _ => answer(index, request),
        });
        let url = server.url("/model.safetensors.index.json");
        let outcome = run(async {
            let options = options().with_signature(Some(signature));
            let loader = Rc::new(Loader::open(HttpSource::new(&url, &[])?, options).await?);
            loader.verify(Rc::new(())).await
        });
        match outcome {
            Ok(verified) => assert!(expected && verified == Some(Algorithm::Sha256)),
            Err(error) => assert!(!expected && error.kind == ErrorKind::Signature, "{error}"),
        }
    }
}
