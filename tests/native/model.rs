//! `Model` over local files, asynchronous and blocking.

use super::bytes::{noise, safetensors};
use super::folder::Folder;
use futures::executor::block_on;
use futures::future::{self, Either};
use std::fs;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weightstream::write::{ConvertOptions, ExtractOptions, convert, extract_npy};
use weightstream::{Digest, Dtype, ErrorKind, LoadRequest, LoadedTensor, Model, OpenOptions, Result, StreamRequest};
use weightstream::{StreamingLoader, blocking};

/// Two matrices of 4 and 3 rows, and a scalar.
fn file() -> Vec<u8> {
    let floats: Vec<u8> = (0..8).flat_map(|value| (value as f32).to_le_bytes()).collect();
    let halves: Vec<u8> = [0x3c00u16, 0x4000, 0x4200].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let one = 7i64.to_le_bytes().to_vec();
    safetensors(
        None,
        &[("floats", "F32", &[4, 2], floats), ("halves", "F16", &[3, 1], halves), ("one", "I64", &[], one)],
    )
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("m.safetensors", &file());
    folder
}

fn names(tensors: impl Iterator<Item = Result<LoadedTensor>>) -> Vec<String> {
    tensors.map(|tensor| tensor.unwrap().name().to_owned()).collect()
}

#[test]
fn models_are_shared_by_threads_and_their_futures_are_sent() {
    fn is_shared<T: Send + Sync + Clone>(value: T) -> T {
        value
    }
    fn is_sent<T: Send>(value: T) -> T {
        value
    }
    let folder = folder();
    let path = folder.path("m.safetensors");
    let model = is_shared(block_on(is_sent(Model::open(path.clone()))).unwrap());
    block_on(is_sent(model.load("one"))).unwrap();
    block_on(is_sent(model.verify())).unwrap();
    is_sent(model.stream(StreamRequest::new()));
    let model = is_shared(blocking::Model::open(path).unwrap());
    let threads = [(); 4].map(|()| {
        let model = model.clone();
        std::thread::spawn(move || model.load("floats").unwrap().as_f32().unwrap().to_vec())
    });
    let expected: Vec<f32> = (0..8).map(|value| value as f32).collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == expected));
}

