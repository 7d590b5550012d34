//! ONNX models are split into a graph and its weights.

use super::corpus::root;
use super::model::{Folder, to};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weightstream::blocking::Model;
use weightstream::internals::dtype::{Dtype, element_count};
use weightstream::internals::index::Tensor;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{ConvertOptions, TensorOrder};
use weightstream::{Error, ErrorKind, LoadRequest};

/// The dtype, shape and digest of each tensor.
type Contents = BTreeMap<String, (String, Vec<u64>, Vec<u8>)>;

fn contents(reader: &Reader) -> Contents {
    let content = |tensor: &Tensor| {
        let digest = Sha256::digest(bytes(reader, &tensor.name)).to_vec();
        (tensor.name.clone(), (tensor.dtype.name().to_owned(), tensor.shape.clone(), digest))
    };
    reader.tensors().iter().map(content).collect()
}

fn bytes<'a>(reader: &'a Reader, name: &str) -> &'a [u8] {
    reader.tensor_slice(name).unwrap()
}

/// Writes the weights as the one SafeTensors file that graphs refer to, independently of the library.
fn write_view(weights: &Reader, path: &Path) {
    let stored = ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "C64"];
    let (mut header, mut data) = (String::from("{"), Vec::new());
    for tensor in weights.tensors() {
        let start = data.len();
        data.extend_from_slice(bytes(weights, &tensor.name));
        let is_stored = stored.contains(&tensor.dtype.name()) || tensor.dtype.name().starts_with('F');
        let is_whole = element_count(&tensor.shape).and_then(|count| tensor.dtype.byte_length(count));
        let (dtype, shape) = match is_stored && is_whole == Ok(Some((data.len() - start) as u64)) {
            true => (tensor.dtype.name(), tensor.shape.clone()),
            false => ("U8", vec![(data.len() - start) as u64]),
        };
        let comma = if header.len() > 1 { "," } else { "" };
        let (name, shape) = (serde_json::json!(tensor.name), serde_json::json!(shape));
        let offsets = format!("[{start},{}]", data.len());
        header += &format!("{comma}{name}:{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}");
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()).unwrap();
}

fn fixture(name: &str) -> PathBuf {
    root().join("onnx").join(name)
}

fn split(model: &str, options: &ConvertOptions) -> Result<(Folder, PathBuf), Error> {
    let folder = Folder::new();
    let out = folder.path("out/");
    let reader = Reader::open(fixture(model)).unwrap();
    let converted = weightstream::internals::write::convert(&reader, &out, options, &())?;
    Ok((folder, converted.path))
}

#[test]
fn graphs_refer_to_the_weights_of_every_format_as_one_safetensors_file() {
    for model in ["large.onnx", "graphs.onnx", "external/model.onnx", "files/model.onnx"] {
        let before = contents(&Reader::open(fixture(model)).unwrap());
        for format in weightstream::internals::write::formats() {
            let options = to(format);
            let (folder, weights) = match split(model, &options) {
                Ok(split) => split,
                Err(error) => {
                    assert!(["embd", "gguf", "tfjs"].contains(&format.name), "{model} to {}: {error}", format.name);
                    continue;
                }
            };
            let view = folder.path("out/model.safetensors");
            let weights = Reader::open(weights).unwrap();
            let has_large = model != "graphs.onnx";
            assert_eq!(!weights.tensors().is_empty(), has_large, "{model} to {}", format.name);
            if format.name == "safetensors" {
                let written = fs::read(&view).unwrap();
                write_view(&weights, &view);
                assert_eq!(written, fs::read(&view).unwrap(), "{model}");
            } else {
                write_view(&weights, &view);
            }
            let graph = folder.path("out/model.onnx");
            assert_eq!(contents(&Reader::open(&graph).unwrap()), before, "{model} to {}", format.name);
        }
    }
}

#[test]
fn graphs_keep_the_parts_of_quantized_tensors() {
    for (model, dtype) in [("onnx_dequantize", None), ("onnx_matmul", None), ("onnx_dequantize", Some(Dtype::F16))] {
        let model = format!("../quantized/{model}/model.onnx");
        let options = ConvertOptions::default();
        let (folder, _) = split(&model, &dtype.map_or(options.clone(), |dtype| options.dtype(dtype))).unwrap();
        let values = |path: PathBuf| {
            let model = Model::open(path).unwrap();
            let load =
                |name: &str| model.load(LoadRequest::new(name).dtype(Dtype::F32)).unwrap().bytes().unwrap().to_vec();
            let tensors = model.tensors().iter().map(|tensor| (tensor.name.clone(), load(&tensor.name)));
            tensors.collect::<BTreeMap<_, _>>()
        };
        assert_eq!(values(folder.path("out/model.onnx")), values(fixture(&model)), "{model}");
    }
}

