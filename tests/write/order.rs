//! The order of tensors in written files.

use super::model::{Folder, content};
use std::fs;
use weightstream::internals::index::Tensor;
use weightstream::internals::write::{self, ConvertOptions, TensorOrder};

/// The tensors of the source, which are not in the order of the layers.
const SOURCE: [&str; 5] = ["lm_head.weight", "layers.1.w", "layers.0.w", "layers.0.b", "embed.weight"];

const LAYERS: [&str; 5] = ["embed.weight", "layers.0.w", "layers.0.b", "layers.1.w", "lm_head.weight"];

fn source(folder: &Folder) {
    let entry = |(at, name): (usize, &&str)| {
        format!(r#""{name}":{{"dtype":"F32","shape":[4],"data_offsets":[{},{}]}}"#, 16 * at, 16 * at + 16)
    };
    let header = format!("{{{}}}", SOURCE.iter().enumerate().map(entry).collect::<Vec<_>>().join(","));
    let data: Vec<u8> = (0..80).collect();
    folder.write("m.safetensors", &[&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat());
}

fn names(tensors: &[Tensor]) -> Vec<&str> {
    let mut by_offset: Vec<_> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| (tensor.shard, tensor.first_byte()));
    by_offset.iter().map(|tensor| &*tensor.name).collect()
}

#[test]
fn every_format_has_its_tensors_in_the_order_of_the_layers() {
    let folder = Folder::new();
    source(&folder);
    for format in write::formats() {
        let name = format!("out{}", format.extensions[0]);
        let options = ConvertOptions::default().format(format).allow_loss(true);
        let options = options.order(TensorOrder::Layers);
        folder.convert("m.safetensors", &name, &options).unwrap();
        let written = folder.open(&name);
        assert_eq!(names(written.tensors()), LAYERS, "{}", format.name);
        assert_eq!(content(&written), content(&folder.open("m.safetensors")), "{}", format.name);
    }
}

#[test]
fn shards_of_apr_are_in_the_given_order_and_marked_for_streaming() {
    let folder = Folder::new();
    source(&folder);
    let given = vec!["layers.1.w".to_owned(), "embed.weight".to_owned()];
    let options = ConvertOptions::default().order(TensorOrder::Names(given)).max_shard_bytes(400);
    let converted = folder.convert("m.safetensors", "m.apr.json", &options).unwrap();
    assert!(converted.files.len() > 1);
    let written = folder.open("m.apr.json");
    let expected = ["layers.1.w", "embed.weight", "lm_head.weight", "layers.0.w", "layers.0.b"];
    assert_eq!(names(written.tensors()), expected);
    for (path, _) in &converted.files {
        let flags = u32::from_le_bytes(*fs::read(path).unwrap()[8..].first_chunk().unwrap());
        assert_eq!(flags & 1 << 7, 1 << 7, "{}", path.display());
    }
    folder.convert("m.safetensors", "plain.apr", &ConvertOptions::default()).unwrap();
    let plain = fs::read(folder.path("plain.apr")).unwrap();
    assert_eq!(u32::from_le_bytes(*plain[8..].first_chunk().unwrap()) & 1 << 7, 0);
}
