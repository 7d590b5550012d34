//! Pinned digests, for a file without digests of its own.

use super::server::{Reply, Request, Server, answer};
use super::{FILE, HttpLoader, TENSORS, corpus, options, run};
use futures::TryStreamExt;
use std::collections::HashMap;
use std::rc::Rc;
use weightstream::Result;
use weightstream::internals::codec::digest::digest_of;
use weightstream::internals::index::Algorithm;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::{Digests, Loader, Options, TensorRequest};
use weightstream::internals::source::http::HttpSource;
use weightstream::{Error, ErrorKind};

const ALGORITHMS: [Digest; 4] = [Digest::Sha256([0; 32]), Digest::Blake3([0; 32]), Digest::Crc32(0), Digest::Crc32c(0)];

/// Opens the file without verification, so that only the pinned digests are checked.
async fn open(url: &str, digests: Digests) -> Result<HttpLoader> {
    let options = options().with_digests(digests).with_verify(false);
    Loader::open(HttpSource::new(url, &[])?, options).await.map(Rc::new)
}

fn tensor(name: &str, digest: Digest) -> Digests {
    Digests::default().with_tensors(HashMap::from([(name.to_owned(), digest)]))
}

fn file(name: &str, digest: Digest) -> Digests {
    Digests::default().with_files(HashMap::from([(name.to_owned(), digest)]))
}

async fn verified(loader: &HttpLoader, name: &str) -> Result<Option<Algorithm>> {
    Ok(loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await?.verified)
}

/// Loads all tensors. Returns the algorithm that verified all files.
async fn load_all(loader: &HttpLoader) -> Result<Option<Algorithm>> {
    let _: Vec<_> = loader.tensors(None, Rc::new(())).await?.try_collect().await?;
    Ok(loader.verified_by())
}

#[test]
fn a_tensor_is_verified_by_its_pinned_digest() {
    let server = Server::new(|request| answer(&FILE, request));
    let (name, bytes) = &TENSORS[1];
    run(async {
        for algorithm in ALGORITHMS {
            let right = digest_of(bytes, algorithm);
            let loader = open(&server.url("/m"), tensor(name, right)).await.unwrap();
            assert_eq!(verified(&loader, name).await, Ok(Some(right.algorithm())));
            assert_eq!(verified(&loader, "third").await, Ok(None));
            assert!(load_all(&loader).await.is_ok() && loader.verify(Rc::new(())).await.is_ok());

            let loader = open(&server.url("/m"), tensor(name, algorithm)).await.unwrap();
            let errors: [Error; 3] = [
                verified(&loader, name).await.unwrap_err(),
                load_all(&loader).await.unwrap_err(),
                loader.verify(Rc::new(())).await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(
                    (error.kind, error.context.tensor.as_deref()),
                    (ErrorKind::Checksum, Some(*name)),
                    "{error}"
                );
            }
            let rows = TensorRequest::default().with_rows(Some(1..2));
            assert!(loader.load_tensor(name, rows, Rc::new(())).await.is_ok(), "the digest does not apply to rows");
        }
    });
}

#[test]
fn the_parts_of_a_large_tensor_are_digested_in_order() {
    let bytes = super::bytes::noise(3, 5_000_000);
    let model = super::bytes::safetensors(None, &[("t", "U8", &[5_000_000], bytes.clone())]);
    let server = Server::new(move |request| answer(&model, request).slowly(8));
    run(async {
        for (digest, is_right) in [(digest_of(&bytes, ALGORITHMS[0]), true), (ALGORITHMS[0], false)] {
            let options = Options::default().with_coalesce_gap_bytes(64 << 10).with_digests(tensor("t", digest));
            let source = HttpSource::new(&server.url("/m"), &[]).unwrap();
            let loader = Rc::new(Loader::open(source, options).await.unwrap());
            let outcome = verified(&loader, "t").await.map_err(|error| error.kind);
            assert_eq!(outcome, if is_right { Ok(Some(Algorithm::Sha256)) } else { Err(ErrorKind::Checksum) });
        }
    });
    assert!(server.max_concurrent() > 1);
}

