//! The native reader over memory maps and the loader give the same results for every fixture.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod corpus;

use corpus::root;
use futures::executor::block_on;
use std::fs;
use std::rc::Rc;
use weightstream::Result;
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::native::Reader;
use weightstream::source::memory::MemorySource;

#[test]
fn mapped_and_streamed_fixtures_are_equal() {
    for fixture in corpus::fixtures() {
        let path = &fixture.path;
        let (mapped, streamed) = (open_mapped(root().join(path)), open(fixture.source()));
        let (mapped, streamed) = match (mapped, streamed) {
            (Ok(mapped), Ok(streamed)) => (mapped, streamed),
            (mapped, streamed) => {
                assert_eq!(mapped.err().map(|e| e.kind), streamed.err().map(|e| e.kind), "{path}");
                continue;
            }
        };
        assert_eq!(mapped.metadata(), &block_on(streamed.load_metadata()).unwrap(), "{path}");
        let index = block_on(streamed.load_index()).unwrap().to_vec();
        assert!(mapped.tensors().iter().eq(index.iter().map(|tensor| &**tensor)), "{path}");
        for tensor in &index {
            let request = TensorRequest::default();
            let loaded = block_on(streamed.load_tensor(&tensor.name, request, Rc::new(()))).unwrap();
            for component in loaded.components {
                let mut bytes = Vec::new();
                let mut take = |piece: &[u8]| {
                    bytes.extend_from_slice(piece);
                    Ok(())
                };
                mapped.read_pieces(&tensor.name, &component.role, &mut take).unwrap();
                assert_eq!(bytes, component.buffer, "{path}: {}", tensor.name);
                if tensor.components.len() == 1 {
                    assert_eq!(mapped.tensor_slice(&tensor.name).unwrap(), bytes, "{path}: {}", tensor.name);
                }
            }
        }
        assert!(mapped.verify(&()).is_ok(), "{path}");
    }
}

#[test]
fn mapped_and_streamed_bad_files_give_the_same_error() {
    for entry in fs::read_dir(root().join("bad")).unwrap() {
        let path = entry.unwrap().path();
        let (name, bytes) = (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
        let mapped = open_mapped(&path).and_then(|reader| reader.verify(&()));
        let source = MemorySource::new(vec![(name, bytes.into())]).unwrap();
        let streamed = open(source).and_then(|loader| block_on(loader.verify(Rc::new(()))));
        assert_eq!(mapped.unwrap_err().kind, streamed.unwrap_err().kind, "{}", path.display());
    }
}

fn open(source: MemorySource) -> Result<Rc<Loader<MemorySource>>> {
    block_on(async {
        let loader = Rc::new(Loader::open(source, Options::default()).await?);
        loader.load_index().await?;
        Ok(loader)
    })
}

/// Maps the file. No process writes to the fixtures during the test.
fn open_mapped(path: impl AsRef<std::path::Path>) -> Result<Reader> {
    unsafe { Reader::open_mapped(path) }
}
