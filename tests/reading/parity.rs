//! The native reader over memory maps and the loader give the same results for every fixture.

use crate::corpus;
use crate::corpus::root;
use futures::executor::block_on;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::rc::Rc;
use weightstream::Result;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;

#[test]
fn mapped_and_streamed_fixtures_are_equal() {
    for fixture in corpus::fixtures() {
        compare(&root().join(&fixture.path), fixture.source());
    }
}

/// Indexes that name a tensor's file in unusual ways, and parts in unusual formats.
#[test]
fn mapped_and_streamed_indexes_are_equal() {
    let mut compared = 0;
    for folder in fs::read_dir(root().join("assembled")).unwrap() {
        let folder = folder.unwrap().path();
        let mut files = files_of(&folder);
        let index = files.iter().position(|(name, _)| name == INDEX).unwrap();
        files.swap(0, index);
        let path = folder.join(INDEX);
        assert!(open_mapped(&path).is_ok(), "{}: {:?}", path.display(), open_mapped(&path).err());
        compare(&path, MemorySource::new(files).unwrap());
        compared += 1;
    }
    assert!(compared >= 4);
}

#[test]
fn the_index_decides_which_file_a_tensor_is_read_from() {
    let reader = open_mapped(root().join("assembled/overlay_shards").join(INDEX)).unwrap();
    let dtypes: Vec<_> = reader.tensors().iter().map(|tensor| (&*tensor.name, tensor.dtype.to_string())).collect();
    assert_eq!(dtypes, [("a", "F16".to_owned()), ("b", "F32".to_owned())]);
    let files = files_of(&root().join("assembled/overlay_shards"));
    let document = json!({ "weight_map": { "b": "x", "c": "y" } }).to_string();
    let files = vec![(INDEX, document.as_bytes()), ("x", &*files[0].1), ("y", &*files[1].1)];
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
    let error = Reader::from_bytes(files).unwrap_err();
    assert!(error.to_string().contains("here and in x"), "{error}");
}

#[test]
fn models_with_wrong_parts_give_the_same_error() {
    let shards = files_of(&root().join("assembled/index_with_bom"));
    let [first, second] = [&shards[0].1, &shards[1].1];
    let packed = &files_of(&root().join("assembled/packed_apr_part"))[1].1;
    let index = |map: Value| json!({ "weight_map": map }).to_string();
    let apr = |part: Value| json!({ "shards": [part] }).to_string();
    type Parts<'a> = Vec<(&'a str, &'a [u8])>;
    let cases: Vec<(String, Parts<'_>)> = vec![
        // No index says which of two files a tensor is read from, or it names the wrong one.
        (index(json!({ "c": "x", "a": "y" })), vec![("x", first), ("y", first)]),
        (index(json!({ "a": "x", "c": "x", "b": "y" })), vec![("x", first), ("y", second)]),
        (index(json!({ "none": "x" })), vec![("x", first)]),
        (index(json!({ "a": "x", "c": "gone" })), vec![("x", first)]),
        (index(json!({ "a": "x" })), vec![("x", b"{\"weight_map\": {}}")]),
        (index(json!({ "a": "../x" })), vec![("x", first)]),
        (index(json!({ "a": "./." })), vec![("x", first)]),
        (index(json!({ "a": "x" })), vec![("x", &first[..first.len() - 1])]),
        (apr(json!({ "file": "x", "size": 5 })), vec![("x", first)]),
        (apr(json!({ "file": "x", "size": 5 })), vec![("x", b"not a model")]),
        (apr(json!({ "file": "x", "size": packed.len() + 1 })), vec![("x", packed)]),
        (apr(json!({ "file": "x", "crc32": "00000000" })), vec![("x", packed)]),
        (apr(json!({ "file": "x", "crc32": "00000000" })), vec![("x", first)]),
    ];
    for (document, parts) in cases {
        let folder = tempfile::tempdir().unwrap();
        let files = parts.iter().map(|(name, bytes)| ((*name).to_owned(), Rc::<[u8]>::from(*bytes)));
        let files: Vec<_> = [(INDEX.to_owned(), document.as_bytes().into())].into_iter().chain(files).collect();
        for (name, bytes) in &files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let mapped = open_mapped(folder.path().join(INDEX)).and_then(|reader| reader.verify(&())).unwrap_err();
        let streamed = open(MemorySource::new(files).unwrap()).and_then(|loader| block_on(loader.verify(Rc::new(()))));
        let streamed = streamed.unwrap_err();
        // A missing file has the message of its source.
        if mapped.code() != "NOT_FOUND" {
            let relative = |text: &str| text.replace(&format!("{}/", folder.path().display()), "");
            assert_eq!(relative(&mapped.what), relative(&streamed.what), "{document}");
            assert_eq!(mapped.context.url.as_deref().map(relative), streamed.context.url, "{document}");
        }
        assert_eq!(mapped.kind, streamed.kind, "{document}: {mapped} / {streamed}");
    }
}

const INDEX: &str = "model.safetensors.index.json";

/// The files of a folder, sorted by their names.
fn files_of(folder: &Path) -> Vec<(String, Rc<[u8]>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap().into());
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort_by(|(one, _), (other, _): &(String, Rc<[u8]>)| one.cmp(other));
    files
}

/// Compares the contents of a model on disk, or the error of opening it, with those of a source.
fn compare(path: &Path, source: MemorySource) {
    let name = path.display();
    let (mapped, streamed) = match (open_mapped(path), open(source)) {
        (Ok(mapped), Ok(streamed)) => (mapped, streamed),
        (mapped, streamed) => {
            assert_eq!(mapped.err().map(|e| e.kind), streamed.err().map(|e| e.kind), "{name}");
            return;
        }
    };
    assert_eq!(mapped.metadata(), &block_on(streamed.load_metadata()).unwrap(), "{name}");
    let index = block_on(streamed.load_index()).unwrap().to_vec();
    let lengths = streamed.files().map(|(_, length)| length);
    assert!(mapped.files().zip(lengths).all(|((_, here), there)| there.is_none_or(|there| there == here)), "{name}");
    assert!(mapped.tensors().iter().eq(index.iter().map(|tensor| &**tensor)), "{name}");
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
            assert_eq!(bytes, component.buffer, "{name}: {}", tensor.name);
            if tensor.components.len() == 1 {
                assert_eq!(mapped.tensor_slice(&tensor.name).unwrap(), bytes, "{name}: {}", tensor.name);
            }
        }
    }
    assert!(mapped.verify(&()).is_ok(), "{name}");
    assert!(block_on(streamed.verify(Rc::new(()))).is_ok(), "{name}");
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
fn open_mapped(path: impl AsRef<Path>) -> Result<Reader> {
    unsafe { Reader::open_mapped(path) }
}
