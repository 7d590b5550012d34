//! Every fixture through the reader: the same index and the same bytes as through the loader, and the same verdict.

use super::corpus::{Fixture, fixtures, root};
use futures::executor::block_on;
use std::collections::BTreeSet;
use std::fs;
use std::rc::Rc;
use weightstream::error::Result;
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::native::{Reader, StreamingLoader};
use weightstream::source::memory::MemorySource;

fn compare(fixture: &Fixture) {
    let natively = Reader::open(root().join(&fixture.path));
    let over_source = block_on(Loader::open(fixture.source(), Options::default()));
    let (mut reader, loader) = match (natively, over_source) {
        (Err(natively), Err(over_source)) => return assert_eq!(natively.kind, over_source.kind, "{natively}"),
        (natively, over_source) => (natively.unwrap(), Rc::new(over_source.unwrap())),
    };
    assert_eq!(block_on(loader.load_metadata()).as_ref(), Ok(reader.metadata()));
    let index = block_on(loader.load_index()).unwrap();
    assert!(index.iter().map(|tensor| &**tensor).eq(reader.tensors()));
    for tensor in index {
        let natively = reader.load_tensor(&tensor.name).unwrap();
        let request = TensorRequest::default();
        let over_source = block_on(loader.load_tensor(&tensor.name, request, Rc::new(()))).unwrap();
        assert_eq!(natively.verified, over_source.verified, "{}", tensor.name);
        for (ours, theirs) in natively.components.iter().zip(&over_source.components) {
            assert_eq!((&ours.role, &ours.dtype), (&theirs.role, &theirs.dtype));
            assert!(ours.buffer == theirs.buffer, "{} {}", tensor.name, ours.role);
            let mut pieces = Vec::new();
            let mut keep = |bytes: &[u8]| {
                pieces.extend_from_slice(bytes);
                Ok(())
            };
            reader.read_pieces(&tensor.name, &ours.role, &mut keep).unwrap();
            assert!(pieces == ours.buffer, "{} {}", tensor.name, ours.role);
        }
        assert_eq!(natively.components.len(), over_source.components.len());
        if let [only] = natively.components.as_slice() {
            assert!(reader.tensor_slice(&tensor.name).unwrap() == only.buffer, "{}", tensor.name);
        }
    }
    let checksums = reader.verify(&()).unwrap().checksums;
    let by = block_on(loader.verify(Rc::new(()))).unwrap();
    assert!(checksums.is_superset(&BTreeSet::from_iter(by)), "{checksums:?} but {by:?}");
}

#[test]
fn every_fixture_is_the_same_through_map_and_source() {
    let fixtures = fixtures();
    for fixture in &fixtures {
        println!("{}", fixture.path);
        compare(fixture);
    }
}

#[test]
fn every_bad_file_is_refused_as_the_loader_refuses_it() {
    for entry in fs::read_dir(root().join("bad")).unwrap() {
        let path = entry.unwrap().path();
        let source = MemorySource::new(vec![("bad".to_owned(), fs::read(&path).unwrap().into())]).unwrap();
        let over_source: Result<_> = block_on(async {
            let loader = Rc::new(Loader::open(source, Options::default()).await?);
            loader.verify(Rc::new(())).await
        });
        let natively = Reader::open(&path).and_then(|reader| reader.verify(&()));
        match (over_source, natively) {
            (Ok(_), Ok(_)) => {}
            (Err(over_source), Err(natively)) => assert_eq!(over_source.kind, natively.kind, "{natively}"),
            (over_source, natively) => panic!("{}: {over_source:?} but {natively:?}", path.display()),
        }
    }
}