#[test]
fn weights_in_shards_have_the_same_positions() {
    let options = ConvertOptions::default().max_shard_bytes(40 << 10);
    let (folder, weights) = split("large.onnx", &options).unwrap();
    let weights = Reader::open(weights).unwrap();
    assert!(weights.files().len() > 1);
    write_view(&weights, &folder.path("out/model.safetensors"));
    let graph = Reader::open(folder.path("out/model.onnx")).unwrap();
    assert_eq!(contents(&graph), contents(&Reader::open(fixture("large.onnx")).unwrap()));
}

#[test]
fn cast_weights_are_stored_under_another_name_and_cast_back() {
    let (folder, weights) = split("large.onnx", &ConvertOptions::default().dtype(Dtype::F16)).unwrap();
    let weights = Reader::open(weights).unwrap();
    assert_eq!(weights.tensor("FLOAT").unwrap().dtype, Dtype::F16);
    write_view(&weights, &folder.path("out/model.safetensors"));
    let graph = Reader::open(folder.path("out/model.onnx")).unwrap();
    for (stored, original) in [("FLOAT:F16", "FLOAT"), ("out/then_branch/w:F16", "out/then_branch/w")] {
        assert!(graph.tensor(original).is_err());
        assert_eq!(graph.tensor(stored).unwrap().dtype, Dtype::F16);
        assert_eq!(bytes(&graph, stored), bytes(&weights, original));
    }
    let text = String::from_utf8_lossy(&fs::read(folder.path("out/model.onnx")).unwrap()).into_owned();
    assert!(text.matches("Cast").count() >= 4);
}

#[test]
fn parts_are_marked_in_the_graph_with_the_file_of_the_weights() {
    let shards = ConvertOptions::default().max_shard_bytes(40 << 10);
    for options in [ConvertOptions::default(), shards] {
        let (folder, weights) = split("large.onnx", &options.by_layer(true)).unwrap();
        let file = weights.file_name().unwrap().to_str().unwrap().to_owned();
        let weights = Reader::open(weights).unwrap();
        write_view(&weights, &folder.path("out/model.safetensors"));
        let graph = Reader::open(folder.path("out/model.onnx")).unwrap();
        assert_eq!(contents(&graph), contents(&Reader::open(fixture("large.onnx")).unwrap()));
        let mark = graph.metadata().metadata["metadata_props"]["weightstream.parts"].as_str().unwrap();
        let mark: serde_json::Value = serde_json::from_str(mark).unwrap();
        assert_eq!(mark["weights"], file);
        assert_eq!(mark["parts"].as_array().unwrap().len(), 1, "its weights have less than 1 MiB");
    }
}

#[test]
fn only_a_graph_has_parts_and_their_order_is_that_of_its_nodes() {
    let by_layer = ConvertOptions::default().by_layer(true);
    let ordered = by_layer.clone().order(TensorOrder::Layers);
    assert_eq!(split("large.onnx", &ordered).err().map(|error| error.kind), Some(ErrorKind::InvalidArgument));
    let folder = Folder::new();
    let reader = Reader::open(fixture("large.onnx")).unwrap();
    let to_file = weightstream::internals::write::convert(&reader, &folder.path("model.apr"), &by_layer, &());
    assert_eq!(to_file.unwrap_err().kind, ErrorKind::InvalidArgument);
}

#[test]
fn options_that_would_break_the_graph_are_refused_and_leave_no_folder() {
    let q8 = ConvertOptions::default().dtype(Dtype::Q8_0);
    let safetensors = weightstream::internals::write::format_named("safetensors").unwrap();
    let aligned = to(safetensors).alignment(Some(64));
    let metadata = to(safetensors).metadata([("a".to_owned(), "b".into())].into_iter().collect());
    for options in [q8, aligned, metadata] {
        assert_eq!(split("large.onnx", &options).err().map(|error| error.kind), Some(ErrorKind::InvalidArgument));
    }
}

#[test]
fn existing_graphs_are_replaced_only_if_allowed() {
    let (folder, _) = split("large.onnx", &ConvertOptions::default()).unwrap();
    let reader = Reader::open(fixture("graphs.onnx")).unwrap();
    let convert = |keep| {
        let options = ConvertOptions::default().keep_existing(keep);
        weightstream::internals::write::convert(&reader, &folder.path("out"), &options, &())
    };
    assert_eq!(convert(true).unwrap_err().kind, ErrorKind::InvalidArgument);
    convert(false).unwrap();
    assert_eq!(Reader::open(folder.path("out/model.onnx")).unwrap().tensors().len(), reader.tensors().len());
    let own = Reader::open(folder.path("out/model.onnx")).unwrap();
    let refused = weightstream::internals::write::convert(&own, &folder.path("out"), &ConvertOptions::default(), &());
    assert_eq!(refused.unwrap_err().kind, ErrorKind::InvalidArgument, "the graph is an input");
}
