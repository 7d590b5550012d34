//! Every fixture is the same through the native reader, over mmap, as through the loader.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod corpus;

use futures::executor::block_on;
use std::rc::Rc;
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::native::{Reader, StreamingLoader};

#[test]
fn the_native_reader_gives_what_the_loader_gives() {
    let mut compared = 0;
    for fixture in corpus::fixtures() {
        let opened = block_on(Loader::open(fixture.source(), Options::default()));
        let (loader, mut reader) = match (opened, Reader::open(corpus::root().join(&fixture.path))) {
            (Ok(loader), Ok(reader)) => (Rc::new(loader), reader),
            (Err(loader), Err(reader)) => {
                assert_eq!((loader.kind, loader.what), (reader.kind, reader.what), "{}", fixture.path);
                continue;
            }
            (loader, reader) => panic!("{}: {:?} {:?}", fixture.path, loader.err(), reader.err()),
        };
        assert_eq!(reader.metadata(), &block_on(loader.load_metadata()).unwrap(), "{}", fixture.path);
        let index = block_on(loader.load_index()).unwrap();
        assert!(reader.tensors().iter().eq(index.iter().map(Rc::as_ref)), "{}", fixture.path);
        for tensor in &index {
            let place = format!("{}: {}", fixture.path, tensor.name);
            let mapped = reader.load_tensor(&tensor.name).unwrap();
            let loaded = block_on(loader.load_tensor(&tensor.name, TensorRequest::default(), Rc::new(()))).unwrap();
            assert_eq!(mapped.verified, loaded.verified, "{place}");
            assert_eq!(mapped.components.len(), loaded.components.len(), "{place}");
            for (mapped, loaded) in mapped.components.iter().zip(&loaded.components) {
                assert_eq!((&mapped.role, &mapped.dtype), (&loaded.role, &loaded.dtype), "{place}");
                assert_eq!(mapped.buffer, loaded.buffer, "{place}");
            }
            compared += 1;
        }
    }
    assert!(compared > 200, "only {compared} tensors");
}
