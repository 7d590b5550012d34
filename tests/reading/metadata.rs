//! The metadata of models and the attributes of tensors are those that their writers stored.

use crate::corpus;
use crate::corpus::Fixture;
use futures::executor::block_on;
use std::sync::Arc;
use weightstream::internals::index::{Metadata, Tensor};
use weightstream::internals::loader::{Loader, Options};

#[test]
fn gguf_pairs_keep_their_values() {
    let mut compared = 0;
    for fixture in fixtures("gguf") {
        let Some(pairs) = fixture.expected.metadata.get("kv") else { continue };
        let metadata = metadata(&fixture);
        for (key, expected) in pairs.as_object().unwrap().iter().filter(|(key, _)| !key.starts_with("GGUF.")) {
            if key == "split.no" {
                continue; // a split model has the metadata of its first part
            }
            assert_eq!(metadata.get(key), Some(expected), "{}: {key}", fixture.path);
            compared += 1;
        }
    }
    assert!(compared > 20, "only {compared}");
}

/// Fixtures whose expected ids are not in the files. Their notes say that ids are random, so the expected ids are
/// probably those of the new module that the file was loaded into. The test searches the file for the ids instead.
const RANDOM_IDS: [&str; 2] = ["burnpack/bs019_module_linear.bpk", "burnpack/bs021_module_linear.bpk"];

#[test]
fn burnpack_metadata_and_parameter_ids_are_exact() {
    let (mut ids, mut schemes) = (0, 0);
    for fixture in fixtures("burnpack") {
        let expected = &fixture.expected.metadata;
        let metadata = metadata(&fixture);
        let scalars = metadata.get("scalars").cloned().unwrap_or_default();
        for (name, expected) in expected["scalars"].as_object().into_iter().flatten() {
            let (kind, value) = scalars[name].as_object().unwrap().iter().next().unwrap();
            assert_eq!(&format!("{kind}({value})"), expected, "{}: {name}", fixture.path);
        }
        // The expected values of 0.19 lack the key that marks the fixture.
        for (key, expected) in expected["metadata"].as_object().into_iter().flatten() {
            assert_eq!(metadata.get(key), Some(expected), "{}: {key}", fixture.path);
        }
        for tensor in tensors(&fixture) {
            let context = format!("{}: {}", fixture.path, tensor.name);
            let expected = fixture.expected.tensors.iter().find(|expected| expected.name == tensor.name).unwrap();
            let id = tensor.attributes.get("param_id").map(|id| id.as_u64().unwrap());
            if RANDOM_IDS.contains(&fixture.path.as_str()) {
                let stored = [&[0x1b][..], &id.unwrap().to_be_bytes()].concat();
                assert!(fixture.bytes().windows(9).any(|bytes| bytes == stored), "{context}: {id:?}");
            } else {
                assert_eq!(id, expected.param_id, "{context}");
            }
            ids += usize::from(expected.param_id.is_some_and(|id| id > 1 << 63));
            if expected.dtype.starts_with("QFloat") {
                let scheme = &tensor.attributes["dtype"]["QFloat"];
                let value = scheme["value"].as_str().unwrap();
                assert!(expected.dtype.contains(&format!("value: {value}")), "{context}: {scheme}");
                let has_block = !scheme["block"].is_null() || scheme["level"].is_object();
                assert_eq!(has_block, tensor.name.contains("block"), "{context}: {scheme}");
                schemes += 1;
            }
        }
    }
    assert!(ids > 20 && schemes == 6, "{ids} {schemes}");
}

#[test]
fn embd_vocabularies_have_every_token() {
    for fixture in fixtures("embd") {
        let expected = &fixture.expected.metadata["vocab"];
        let metadata = metadata(&fixture);
        match expected.as_array().unwrap().is_empty() {
            true => assert!(metadata.is_empty(), "{}", fixture.path),
            false => assert_eq!(&metadata["vocabulary"]["tokens"], expected, "{}", fixture.path),
        }
    }
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

fn tensors(fixture: &Fixture) -> Vec<Arc<Tensor>> {
    block_on(async {
        let loader = Loader::open(fixture.source(), Options::default()).await.unwrap();
        loader.load_index().await.unwrap().to_vec()
    })
}
