//! Every fixture, served by the project's own server.

use super::{corpus, open, run};
use std::rc::Rc;
use weightstream::loader::TensorRequest;
use weightstream::native::Reader;
use weightstream::serve::Server;

#[test]
fn every_fixture_is_the_same_over_http() {
    let server = Server::new().mount("/", corpus::root()).bind("127.0.0.1:0").unwrap().spawn();
    let mut compared = 0;
    for corpus::Fixture { path, .. } in corpus::fixtures() {
        if path.ends_with("model.v02.aeroset.json") {
            continue; // its files are at a host that does not exist
        }
        let mapped = Reader::open(corpus::root().join(&path));
        run(async {
            let loader = open(&format!("{}/{path}", server.url())).await;
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
            assert!(mapped.tensors().iter().eq(index.iter().map(|tensor| &**tensor)), "{path}");
            for tensor in &index {
                let loaded = loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(())).await.unwrap();
                for component in loaded.components {
                    let mut bytes = Vec::new();
                    let mut take = |piece: &[u8]| {
                        bytes.extend_from_slice(piece);
                        Ok(())
                    };
                    mapped.read_pieces(&tensor.name, &component.role, &mut take).unwrap();
                    assert!(bytes == component.buffer, "{path}: {}", tensor.name);
                    compared += 1;
                }
            }
            loader.verify(Rc::new(())).await.unwrap();
        });
    }
    assert!(compared > 100, "{compared} components");
}