#[test]
fn both_models_load_tensors_rows_and_floats() {
    let folder = folder();
    let blocking = blocking::Model::open(folder.path("m.safetensors")).unwrap();
    let model = block_on(Model::open(folder.path("m.safetensors"))).unwrap();
    assert_eq!(model.tensors(), blocking.tensors());
    assert_eq!(model.metadata(), blocking.metadata());
    assert_eq!(model.tensor("nothing").unwrap_err().kind, blocking.tensor("nothing").unwrap_err().kind);
    assert_eq!(model.warnings().count() + blocking.warnings().count(), 0);
    let both = |request: LoadRequest| {
        let loads = [block_on(model.load(request.clone())).unwrap(), blocking.load(request).unwrap()];
        assert_eq!(loads[0].bytes().unwrap(), loads[1].bytes().unwrap());
        assert_eq!(loads[0].shape(), loads[1].shape());
        assert_eq!(loads[0].dtype(), loads[1].dtype());
        loads.into_iter().next().unwrap()
    };
    assert_eq!(*both("floats".into()).as_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let rows = both(LoadRequest::new("floats").rows(1..3));
    assert_eq!((rows.shape(), &*rows.as_f32().unwrap()), (&[2, 2][..], &[2.0, 3.0, 4.0, 5.0][..]));
    let halves = both("halves".into());
    assert_eq!((halves.dtype(), &*halves.as_f32().unwrap()), (&Dtype::F16, &[1.0, 2.0, 3.0][..]));
    assert_eq!(*halves.elements::<u16>().unwrap(), [0x3c00, 0x4000, 0x4200]);
    let converted = both(LoadRequest::new("halves").dtype(Dtype::F32));
    assert_eq!((converted.dtype(), &*converted.as_f32().unwrap()), (&Dtype::F32, &[1.0, 2.0, 3.0][..]));
    let one = both("one".into());
    assert_eq!(*one.elements::<i64>().unwrap(), [7]);
    assert_eq!(one.elements::<f32>().unwrap_err().kind, ErrorKind::InvalidArgument);
    assert_eq!(one.as_f32().unwrap_err().kind, ErrorKind::Unsupported);
    for request in [LoadRequest::new("nothing"), LoadRequest::new("floats").rows(3..5)] {
        let errors = [block_on(model.load(request.clone())), blocking.load(request)].map(Result::unwrap_err);
        assert_eq!(errors[0].kind, errors[1].kind);
    }
    assert_eq!(block_on(model.verify()).unwrap(), blocking.verify().unwrap());
    assert_eq!(block_on(model.rows("floats", 0..1)).unwrap().shape(), blocking.rows("floats", 0..1).unwrap().shape());
}

#[test]
fn streams_have_the_order_of_the_file_or_that_of_the_request() {
    let folder = folder();
    let blocking = blocking::Model::open(folder.path("m.safetensors")).unwrap();
    assert_eq!(names(blocking.stream(StreamRequest::new())), ["floats", "halves", "one"]);
    let given = || StreamRequest::new().names(["one", "floats"]).in_given_order();
    assert_eq!(names(blocking.stream(given())), ["one", "floats"]);
    block_on(async {
        let model = Model::open(folder.path("m.safetensors")).await.unwrap();
        let mut stream = model.stream(given().dtype(Dtype::F16));
        drop(model); // the stream keeps what it reads from
        assert_eq!(stream.next().await.unwrap().unwrap().dtype(), &Dtype::I64);
        assert_eq!(stream.next().await.unwrap().unwrap().dtype(), &Dtype::F16);
        assert!(stream.next().await.is_none() && stream.next().await.is_none());
        let model = Model::open(folder.path("m.safetensors")).await.unwrap();
        let mut unknown = model.stream(StreamRequest::new().names(["nothing"]));
        assert_eq!(unknown.next().await.unwrap().unwrap_err().kind, ErrorKind::NotFound);
        assert!(unknown.next().await.is_none());
    });
}

#[test]
fn a_dropped_load_stops_and_others_continue() {
    let folder = Folder::new();
    let large = ("large", "U8", &[64 << 20][..], noise(1, 64 << 20));
    folder.write("m.safetensors", &safetensors(None, &[large, ("small", "U8", &[4], noise(2, 4))]));
    block_on(async {
        let loaded = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&loaded);
        let request = LoadRequest::new("large").on_progress(move |progress| {
            counter.store(progress.loaded, Ordering::Relaxed);
        });
        let model = Model::open(folder.path("m.safetensors")).await.unwrap();
        {
            let (large, small) = (pin!(model.load(request)), pin!(model.load("small")));
            match future::select(large, small).await {
                Either::Right((small, _)) => assert_eq!(*small.unwrap().bytes().unwrap(), noise(2, 4)),
                Either::Left(_) => panic!("a small tensor waits for a large one"),
            }
        } // drops the load
        model.load("small").await.unwrap(); // the thread has noticed it
        let stopped_at = loaded.load(Ordering::Relaxed);
        assert!(stopped_at < 64 << 20, "the load went on");
        model.load("small").await.unwrap();
        assert_eq!(loaded.load(Ordering::Relaxed), stopped_at);
    });
}

#[test]
fn progress_counts_all_bytes() {
    let folder = folder();
    let last = Arc::new(std::sync::Mutex::new(None));
    let seen = Arc::clone(&last);
    let options = OpenOptions::new().on_progress(move |progress| *seen.lock().unwrap() = Some(progress));
    let model = options.open_blocking(folder.path("m.safetensors")).unwrap();
    model.load("floats").unwrap();
    let progress = last.lock().unwrap().take().unwrap();
    assert_eq!((progress.loaded, progress.total), (32, Some(32)));
    model.verify().unwrap();
    assert!(last.lock().unwrap().is_some());
}