#[test]
fn components_are_digested_in_order() {
    let server = Server::new(fixture);
    let mut checked = 0;
    for corpus::Fixture { path, .. } in
        corpus::fixtures().into_iter().filter(|fixture| fixture.path.starts_with("ztensor/"))
    {
        run(async {
            let url = server.url(&format!("/{path}"));
            let Ok(loader) = open(&url, Digests::default()).await else { return };
            let sparse = loader.load_index().await.unwrap_or_default();
            for sparse in sparse.iter().filter(|tensor| tensor.components.len() > 1) {
                let loaded = loader.load_tensor(&sparse.name, TensorRequest::default(), Rc::new(())).await.unwrap();
                let bytes = loaded.components.into_iter().flat_map(|component| component.buffer).collect::<Vec<_>>();
                let pinned = open(&url, tensor(&sparse.name, digest_of(&bytes, ALGORITHMS[1]))).await.unwrap();
                assert_eq!(verified(&pinned, &sparse.name).await, Ok(Some(Algorithm::Blake3)), "{path}");
                let pinned = open(&url, tensor(&sparse.name, ALGORITHMS[1])).await.unwrap();
                assert_eq!(verified(&pinned, &sparse.name).await.unwrap_err().kind, ErrorKind::Checksum, "{path}");
                assert_eq!(pinned.verify(Rc::new(())).await.unwrap_err().kind, ErrorKind::Checksum, "{path}");
                checked += 1;
            }
        });
    }
    assert!(checked > 0);
}

#[test]
fn a_file_digest_is_checked_when_the_whole_file_is_read() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async {
        for (name, algorithm) in
            [("m.safetensors".to_owned(), ALGORITHMS[0]), (server.url("/m.safetensors"), ALGORITHMS[3])]
        {
            let right = digest_of(&FILE, algorithm);
            let loader = open(&server.url("/m.safetensors"), file(&name, right)).await.unwrap();
            assert_eq!(load_all(&loader).await, Ok(Some(right.algorithm())));
            assert_eq!(loader.verify(Rc::new(())).await, Ok(Some(right.algorithm())));
            let loader = open(&server.url("/m.safetensors"), file(&name, algorithm)).await.unwrap();
            assert_eq!(load_all(&loader).await.unwrap_err().kind, ErrorKind::Checksum);
            assert_eq!(loader.verify(Rc::new(())).await.unwrap_err().kind, ErrorKind::Checksum);
        }
    });
}

#[test]
fn a_manifest_is_checked_by_open_and_its_files_by_path() {
    let server = Server::new(fixture);
    let url = server.url("/apr/sharded/model.apr.json");
    let bytes = |name: &str| std::fs::read(corpus::root().join("apr/sharded").join(name)).unwrap();
    run(async {
        let right = digest_of(&bytes("model.apr.json"), ALGORITHMS[0]);
        assert!(open(&url, file("model.apr.json", right)).await.is_ok());
        let error = open(&url, file("model.apr.json", ALGORITHMS[0])).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Checksum, "{error}");

        let shard = "model-00002-of-00003.apr";
        let loader = open(&url, file(shard, digest_of(&bytes(shard), ALGORITHMS[0]))).await.unwrap();
        assert!(load_all(&loader).await.is_ok());
        let loader = open(&url, file(shard, ALGORITHMS[0])).await.unwrap();
        let error = load_all(&loader).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Checksum, "{error}");
        assert!(error.to_string().contains(shard), "{error}");
    });
}

#[test]
fn a_pinned_name_that_does_not_exist_is_an_error() {
    let server = Server::new(|request| answer(&FILE, request));
    run(async {
        let error = open(&server.url("/m"), file("other", ALGORITHMS[0])).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
        let loader = open(&server.url("/m"), tensor("other", ALGORITHMS[0])).await.unwrap();
        assert_eq!(load_all(&loader).await.unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// The fixture at the requested path.
fn fixture(request: &Request) -> Reply {
    match std::fs::read(corpus::root().join(request.path.trim_start_matches('/'))) {
        Ok(file) => answer(&file, request),
        Err(_) => Reply::new(404, b""),
    }
}
