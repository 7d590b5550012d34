//! Parts of any names, dtypes, shapes and contents: no panic, and no more memory than the file justifies.

use crate::blocking::Model;
use crate::dtype::{Dtype, element_count};
use crate::error::ErrorKind;
use crate::{LoadRequest, Metadata};
use proptest::prelude::*;
use serde_json::json;

const ENDINGS: [&str; 34] = [
    "weight",
    "scales",
    "biases",
    "qweight",
    "qzeros",
    "g_idx",
    "weight.absmax",
    "weight.quant_map",
    "weight.quant_state.bitsandbytes__nf4",
    "weight.nested_absmax",
    "weight.nested_quant_map",
    "SCB",
    "weight_scale",
    "weight_scale_inv",
    "weight_packed",
    "weight_shape",
    "weight_zero_point",
    "weight_g_idx",
    "weight_global_scale",
    "weight_scale_2",
    "scale_weight",
    "weight_blocks",
    "weight_scales",
    "weight._data",
    "weight._scale",
    "W_q",
    "scale",
    "zero",
    "nbits",
    "axis",
    "shape",
    "packing",
    "_weight_qdata",
    "_weight_scale",
];

/// The parts that belong together, so that most files have a group.
const METHODS: [&[usize]; 12] = [
    &[0, 1, 2],
    &[0, 1],
    &[3, 4, 1, 5],
    &[3, 4, 1],
    &[0, 6, 7, 8],
    &[0, 6, 7, 8, 9, 10],
    &[0, 11],
    &[0, 13],
    &[14, 12, 15, 16, 17],
    &[14, 12, 18],
    &[25, 26, 27, 28, 29, 30, 31],
    &[21, 22],
];

const DTYPES: [Dtype; 12] = [
    Dtype::U8,
    Dtype::I8,
    Dtype::I32,
    Dtype::U32,
    Dtype::I64,
    Dtype::F32,
    Dtype::F16,
    Dtype::BF16,
    Dtype::F8_E4M3,
    Dtype::F8_E5M2,
    Dtype::F8_E8M0,
    Dtype::F64,
];

const DIMS: [u64; 12] = [0, 1, 2, 3, 4, 8, 16, 24, 32, 64, 128, 256];

