//! Sparse tensors that are loaded as dense ones, compared with those that NumPy makes.

use futures::executor::block_on;
use futures::stream::TryStreamExt;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weightstream::Dtype;
use weightstream::internals::index::Layout;
use weightstream::internals::loader::{Loaded, Loader, Options, TensorRequest, TensorsRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;
use weightstream::{Error, ErrorKind, Result};

type Request = TensorRequest<Vec<u8>>;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dense").join(name)
}

/// The digests of NumPy's arrays, by tensor and by dtype; `own` is that of the file.
fn expected() -> BTreeMap<String, BTreeMap<String, String>> {
    serde_json::from_slice(&fs::read(path("expected.json")).unwrap()).unwrap()
}

async fn open(name: &str, options: Options) -> Result<Rc<Loader<MemorySource>>> {
    let source = MemorySource::new(vec![(name.to_owned(), fs::read(path(name)).unwrap().into())])?;
    Ok(Rc::new(Loader::open(source, options).await?))
}

async fn load(loader: &Rc<Loader<MemorySource>>, name: &str, request: Request) -> Result<Loaded<Vec<u8>>> {
    loader.load_tensor(name, request.with_dense(true), Rc::new(())).await
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sparse_tensors_load_as_the_dense_ones_of_numpy() {
    block_on(async {
        let loader = open("sparse.zt", Options::default()).await?;
        for (name, forms) in expected() {
            for (form, expected) in forms {
                let dtype = (form != "own").then(|| Dtype::from_name(&form));
                let request = || Request::default().with_dtype(dtype.clone());
                let loaded = load(&loader, &name, request()).await?;
                let [data] = &loaded.components[..] else { panic!("{name} has several components") };
                assert_eq!((&*data.role, &data.dtype, &loaded.layout), ("data", &loaded.dtype, &Layout::Dense));
                assert_eq!(dtype.as_ref().unwrap_or(&loaded.tensor.dtype), &loaded.dtype);
                assert_eq!(sha256(&data.buffer), expected, "{name} as {form}");
                let into = vec![7; data.buffer.len()];
                let filled = load(&loader, &name, request().with_into(Some(into))).await?;
                assert_eq!(sha256(&filled.components[0].buffer), expected, "{name} as {form} into a buffer");
            }
        }
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn streamed_and_prefetched_tensors_are_dense_too() {
    block_on(async {
        let (expected, mut count) = (expected(), 0);
        let loader = open("sparse.zt", Options::default()).await?;
        let mut tensors = Box::pin(loader.tensors_with(TensorsRequest::default().with_dense(true), Rc::new(())).await?);
        while let Some(loaded) = tensors.try_next().await? {
            let name = &loaded.tensor.name;
            assert_eq!(sha256(&loaded.components[0].buffer), expected[name]["own"], "{name}");
            count += 1;
        }
        assert_eq!(count, expected.len());
        loader.prefetch(vec!["csr.f64".to_owned()], Rc::new(())).await;
        let prefetched = load(&loader, "csr.f64", Request::default().with_dtype(Some(Dtype::F16))).await?;
        assert_eq!(sha256(&prefetched.components[0].buffer), expected["csr.f64"]["F16"]);
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn the_reader_makes_the_same_dense_tensors() {
    let reader = Reader::open(path("sparse.zt")).unwrap();
    for (name, forms) in expected() {
        for (form, expected) in forms {
            let dtype = (form != "own").then(|| Dtype::from_name(&form));
            let dense = reader.load_tensor(&name).unwrap().into_dense(dtype.as_ref(), 1 << 20).unwrap();
            assert_eq!(sha256(&dense.components[0].buffer), expected, "{name} as {form}");
        }
    }
    let error = reader.load_tensor("csr.f32").unwrap().into_dense(None, 70 * 900 * 4 - 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Limit);
}

#[test]
fn a_small_file_cannot_ask_for_a_large_dense_tensor() {
    block_on(async {
        let loader = open("refused.zt", Options::default().with_max_memory_bytes(1 << 30)).await?;
        let error = load(&loader, "huge", Request::default()).await.unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Limit, Some("huge")));
        assert_eq!(error.what, "as a dense tensor it has 4398046511104 bytes, but the limit is 1073741824");
        let into = load(&loader, "huge", Request::default().with_into(Some(vec![0; 8]))).await.unwrap_err();
        assert_eq!(into.kind, ErrorKind::InvalidArgument, "{into}");
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn two_values_of_one_element_are_refused() {
    block_on(async {
        let loader = open("refused.zt", Options::default()).await?;
        let error = load(&loader, "twice", Request::default()).await.unwrap_err();
        assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Unsupported, Some("twice")));
        assert_eq!(error.what, "two of its values have the position 3");
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// Without `verify`, the indices would otherwise not be checked.
#[test]
fn wrong_indices_are_refused_without_verification() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/rules");
    for (name, tensor) in [("sparse_index.zt", "rows"), ("sparse_order.zt", "rows"), ("sparse_coords.zt", "points")] {
        block_on(async {
            let source = MemorySource::new(vec![(name.to_owned(), fs::read(rules.join(name)).unwrap().into())])?;
            let loader = Rc::new(Loader::open(source, Options::default().with_verify(false)).await?);
            let error = load(&loader, tensor, Request::default()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Format, "{name}");
            Ok::<_, Error>(())
        })
        .unwrap();
    }
}
