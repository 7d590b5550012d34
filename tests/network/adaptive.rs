//! The number of connections that a load opens, as the server observes it, for different bandwidths.

use super::bytes::{noise, safetensors};
use super::server::{Link, Server, answer};
use super::versions::WITHOUT_STRONG_ETAGS;
use super::{HttpLoader, options, run};
use futures::TryStreamExt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::ErrorKind;
use weightstream::internals::index::Algorithm;
use weightstream::internals::loader::{Loader, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::http::HttpSource;
use weightstream::internals::write::{ConvertOptions, convert};

const KIB: usize = 1 << 10;

/// The pause of the server after every 16 KiB. It is long enough to dominate the measured throughput.
const PAUSE_MS: u64 = 8;

/// A tensor that is read together with the header, then many tensors of the same size.
static MANY: LazyLock<Vec<u8>> = LazyLock::new(|| model(&[&[100 * KIB][..], &[256 * KIB; 16]].concat()));

/// A tensor that is read together with the header, then a large one.
static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| model(&[100 * KIB, 5000 * KIB]));

fn model(lengths: &[usize]) -> Vec<u8> {
    let names: Vec<_> = (0..lengths.len()).map(|at| format!("{at:02}")).collect();
    let shapes: Vec<_> = lengths.iter().map(|length| [*length as u64]).collect();
    let tensors: Vec<_> = names
        .iter()
        .zip(&shapes)
        .map(|(name, shape)| (name.as_str(), "U8", &shape[..], noise(shape[0] + name.len() as u64, shape[0] as usize)))
        .collect();
    safetensors(None, &tensors)
}

async fn open(server: &Server, concurrency: usize) -> HttpLoader {
    // On a busy machine, a delay must not count as a stall.
    let retry = options().retry.stall_ms(20_000);
    let options = options().with_concurrency(concurrency).with_coalesce_gap_bytes(64 << 10).with_retry(retry);
    Rc::new(Loader::open(HttpSource::new(&server.url("/m"), &[]).unwrap(), options).await.unwrap())
}

/// Loads all tensors and compares them with those of the file.
async fn check_all(loader: &HttpLoader, file: &[u8]) {
    let reader = Reader::from_bytes(vec![("m".to_owned(), file.to_vec())]).unwrap();
    let mut tensors = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
    let mut count = 0;
    while let Some(loaded) = tensors.try_next().await.unwrap() {
        let expected = reader.tensor_slice(&loaded.tensor.name).unwrap();
        assert!(expected == &loaded.components[0].buffer[..], "{}", loaded.tensor.name);
        count += 1;
    }
    assert_eq!(count, reader.tensors().len());
}

/// Asserts that each added connection took over the end of the range of another one, and that no byte was sent twice.
#[track_caller]
fn assert_shares_of_one_run(server: &Server, loader: &HttpLoader, file: &[u8]) {
    let ranges: Vec<Range<usize>> = server.ranges()[1..].to_vec();
    for (at, range) in ranges.iter().enumerate().skip(1) {
        let is_cut_off = |earlier: &Range<usize>| earlier.start < range.start && range.end <= earlier.end;
        assert!(ranges[..at].iter().any(is_cut_off), "{range:?} of {ranges:?}");
    }
    assert_eq!(loader.stats().bytes_received(), file.len() as u64, "a byte was received twice");
}

#[test]
fn throttled_connections_are_added_up_to_the_limit() {
    let server = Server::new(|request| answer(&MANY, request).slowly(PAUSE_MS));
    run(async {
        let loader = open(&server, 3).await;
        check_all(&loader, &MANY).await;
        assert_shares_of_one_run(&server, &loader, &MANY);
    });
    assert_eq!(server.max_concurrent(), 3);
    assert!(server.requests().len() <= 1 + 6, "{:?}", server.ranges());
}

#[test]
fn connections_share_a_single_large_tensor() {
    let server = Server::new(|request| answer(&LARGE, request).slowly(PAUSE_MS));
    run(async {
        let loader = open(&server, 3).await;
        let loaded = loader.load_tensor("01", TensorRequest::default(), Rc::new(())).await.unwrap();
        assert!(LARGE.ends_with(&loaded.components[0].buffer) && loaded.components[0].buffer.len() == 5000 * KIB);
    });
    assert_eq!(server.max_concurrent(), 3);
}

/// The version of `LARGE` after a change.
static NEW: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut new = LARGE.clone();
    let header = new.len() - 5100 * KIB;
    new[header..].iter_mut().for_each(|byte| *byte ^= 0x55);
    new
});

/// Without a strong ETag, nothing proves that the responses to two connections are of one version.
#[test]
fn a_tensor_is_of_one_version_without_strong_etags() {
    for (name, validators) in WITHOUT_STRONG_ETAGS {
        let server = Server::new(move |request| {
            let is_new = request.number % 2 == 0;
            validators(answer(if is_new { &NEW } else { &LARGE }, request), is_new, request).slowly(PAUSE_MS)
        });
        assert_one_version(&server, name);
    }
}

