//! What models say of themselves, and of their tensors, arrives as their writers put it in.
#![cfg(not(target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod corpus;

use corpus::Fixture;
use futures::executor::block_on;
use weightstream::index::Metadata;
use weightstream::loader::{Loader, Options};

#[test]
fn gguf_pairs_keep_their_values() {
    let mut compared = 0;
    for fixture in fixtures("gguf") {
        let Some(pairs) = fixture.expected.metadata.as_ref().and_then(|metadata| metadata.get("kv")) else { continue };
        let metadata = metadata(&fixture);
        for (key, expected) in pairs.as_object().unwrap().iter().filter(|(key, _)| !key.starts_with("GGUF.")) {
            if key == "split.no" {
                continue; // a model in parts has the metadata of its first
            }
            assert_eq!(metadata.get(key), Some(expected), "{}: {key}", fixture.path);
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared}");
}

fn fixtures(folder: &str) -> Vec<Fixture> {
    corpus::fixtures().into_iter().filter(|fixture| fixture.folder() == folder).collect()
}

fn metadata(fixture: &Fixture) -> Metadata {
    block_on(async {
        let loader = Loader::open(fixture.source(), Options::default()).await.unwrap();
        loader.load_metadata().await.unwrap().metadata
    })
}
