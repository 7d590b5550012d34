//! Tests of models in several AERO files, opened by their AEROSET.

use crate::error::{ErrorKind, Result};
use crate::index::Algorithm;
use crate::loader::{Loader, Options, TensorRequest};
use crate::source::memory::MemorySource;
use futures::executor::block_on;
use std::fs;
use std::rc::Rc;

type Files = Vec<(String, Rc<[u8]>)>;

/// Reads the files of the fixture, with the manifest of this name first.
fn files(manifest: &str) -> Files {
    let folder = crate::testing::corpus::root().join("aero/set");
    let names = [manifest, "part-000.aero", "part-001.aero", "part-002.aero", "index.aero"];
    names.into_iter().map(|name| (name.to_owned(), fs::read(folder.join(name)).unwrap().into())).collect()
}

fn change(files: &mut Files, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let (_, bytes) = files.iter_mut().find(|(known, _)| known == name).unwrap();
    let mut changed = bytes.to_vec();
    change(&mut changed);
    *bytes = changed.into();
}

async fn open(files: Files) -> Result<Rc<Loader<MemorySource>>> {
    Loader::open(MemorySource::new(files)?, Options::default()).await.map(Rc::new)
}

#[test]
fn loading_one_tensor_requests_the_set_the_index_and_one_file() {
    block_on(async {
        let loader = open(files("model.aeroset.json")).await.unwrap();
        loader.load_tensor("blk.4.w", TensorRequest::default(), Rc::new(())).await.unwrap();
        assert_eq!(loader.stats().requests(), 3);
    });
}

#[test]
fn files_below_a_base_url_are_read_from_it() {
    let mut files = files("model.v02.aeroset.json");
    for (name, _) in files.iter_mut().skip(1) {
        *name = format!("http://127.0.0.1:0/models/x/{name}");
    }
    block_on(async {
        let loader = open(files).await.unwrap();
        assert_eq!(loader.load_index().await.unwrap().len(), 7);
        assert_eq!(loader.verify(Rc::new(())).await, Ok(Some(Algorithm::Sha256)));
    });
}

#[test]
fn files_that_are_already_local_need_no_url() {
    block_on(async {
        let loader = open(files("model.v02.aeroset.json")).await.unwrap();
        assert_eq!(loader.load_index().await.unwrap().len(), 7);
    });
}

#[test]
fn a_byte_that_no_chunk_covers_fails_the_digest_of_the_file() {
    for name in ["part-001.aero", "index.aero"] {
        let mut files = files("model.aeroset.json");
        change(&mut files, name, |bytes| bytes[90] ^= 1); // reserved, in the header
        block_on(async {
            let loader = open(files).await.unwrap();
            let error = loader.verify(Rc::new(())).await.unwrap_err();
            assert_eq!((error.kind, error.context.url.as_deref()), (ErrorKind::Checksum, Some(name)));
        });
    }
}

#[test]
fn rejects_a_set_that_does_not_match_its_index() {
    let mut files = files("model.aeroset.json");
    change(&mut files, "model.aeroset.json", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let swapped = text.replace("part-000", "part-x").replace("part-001", "part-000").replace("part-x", "part-001");
        *bytes = swapped.replace("3136", "0").replace("2736", "3136").replace(": 0", ": 2736").into_bytes();
    });
    block_on(async {
        let loader = open(files).await.unwrap();
        assert_eq!(loader.load_index().await.unwrap_err().kind, ErrorKind::Format);
    });
}

#[test]
fn an_index_file_alone_has_no_tensors() {
    let mut files = files("model.aeroset.json");
    let index = Rc::clone(&files[4].1);
    block_on(async {
        let alone = open(vec![("index.aero".to_owned(), Rc::clone(&index))]).await.unwrap();
        assert!(alone.load_index().await.unwrap().is_empty());
        // A part that should hold tensors must not be an index file.
        change(&mut files, "part-000.aero", |bytes| *bytes = index.to_vec());
        change(&mut files, "model.aeroset.json", |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap().replace("3136", "637");
            *bytes = text.into_bytes();
        });
        let loader = open(files).await.unwrap();
        let error = loader.load_tensor("blk.0.w", TensorRequest::default(), Rc::new(())).await.unwrap_err();
        assert_eq!((error.kind, error.context.url.as_deref()), (ErrorKind::Format, Some("part-000.aero")));
    });
}