/// The file changes when other connections begin, and only the first responses have an ETag.
#[test]
fn a_tensor_is_of_one_version_if_the_etag_is_missing_later() {
    let server = Server::new(move |request| match request.number {
        0..3 => answer(&LARGE, request).slowly(PAUSE_MS),
        _ => answer(&NEW, request).without("ETag").slowly(PAUSE_MS),
    });
    assert_one_version(&server, "a missing ETag");
    assert!(server.requests().len() > 3, "no connection was added");
}

/// The ETag is missing in the response from which other connections would take over.
#[test]
fn a_tensor_is_of_one_version_if_the_etag_is_missing_once() {
    let server = Server::new(move |request| match request.number {
        2 => answer(&NEW, request).without("ETag").slowly(PAUSE_MS),
        _ => answer(&LARGE, request).slowly(PAUSE_MS),
    });
    assert_one_version(&server, "one missing ETag");
    assert!(server.requests().len() > 2, "{:?}", server.ranges());
}

/// Loads the small tensor and then the large one, which must be of one version if it is returned.
fn assert_one_version(server: &Server, name: &str) {
    run(async {
        let loader = open(server, 3).await;
        let first = loader.load_tensor("00", TensorRequest::default(), Rc::new(())).await;
        if let Err(error) = first {
            return assert_eq!(error.kind, ErrorKind::Changed, "{name}: {error}");
        }
        match loader.load_tensor("01", TensorRequest::default(), Rc::new(())).await {
            Ok(loaded) => {
                let bytes = &loaded.components[0].buffer;
                assert!(LARGE.ends_with(bytes) || NEW.ends_with(bytes), "{name}: two versions in one tensor");
            }
            Err(error) => assert_eq!(error.kind, ErrorKind::Changed, "{name}: {error}"),
        }
    });
}

#[test]
fn connections_share_rows_and_a_buffer_of_the_caller() {
    let server = Server::new(|request| answer(&LARGE, request).slowly(PAUSE_MS));
    run(async {
        let loader = open(&server, 2).await;
        let (rows, into) = (Some(100_000..5_000_000), Some(vec![0; 4_900_000]));
        let loaded = loader
            .load_tensor("01", TensorRequest::default().with_rows(rows).with_into(into), Rc::new(()))
            .await
            .unwrap();
        let start = LARGE.len() - 5000 * KIB;
        assert!(LARGE[start + 100_000..start + 5_000_000] == loaded.components[0].buffer);
    });
    assert_eq!(server.max_concurrent(), 2);
}

#[test]
fn no_third_connection_is_opened_at_full_bandwidth() {
    let link = Link::new(4);
    let server = Server::new(move |request| match request.number {
        0 => answer(&MANY, request),
        _ => answer(&MANY, request).over(&link),
    });
    run(async { check_all(&open(&server, 8).await, &MANY).await });
    assert!(server.max_concurrent() <= 2, "{:?}", server.ranges());
}

#[test]
fn a_fast_response_needs_one_request() {
    let server = Server::new(|request| answer(&MANY, request));
    run(async { check_all(&open(&server, 8).await, &MANY).await });
    assert_eq!(server.ranges(), [0..64 * KIB, 64 * KIB..MANY.len()]);
}

#[test]
fn a_broken_connection_resumes_only_its_own_part() {
    let server = Server::new(|request| match request.number {
        0 => answer(&LARGE, request),
        1..=4 => answer(&LARGE, request).slowly(PAUSE_MS).cut_after(1200 * KIB),
        _ => answer(&LARGE, request).slowly(PAUSE_MS),
    });
    run(async {
        let loader = open(&server, 3).await;
        check_all(&loader, &LARGE).await;
        assert_shares_of_one_run(&server, &loader, &LARGE);
    });
}

/// The parts arrive in any order.
#[test]
fn the_file_checksum_is_verified_if_connections_share_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.apr");
    let reader = Reader::from_bytes(vec![("m".to_owned(), MANY.clone())]).unwrap();
    convert(&reader, &path, &ConvertOptions::default(), &()).unwrap();
    let mut file = std::fs::read(&path).unwrap();
    for is_damaged in [false, true] {
        if is_damaged {
            let at = file.len() / 2;
            file[at] ^= 1;
        }
        let served = file.clone();
        let server = Server::new(move |request| answer(&served, request).slowly(PAUSE_MS));
        run(async {
            let loader = open(&server, 2).await;
            let tensors = loader.tensors(None, Rc::new(())).await.unwrap();
            let outcome: Result<Vec<_>, _> = tensors.try_collect().await;
            assert_eq!(outcome.err().map(|error| error.code()), is_damaged.then_some("CHECKSUM"));
            assert_eq!(loader.verified_by(), (!is_damaged).then_some(Algorithm::Crc32));
        });
        assert_eq!(server.max_concurrent(), 2);
    }
}
