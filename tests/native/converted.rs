//! Tensors that are converted to floats while they are loaded.

use super::Folder;
use super::bytes::{ramp, safetensors};
use futures::executor::block_on;
use futures::stream::TryStreamExt;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use weightstream::Dtype;
use weightstream::internals::loader::{Loaded, Loader, Options, TensorRequest, TensorsRequest};
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::write::{Compression, ConvertOptions};
use weightstream::{Error, ErrorKind, Result};

type Request = TensorRequest<Vec<u8>>;

fn fixture(path: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path)).unwrap()
}

async fn open(name: &str, bytes: Vec<u8>) -> Result<Rc<Loader<MemorySource>>> {
    let source = MemorySource::new(vec![(name.to_owned(), bytes.into())])?;
    Ok(Rc::new(Loader::open(source, Options::default()).await?))
}

async fn load(loader: &Rc<Loader<MemorySource>>, name: &str, request: Request) -> Result<Loaded<Vec<u8>>> {
    loader.load_tensor(name, request, Rc::new(())).await
}

fn as_dtype(dtype: Dtype) -> Request {
    TensorRequest::default().with_dtype(Some(dtype))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digests are those of `gguf.quants.dequantize`.
#[test]
fn quantized_tensors_load_as_the_floats_of_the_reference() {
    let expected: BTreeMap<String, String> = serde_json::from_slice(&fixture("dequantize/quant.gguf.json")).unwrap();
    block_on(async {
        let loader = open("quant.gguf", fixture("gguf/quant.gguf")).await?;
        for (name, expected) in &expected {
            let loaded = load(&loader, name, as_dtype(Dtype::F32)).await?;
            assert_eq!((&loaded.dtype, &loaded.components[0].dtype), (&Dtype::F32, &Dtype::F32), "{name}");
            assert_eq!(sha256(&loaded.components[0].buffer), *expected, "{name}");
        }
        let mut count = 0;
        let mut tensors =
            Box::pin(loader.tensors_with(TensorsRequest::default().with_dtype(Some(Dtype::F32)), Rc::new(())).await?);
        while let Some(loaded) = tensors.try_next().await? {
            if let Some(expected) = expected.get(&loaded.tensor.name) {
                count += 1;
                assert_eq!(sha256(&loaded.components[0].buffer), *expected, "{}", loaded.tensor.name);
            }
        }
        assert_eq!(count, expected.len());
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn the_reader_converts_pieces_to_the_same_floats() {
    let folder = Folder::new();
    folder.write("quant.gguf", &fixture("gguf/quant.gguf"));
    let reader = folder.open("quant.gguf");
    let expected: BTreeMap<String, String> = serde_json::from_slice(&fixture("dequantize/quant.gguf.json")).unwrap();
    for (name, expected) in &expected {
        let mut found = Vec::new();
        let mut emit = |piece: &[u8]| {
            found.extend_from_slice(piece);
            Ok(())
        };
        reader.read_pieces_as(name, &Dtype::F32, &mut emit).unwrap();
        assert_eq!(sha256(&found), *expected, "{name}");
    }
}

#[test]
fn rows_and_the_callers_buffer_have_the_same_values() {
    block_on(async {
        let loader = open("quant.gguf", fixture("gguf/quant.gguf")).await?;
        for tensor in loader.load_index().await? {
            let (name, rows) = (&tensor.name, tensor.shape[0]);
            let whole = load(&loader, name, as_dtype(Dtype::F32)).await?;
            let (dtype, whole) = (whole.dtype, &whole.components[0].buffer);
            let into = vec![0; whole.len()];
            let filled = load(&loader, name, as_dtype(Dtype::F32).with_into(Some(into))).await?;
            assert_eq!(&filled.components[0].buffer, whole, "{name}");
            let row = whole.len() / rows as usize;
            // A vector of blocks has no rows of whole blocks.
            if tensor.shape.len() < 2 && dtype != tensor.dtype && tensor.dtype.block().unwrap().elements > 1 {
                continue;
            }
            for first in 0..rows {
                let part = load(&loader, name, as_dtype(Dtype::F32).with_rows(Some(first..rows))).await?;
                assert_eq!(part.shape[0], rows - first);
                assert!(part.components[0].buffer == whole[first as usize * row..], "{name} from {first}");
            }
            if dtype != tensor.dtype {
                let short = load(&loader, name, as_dtype(Dtype::F32).with_into(Some(vec![0; 8]))).await.unwrap_err();
                assert_eq!(short.kind, ErrorKind::InvalidArgument);
            }
        }
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// The scale of APR_Q8 precedes the first row.
#[test]
fn rows_of_the_quantized_types_of_apr_are_those_of_the_whole_tensor() {
    block_on(async {
        let loader = open("quantized.apr", fixture("apr/quantized.apr")).await?;
        for (name, rows, columns) in [("q.src4", 2, 128), ("q.src8", 4, 64)] {
            let whole = load(&loader, name, as_dtype(Dtype::F32)).await?;
            for first in 0..rows {
                for end in first..=rows {
                    let part = load(&loader, name, as_dtype(Dtype::F32).with_rows(Some(first..end))).await?;
                    let [first, end] = [first, end].map(|row| row as usize * columns * 4);
                    assert!(part.components[0].buffer == whole.components[0].buffer[first..end], "{name} {first}");
                }
            }
        }
        let stored = load(&loader, "q.src4", Request::default()).await?;
        let row = load(&loader, "q.src4", Request::default().with_rows(Some(1..2))).await?;
        assert_eq!(row.components[0].buffer, stored.components[0].buffer[72..]);
        let error = load(&loader, "q.src8", Request::default().with_rows(Some(1..2))).await.unwrap_err();
        assert_eq!(
            (error.kind, &*error.what),
            (ErrorKind::InvalidArgument, "rows of APR_Q8 can be read only as floats")
        );
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn prefetched_tensors_are_converted() {
    block_on(async {
        let loader = open("quant.gguf", fixture("gguf/quant.gguf")).await?;
        let direct = load(&loader, "k.q4_k", as_dtype(Dtype::F32)).await?;
        loader.prefetch(vec!["k.q4_k".to_owned()], Rc::new(())).await;
        let prefetched = load(&loader, "k.q4_k", as_dtype(Dtype::F32)).await?;
        assert_eq!(prefetched.dtype, Dtype::F32);
        assert!(prefetched.components[0].buffer == direct.components[0].buffer);
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// Compressed blocks are decoded twice: by LZ4 or Zstandard, then to floats.
#[test]
fn compressed_tensors_are_converted() {
    let folder = Folder::new();
    let values: Vec<u8> = (0..300 * 64).flat_map(|at| ((at % 77) as f32 / 8.0).to_le_bytes()).collect();
    folder.write("m.safetensors", &safetensors(None, &[("w", "F32", &[300, 64], values.clone())]));
    for (out, dtype, compression) in [
        ("m.apr", Dtype::Q8_0, Compression::Lz4),
        ("m.apr", Dtype::F16, Compression::Lz4),
        ("m.zt", Dtype::F16, Compression::Zstd),
    ] {
        let options = ConvertOptions::default().dtype(dtype.clone()).compression(compression);
        folder.convert("m.safetensors", out, &options).unwrap();
        let raw = folder.convert(out, "raw.ztensor", &ConvertOptions::default().dtype(Dtype::F32));
        raw.unwrap();
        block_on(async {
            let loader = open(out, fs::read(folder.path(out)).unwrap()).await?;
            let whole = load(&loader, "w", as_dtype(Dtype::F32)).await?;
            assert_eq!(whole.components[0].buffer.len(), values.len());
            assert_eq!(
                whole.components[0].buffer,
                folder.open("raw.ztensor").tensor_slice("w").unwrap(),
                "{out} {dtype}"
            );
            let rows = load(&loader, "w", as_dtype(Dtype::F32).with_rows(Some(17..211))).await?;
            assert!(rows.components[0].buffer == whole.components[0].buffer[17 * 256..211 * 256], "{out} {dtype}");
            Ok::<_, Error>(())
        })
        .unwrap();
    }
}

#[test]
fn what_cannot_be_converted_keeps_its_dtype_or_is_an_error_that_names_it() {
    let tensors: [(&str, &str, &[u64], Vec<u8>); 3] = [
        ("integers", "I32", &[4], ramp(16)),
        ("scales", "F8_E8M0", &[4], ramp(4)),
        ("doubles", "F64", &[1], 1.5f64.to_le_bytes().to_vec()),
    ];
    block_on(async {
        let loader = open("m.safetensors", safetensors(None, &tensors)).await?;
        let integers = load(&loader, "integers", as_dtype(Dtype::F16)).await?;
        assert_eq!((&integers.dtype, &integers.components[0].buffer), (&Dtype::I32, &ramp(16)));
        let doubles = load(&loader, "doubles", as_dtype(Dtype::F16)).await?;
        assert_eq!((&doubles.dtype, &*doubles.components[0].buffer), (&Dtype::F16, &[0x00, 0x3e][..]));
        let error = load(&loader, "scales", as_dtype(Dtype::F32)).await.unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Unsupported, Some("scales")));
        assert_eq!(error.what, "it is F8_E8M0, which cannot be converted to F32");
        let error = load(&loader, "doubles", as_dtype(Dtype::Q8_0)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        Ok::<_, Error>(())
    })
    .unwrap();
}