fn file(parts: &[(usize, usize, Vec<usize>)], contents: &[u8]) -> Vec<u8> {
    let (mut header, mut data) = (Metadata::new(), Vec::new());
    for (ending, dtype, dims) in parts {
        let name = format!("p.{}", ENDINGS[*ending]);
        let dtype = &DTYPES[*dtype];
        let (mut shape, mut dtype) = (dims.iter().map(|dim| DIMS[*dim]).collect::<Vec<_>>(), dtype.clone());
        let mut bytes: Vec<u8> = Vec::new();
        match ENDINGS[*ending] {
            "weight.quant_state.bitsandbytes__nf4" => {
                let state = json!({ "quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": shape,
                    "nested_blocksize": 256, "nested_offset": 0.5 });
                (bytes, dtype) = (state.to_string().into_bytes(), Dtype::U8);
                shape = vec![bytes.len() as u64];
            }
            "packing" => (bytes, shape, dtype) = (b"4bit_u8".to_vec(), vec![7], Dtype::U8),
            _ => {}
        }
        let length = dtype.byte_length(element_count(&shape).unwrap()).unwrap().unwrap();
        if length > 1 << 20 || header.contains_key(&name) {
            continue;
        }
        if bytes.is_empty() {
            bytes = contents.iter().copied().cycle().take(length as usize).collect();
        }
        let start = data.len();
        data.extend_from_slice(&bytes);
        let entry = json!({ "dtype": dtype.name(), "shape": shape, "data_offsets": [start, data.len()] });
        header.insert(name, entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes(), &*header, &*data].concat()
}

fn load_all(file: Vec<u8>, config: Option<&str>) -> usize {
    let mut files = vec![("model.safetensors", file)];
    files.extend(config.map(|config| ("config.json", config.as_bytes().to_vec())));
    let model = Model::from_bytes(files).unwrap();
    let mut quantized = 0;
    for tensor in model.tensors() {
        if tensor.quantized().is_none() {
            continue;
        }
        quantized += 1;
        model.load(tensor.name.as_str()).unwrap();
        match model.load(LoadRequest::new(&tensor.name).dtype(Dtype::F32)) {
            Ok(loaded) => {
                assert_eq!(loaded.bytes().unwrap().len() as u64, element_count(&tensor.shape).unwrap() * 4);
                let rows = tensor.shape.first().copied().unwrap_or(0);
                let part = model.load(LoadRequest::new(&tensor.name).dtype(Dtype::F32).rows(rows / 2..rows)).unwrap();
                let bytes = loaded.bytes().unwrap();
                assert!(bytes.ends_with(&part.bytes().unwrap()), "{tensor:?}");
            }
            Err(error) => assert!(matches!(error.kind, ErrorKind::Unsupported | ErrorKind::Limit), "{error:?}"),
        }
    }
    quantized
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_parts_are_grouped_or_left_as_they_are(
        method in 0..METHODS.len(),
        choices in proptest::collection::vec((0..DTYPES.len(), proptest::collection::vec(0..DIMS.len(), 0..4)), 7),
        extra in proptest::collection::vec(
            (0..ENDINGS.len(), 0..DTYPES.len(), proptest::collection::vec(0..DIMS.len(), 0..4)), 0..3,
        ),
        contents in proptest::collection::vec(any::<u8>(), 1..40),
        has_config: bool,
    ) {
        let of_method = METHODS[method].iter().zip(choices).map(|(ending, (dtype, dims))| (*ending, dtype, dims));
        let parts: Vec<_> = of_method.chain(extra).collect();
        let config = r#"{"quantization_config":{"bits":4,"group_size":32,"weight_block_size":[2,3]}}"#;
        load_all(file(&parts, &contents), has_config.then_some(config));
    }
}

#[test]
fn parts_of_fitting_shapes_are_grouped_whatever_their_contents() {
    let dim = |dim: u64| DIMS.iter().position(|known| *known == dim).unwrap();
    let dtype = |dtype: Dtype| DTYPES.iter().position(|known| *known == dtype).unwrap();
    let config = r#"{"quantization":{"bits":4,"group_size":32},"quantization_config":{"bits":4,"group_size":32}}"#;
    for contents in [vec![0], vec![0xff], vec![0x80, 1], (0..=255).collect()] {
        // GPTQ with groups that do not exist, MLX, and FP8 with blocks.
        let gptq = [
            (3, dtype(Dtype::I32), vec![dim(4), dim(8)]),
            (4, dtype(Dtype::I32), vec![dim(1), dim(1)]),
            (1, dtype(Dtype::F16), vec![dim(1), dim(8)]),
            (5, dtype(Dtype::I32), vec![dim(32)]),
        ];
        let mlx = [
            (0, dtype(Dtype::U32), vec![dim(3), dim(8)]),
            (1, dtype(Dtype::BF16), vec![dim(3), dim(2)]),
            (2, dtype(Dtype::BF16), vec![dim(3), dim(2)]),
        ];
        let float8 = [(0, dtype(Dtype::F8_E4M3), vec![dim(4), dim(8)]), (13, dtype(Dtype::F32), vec![dim(2), dim(2)])];
        for parts in [&gptq[..], &mlx, &float8] {
            assert_eq!(load_all(file(parts, &contents), Some(config)), 1, "{parts:?}");
        }
    }
}

#[test]
fn a_shape_of_many_empty_rows_ends_at_once() {
    let header = format!(
        r#"{{"p.weight":{{"dtype":"U32","shape":[{0},0],"data_offsets":[0,0]}},"p.scales":{{"dtype":"U8",
        "shape":[{0},0],"data_offsets":[0,0]}},"q.weight":{{"dtype":"F8_E4M3","shape":[{0},0],"data_offsets":[0,0]}},
        "q.weight_scale_inv":{{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}}}"#,
        1_u64 << 55
    );
    load_all([&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat(), None);
}
