//! Tests of manifests of models in several APR files.

use super::files::{Entry, draft, shipped};
use crate::error::{ErrorKind, Result};
use crate::index::Algorithm;
use crate::loader::{Loader, Options, TensorRequest};
use crate::source::memory::MemorySource;
use futures::executor::block_on;
use serde_json::{Value, json};
use std::rc::Rc;

#[test]
fn reads_the_keys_of_the_specification_and_of_apr_format() {
    let (a, b) = (part("a"), shipped(b"APR\0", 0, &[Entry::new("b", 7, &[1], vec![2])]));
    let specification = json!({
        "apr_version": "2.0.0", "sharded": true, "shard_count": 2, "note": "x",
        "shards": [{"file": "1.apr", "size": a.len(), "crc32": "..."}, {"file": "2.apr"}],
        "tensor_shard_map": {"a": 0, "b": 1}
    });
    let apr_format = json!({
        "version": "2.0", "shard_count": 2, "note": "x",
        "shards": [
            {"filename": "1.apr", "index": 0, "size": a.len(), "tensors": ["a"]},
            {"filename": "2.apr", "index": 1, "size": b.len(), "tensors": ["b"]}
        ],
        "weight_map": {"a": 0, "b": 1}
    });
    let whole = crc32fast::hash(&a);
    let footer = u32::from_le_bytes(a[a.len() - 16..a.len() - 12].try_into().unwrap());
    let checksums = [json!(whole), json!(format!("{whole:08x}")), json!(format!("0x{footer:08X}")), Value::Null];
    let specifications = checksums.into_iter().map(|crc32| {
        let mut manifest = specification.clone();
        manifest["shards"][0]["crc32"] = crc32;
        manifest
    });
    for manifest in specifications.chain([apr_format]) {
        let loader = open(&manifest, &a, &b).unwrap();
        let names: Vec<_> = block_on(loader.load_index()).unwrap().iter().map(|t| (t.name.clone(), t.shard)).collect();
        assert_eq!(names, [("a".to_owned(), 0), ("b".to_owned(), 1)]);
        assert_eq!(block_on(loader.verify(Rc::new(()))), Ok(Some(Algorithm::Crc32)), "{manifest}");
        let metadata = block_on(loader.load_metadata()).unwrap().metadata;
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["note", "model_type"]);
    }
}

#[test]
fn rejects_inconsistent_manifests() {
    let manifest = json!({"shards": [{"file": "1.apr"}, {"file": "2.apr"}], "tensor_shard_map": {"a": 0, "b": 1}});
    let with = |path: &str, value: Value| {
        let mut manifest = manifest.clone();
        match path.split_once(' ') {
            Some((key, field)) => manifest[key][0][field] = value,
            None => manifest[path] = value,
        }
        manifest
    };
    let cases = [
        (with("shard_count", json!(3)), ErrorKind::Format),
        (with("tensor_shard_map", json!({"a": 2, "b": 1})), ErrorKind::Format),
        (with("tensor_shard_map", json!({"a": 1, "b": 1})), ErrorKind::Format),
        (with("tensor_shard_map", json!({"a": -1, "b": 1})), ErrorKind::Format),
        (with("tensor_shard_map", json!({"a": 0, "b": 1, "x": 0})), ErrorKind::Format),
        (with("tensor_shard_map", json!({"a": 0})), ErrorKind::Format),
        (with("tensor_shard_map", json!({})), ErrorKind::Format),
        (with("total_size", json!("big")), ErrorKind::Format),
        (with("shards file", json!("../1.apr")), ErrorKind::Format),
        (with("shards file", json!("3.apr")), ErrorKind::NotFound),
        (with("shards file", json!(1)), ErrorKind::Format),
        (with("shards index", json!(1)), ErrorKind::Format),
        (with("shards size", json!(1 << 20)), ErrorKind::Truncated),
        (with("shards size", json!("big")), ErrorKind::Format),
        (with("shards crc32", json!("+1")), ErrorKind::Format),
        (with("shards crc32", json!("1")), ErrorKind::Checksum),
    ];
    for (manifest, kind) in cases {
        let verified = open(&manifest, &part("a"), &part("b")).and_then(|l| block_on(l.verify(Rc::new(()))));
        assert_eq!(verified.map_err(|error| error.kind), Err(kind), "{manifest}");
    }
}

#[test]
fn checks_the_total_size_if_it_is_stated() {
    let (a, b) = (part("a"), part("b"));
    for (difference, is_right) in [(0, true), (1, false), (-1, false)] {
        let total = (a.len() + b.len()) as i64 + difference;
        let shards = json!([{"file": "1.apr", "size": a.len()}, {"file": "2.apr", "size": b.len()}]);
        let opened = open(&json!({"shards": shards, "total_size": total}), &a, &b);
        assert_eq!(opened.is_ok(), is_right, "{difference}");
        assert!(opened.err().is_none_or(|error| error.what.contains(&total.to_string())));
    }
}

#[test]
fn a_tensor_that_the_map_lacks_is_an_error_of_its_file() {
    let manifest = json!({"shards": [{"file": "1.apr"}, {"file": "2.apr"}], "weight_map": {"a": 0}});
    let loader = open(&manifest, &part("a"), &part("b")).unwrap();
    for error in [
        block_on(loader.load_index()).unwrap_err(),
        block_on(loader.load_tensor("b", TensorRequest::default(), Rc::new(()))).unwrap_err(),
    ] {
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Format, Some("b")), "{error}");
        assert!(error.to_string().contains("2.apr"), "{error}");
    }
}

#[test]
fn rejects_a_tensor_that_is_in_two_files() {
    let manifest = json!({"shards": [{"file": "1.apr"}, {"file": "2.apr"}]});
    let loader = open(&manifest, &part("a"), &part("a")).unwrap();
    assert!(block_on(loader.load_index()).unwrap_err().what.contains("in two files"));
}

fn part(name: &'static str) -> Vec<u8> {
    draft(0, &[Entry::new(name, 7, &[1], vec![1])])
}

fn open(manifest: &Value, first: &[u8], second: &[u8]) -> Result<Rc<Loader<MemorySource>>> {
    let files = vec![
        ("model.apr".to_owned(), manifest.to_string().into_bytes().into()),
        ("1.apr".to_owned(), first.into()),
        ("2.apr".to_owned(), second.into()),
    ];
    block_on(Loader::open(MemorySource::new(files)?, Options::default())).map(Rc::new)
}
