//! Compares every fixture on disk with the same fixture over HTTP.

use super::corpus;
use std::rc::Rc;
use std::sync::Arc;
use weightstream::Result;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::native::{Reader, RemoteReader, Verified};
use weightstream::internals::source::http::HttpSource;
use weightstream_cli::serve::Server;

#[test]
fn every_fixture_is_the_same_over_http() {
    let server = Server::new().mount("/", corpus::root()).bind("127.0.0.1:0").unwrap().spawn();
    let mut compared = 0;
    for corpus::Fixture { path, .. } in corpus::fixtures() {
        if path.ends_with("model.v02.aeroset.json") {
            continue; // its files are on a host that does not exist
        }
        let mapped = Reader::open(corpus::root().join(&path));
        block_on(async {
            let source = HttpSource::new(&format!("{}/{path}", server.url()), &[]).unwrap();
            let loader = Loader::open(source, Options::default()).await.map(Rc::new);
            let index = match &loader {
                Ok(loader) => loader.load_index().await,
                Err(error) => Err(error.clone()),
            };
            let (mapped, loader, index) = match (mapped, loader, index) {
                (Ok(mapped), Ok(loader), Ok(index)) => (mapped, loader, index),
                (mapped, _, index) => {
                    assert_eq!(mapped.err().map(|e| e.kind), index.err().map(|e| e.kind), "{path}");
                    return;
                }
            };
            assert_eq!(mapped.metadata(), &loader.load_metadata().await.unwrap(), "{path}");
            assert_eq!(mapped.tensors(), index.iter().map(Arc::unwrap_or_clone).collect::<Vec<_>>(), "{path}");
            for tensor in &index {
                let loaded = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await.unwrap();
                for component in loaded.components {
                    let mut bytes = Vec::new();
                    let role = &component.role;
                    mapped.read_pieces(&tensor.name, role, &mut |piece| take(&mut bytes, piece)).unwrap();
                    assert!(bytes == component.buffer, "{path}: {}", tensor.name);
                    compared += 1;
                }
            }
        });
    }
    assert!(compared > 100, "{compared} components");
}

#[test]
fn pieces_of_every_fixture_are_the_same_over_http_in_any_order() {
    let server = Server::new().mount("/", corpus::root()).bind("127.0.0.1:0").unwrap().spawn();
    let mut compared = 0;
    for corpus::Fixture { path, .. } in corpus::fixtures() {
        let Ok(mapped) = Reader::open(corpus::root().join(&path)) else { continue };
        if path.ends_with("model.v02.aeroset.json") {
            continue;
        }
        let remote = RemoteReader::open(&format!("{}/{path}", server.url()), &[], Options::default()).unwrap();
        assert!(mapped.tensors() == remote.tensors(), "{path}");
        assert_eq!(mapped.files().len(), remote.file_count(), "{path}");
        let without_names = |mut verified: Verified| {
            verified.unchecked.iter_mut().for_each(|(file, _)| file.clear());
            verified
        };
        let (by_map, by_http) = (mapped.verify(&()).map(without_names), remote.verify(&()).map(without_names));
        assert_eq!(by_map, by_http, "{path}");
        for tensor in mapped.tensors().iter().chain(mapped.tensors().iter().rev()) {
            for component in &tensor.components {
                let (mut expected, mut bytes) = (Vec::new(), Vec::new());
                let role = &component.role;
                let by_map = mapped.read_pieces(&tensor.name, role, &mut |piece| take(&mut expected, piece)).unwrap();
                let by_http = remote.read_pieces(tensor, role, &mut |piece| take(&mut bytes, piece)).unwrap();
                assert!(bytes == expected, "{path}: {}", tensor.name);
                assert_eq!(by_map, by_http, "{path}: {}", tensor.name);
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared} components");
}

fn take(bytes: &mut Vec<u8>, piece: &[u8]) -> Result<()> {
    bytes.extend_from_slice(piece);
    Ok(())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