#[test]
fn pinned_digests_are_compared_in_local_files_too() {
    let folder = folder();
    let wrong: Digest = format!("sha256:{}", "00".repeat(32)).parse().unwrap();
    let path = folder.path("m.safetensors");
    let model = OpenOptions::new().tensor_digest("floats", wrong).open_blocking(&path).unwrap();
    assert_eq!(model.load("floats").unwrap_err().kind, ErrorKind::Checksum);
    assert_eq!(model.tensor_slice("floats").unwrap_err().kind, ErrorKind::Unsupported);
    let converted = convert(&model, folder.path("out.safetensors"), &ConvertOptions::new());
    assert_eq!(converted.unwrap_err().kind, ErrorKind::Unsupported);
    let unknown = OpenOptions::new().tensor_digest("nothing", wrong).open_blocking(&path);
    assert_eq!(unknown.unwrap_err().kind, ErrorKind::NotFound);
    let file = OpenOptions::new().file_digest("m.safetensors", wrong).open_blocking(&path).unwrap();
    assert_eq!(file.verify().unwrap_err().kind, ErrorKind::Checksum);
}

#[test]
fn options_of_urls_and_other_schemes_are_refused_for_paths() {
    let folder = folder();
    let path = folder.path("m.safetensors");
    for options in [OpenOptions::new().header("a", "b"), OpenOptions::new().same_origin_only()] {
        assert_eq!(options.open_blocking(&path).unwrap_err().kind, ErrorKind::InvalidArgument);
    }
    assert_eq!(blocking::Model::open("s3://bucket/m.apr").unwrap_err().kind, ErrorKind::Unsupported);
    assert_eq!(block_on(Model::open(folder.path("missing"))).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_replaced_file_stays_the_one_that_was_opened() {
    let folder = folder();
    let path = folder.path("m.safetensors");
    let model = blocking::Model::open(&path).unwrap();
    let copy = folder.path("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(copy, &path).unwrap();
    fs::write(&path, b"another file").unwrap();
    assert_eq!(*model.rows("floats", 0..1).unwrap().as_f32().unwrap(), [0.0, 1.0]);
    assert_eq!(*model.load("floats").unwrap().as_f32().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn models_in_memory_and_mapped_models_have_slices_and_rows() {
    let folder = folder();
    let in_memory = blocking::Model::from_bytes([("m.safetensors", file())]).unwrap();
    // SAFETY: no process changes the files of the temporary folder.
    let mapped = unsafe { blocking::Model::open_mapped(folder.path("m.safetensors")) }.unwrap();
    let asynchronous = block_on(Model::from_bytes([("m.safetensors", file())])).unwrap();
    assert_eq!(*block_on(asynchronous.rows("floats", 3..4)).unwrap().as_f32().unwrap(), [6.0, 7.0]);
    for model in [in_memory, mapped] {
        assert_eq!(model.tensor_slice("one").unwrap(), 7i64.to_le_bytes());
        assert_eq!(*model.rows("floats", 3..4).unwrap().as_f32().unwrap(), [6.0, 7.0]);
        assert_eq!(names(model.stream(StreamRequest::new())), ["floats", "halves", "one"]);
        let loader: &mut dyn StreamingLoader = &mut model.clone();
        loader.prefetch(&["one"]);
        assert_eq!(*loader.load_tensor("one").unwrap().elements::<i64>().unwrap(), [7]);
    }
}

#[test]
fn a_model_is_converted_and_extracted() {
    let folder = folder();
    let model = blocking::Model::open(folder.path("m.safetensors")).unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&calls);
    let options = ConvertOptions::new().on_progress(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(convert(&model, folder.path("m.apr"), &options).unwrap().tensors, 3);
    assert!(calls.load(Ordering::Relaxed) > 0);
    let converted = blocking::Model::open(folder.path("m.apr")).unwrap();
    assert_eq!(converted.load("one").unwrap().into_bytes().unwrap(), 7i64.to_le_bytes());
    let extracted = extract_npy(&model, "floats", folder.path("f.npy"), &ExtractOptions::new()).unwrap();
    assert_eq!(extracted.shape, [4, 2]);
}

#[test]
fn refuses_to_load_over_no_connection() {
    let folder = folder();
    let path = folder.path("m.safetensors");
    let options = || OpenOptions::new().concurrency(0);
    for error in [options().open_blocking(&path).unwrap_err(), block_on(options().open(&path)).unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
    }
}
