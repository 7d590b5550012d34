//! The entry and the names of files.

use crate::model::{Folder, content};
use crate::published::{files, large_floats, options, publish, seven_layers, stated, tensor_files, with_conversion};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;
use weightstream::ErrorKind;
use weightstream::internals::codec::digest::Hasher;
use weightstream::internals::format::{aero, burnpack, gguf, safetensors, ztensor};
use weightstream::internals::index::{Algorithm, DigestState};
use weightstream::internals::native::Reader;
use weightstream::internals::write::Compression;

#[test]
fn files_are_named_by_their_content_and_listed_with_digests() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let published = publish(&input, &folder.path("out"), &options()).unwrap();
    let entry = folder.path("out").join("model.apr");
    assert_eq!(Path::new(&published.entry.unwrap()), entry.canonicalize().unwrap());
    assert_eq!((published.file_count, published.sent_files), (4, 4));

    let files = files(&folder.path("out"));
    let stated = stated(&entry);
    let names = tensor_files(&folder.path("out"));
    assert_eq!(names.len(), 4);
    assert_eq!(stated["files"].as_object().unwrap().len(), 4);
    for name in names {
        let sha256 = hex(&files[&name]);
        assert_eq!(stated["files"][&name]["sha256"], sha256);
        assert_eq!(stated["files"][&name]["size"], files[&name].len());
        assert_eq!(name, format!("model-{}.apr", &sha256[..16]));
    }
    assert_eq!(files.len(), 5, "four files of tensors, and the entry: {:?}", files.keys());
}

#[test]
fn the_entry_opens_and_has_the_digest_of_every_tensor() {
    for format in [None, Some(&aero::FORMAT), Some(&safetensors::FORMAT)] {
        let folder = Folder::new();
        let input = seven_layers(&folder);
        let options = with_conversion(|convert| convert.format(format));
        let published = publish(&input, &folder.path("out"), &options).unwrap();
        let entry = published.entry.unwrap();
        let reader = Reader::open(&entry).unwrap();
        assert_eq!(content(&reader), content(&input));
        reader.verify(&()).unwrap();
        let stated = stated(Path::new(&entry));
        for tensor in input.tensors() {
            let sha256 = hex(input.tensor_slice(&tensor.name).unwrap());
            assert_eq!(stated["tensors"][&tensor.name], format!("sha256:{sha256}"), "{}", tensor.name);
        }
    }
}

/// The states are what a reader needs that digests streams which it reads side by side.
#[test]
fn the_sha_256_of_a_file_with_large_streams_can_be_continued_at_each_of_them() {
    let folder = Folder::new();
    let input = large_floats(&folder);
    let options = with_conversion(|convert| convert.format(Some(&ztensor::FORMAT)).compression(Compression::Auto));
    let entry = publish(&input, &folder.path("out"), &options).unwrap().entry.unwrap();
    let files = files(&folder.path("out"));
    let (name, file) = files.iter().find(|(name, _)| name.ends_with(".zt")).unwrap();
    let stated = stated(Path::new(&entry));
    let states = stated["files"][name]["sha256_states"].as_array().unwrap();
    assert_eq!(states.len(), 3, "one for each stream of F32 but the first: {states:?}");
    for state in states {
        let at = state[0].as_u64().unwrap();
        let mut hasher = Hasher::resume(&DigestState::parse(at, state[1].as_str().unwrap()).unwrap()).unwrap();
        hasher.update(&file[at as usize..]);
        assert_eq!(hasher.finish().to_string(), hex(file), "from {at}");
    }
    Reader::open(&entry).unwrap().verify(&()).unwrap();
}

#[test]
fn loads_are_verified_by_the_digests_of_the_entry() {
    for format in [None, Some(&safetensors::FORMAT)] {
        let folder = Folder::new();
        let options = with_conversion(|convert| convert.format(format));
        let entry = publish(&seven_layers(&folder), &folder.path("out"), &options).unwrap().entry.unwrap();
        let reader = Reader::open(&entry).unwrap();
        assert!(!reader.metadata().metadata.contains_key("weightstream"));
        assert_eq!(reader.verify(&()).unwrap().tensors_without_checksum, 0);
        let verified = reader.read_pieces("layers.3.weight", "data", &mut |_| Ok(())).unwrap();
        assert_eq!(verified, Some(Algorithm::Sha256));

        // The CRC-32 of APR does not cover single tensors.
        let file = Path::new(reader.files().nth(reader.tensor("layers.3.weight").unwrap().shard).unwrap().0).to_owned();
        let mut bytes = fs::read(&file).unwrap();
        let range = reader.tensor("layers.3.weight").unwrap().components[0].range.clone();
        bytes[range.start as usize + 5] ^= 1;
        fs::write(&file, bytes).unwrap();
        let error = Reader::open(&entry).unwrap().tensor_slice("layers.3.weight").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Checksum);
        assert_eq!(error.context.tensor.as_deref(), Some("layers.3.weight"));
    }
}

#[test]
fn the_last_segment_of_the_destination_may_be_the_entry() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    publish(&input, &folder.path("out").join("tiny.apr"), &options()).unwrap();
    let files = files(&folder.path("out"));
    assert!(files.contains_key("tiny.apr") && files.keys().all(|name| name.starts_with("tiny")), "{:?}", files.keys());
}

#[test]
fn the_first_layers_are_in_the_first_files() {
    let folder = Folder::new();
    folder.write("input.safetensors", &crate::published::layers(&[(3, 0), (1, 0), (0, 0), (2, 0)]));
    publish(&folder.open("input.safetensors"), &folder.path("out"), &options()).unwrap();
    let reader = Reader::open(folder.path("out").join("model.apr")).unwrap();
    let place = |layer: usize| reader.tensor(&format!("layers.{layer}.weight")).unwrap().shard;
    assert_eq!([0, 1, 2, 3].map(place), [0, 0, 1, 1]);
}

#[test]
fn refuses_formats_without_a_manifest() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    for format in [&gguf::FORMAT, &burnpack::FORMAT] {
        let options = with_conversion(|convert| convert.format(Some(format)));
        let error = publish(&input, &folder.path("out"), &options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("manifest"), "{error}");
    }
    assert!(!folder.path("out").exists());
}

#[test]
fn refuses_a_url_of_no_store() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    let error = weightstream_publish::publish_with(&input, "ftp://host/models/", &options(), &()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("s3://"), "{error}");
}

#[test]
fn refuses_a_url_with_a_query_or_a_password() {
    let folder = Folder::new();
    let input = seven_layers(&folder);
    for url in ["https://host/models/?signature=abc", "https://user:secret@host/models/", "s3://bucket/models/#x"] {
        let error = weightstream_publish::publish_with(&input, url, &options(), &()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
