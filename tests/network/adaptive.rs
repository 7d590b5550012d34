//! How many connections a load takes: what the server sees of it, on lines of every kind.

use super::bytes::{noise, safetensors};
use super::server::{Line, Server, answer};
use super::{HttpLoader, options, run};
use futures::TryStreamExt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::loader::{Loader, TensorRequest};
use weightstream::native::Reader;
use weightstream::source::http::HttpSource;
use weightstream::write::{ConvertOptions, convert};

const KIB: usize = 1 << 10;

/// A server sends 16 KiB, then pauses so long: slow enough that the measurement sees nothing but that.
const PAUSE_MS: u64 = 8;

/// What is read together with the head, then many tensors of a size.
static MANY: LazyLock<Vec<u8>> = LazyLock::new(|| model(&[&[100 * KIB][..], &[256 * KIB; 16]].concat()));

/// One tensor.
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
    // A busy machine is no stall.
    let retry = options().retry.with_stall_ms(20_000);
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

/// Each connection that was added took the end of what another one had asked for, and no byte came twice.
#[track_caller]
fn assert_shares_of_one_run(server: &Server, loader: &HttpLoader, file: &[u8]) {
    let ranges: Vec<Range<usize>> = server.ranges()[1..].to_vec();
    for (at, range) in ranges.iter().enumerate().skip(1) {
        let is_cut_off = |earlier: &Range<usize>| earlier.start < range.start && range.end <= earlier.end;
        assert!(ranges[..at].iter().any(is_cut_off), "{range:?} of {ranges:?}");
    }
    assert_eq!(loader.stats().bytes_received(), file.len() as u64, "no byte came twice");
}

#[test]
fn where_connections_are_throttled_they_are_added_up_to_the_ceiling() {
    let server = Server::new(|request| answer(&MANY, request).slowly(PAUSE_MS));
    run(async {
        let loader = open(&server, 3).await;
        check_all(&loader, &MANY).await;
        assert_shares_of_one_run(&server, &loader, &MANY);
    });
    assert_eq!(server.most_at_once(), 3);
    assert!(server.requests().len() <= 1 + 6, "{:?}", server.ranges());
}

#[test]
fn a_single_large_tensor_is_shared_by_connections_as_well() {
    let server = Server::new(|request| answer(&LARGE, request).slowly(PAUSE_MS));
    run(async {
        let loader = open(&server, 3).await;
        let loaded = loader.load_tensor("01", TensorRequest::default(), Rc::new(())).await.unwrap();
        assert!(LARGE.ends_with(&loaded.components[0].buffer) && loaded.components[0].buffer.len() == 5000 * KIB);
    });
    assert_eq!(server.most_at_once(), 3);
}

#[test]
fn rows_and_a_buffer_of_the_callers_are_filled_in_parts_too() {
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
    assert_eq!(server.most_at_once(), 2);
}

#[test]
fn on_a_line_that_is_full_a_second_connection_is_the_last() {
    let line = Line::new(4);
    let server = Server::new(move |request| match request.number {
        0 => answer(&MANY, request),
        _ => answer(&MANY, request).over(&line),
    });
    run(async { check_all(&open(&server, 8).await, &MANY).await });
    assert!(server.most_at_once() <= 2, "{:?}", server.ranges());
}

#[test]
fn what_comes_at_once_takes_one_request() {
    let server = Server::new(|request| answer(&MANY, request));
    run(async { check_all(&open(&server, 8).await, &MANY).await });
    assert_eq!(server.ranges(), [0..64 * KIB, 64 * KIB..MANY.len()]);
}

#[test]
fn a_part_that_breaks_goes_on_where_it_was_and_asks_for_no_more_than_its_own() {
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

/// Of its parts, in whatever order they come.
#[test]
fn the_checksum_of_a_file_is_checked_also_where_connections_share_it() {
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
            assert_eq!(loader.verified_by(), (!is_damaged).then_some("crc32"));
        });
        assert_eq!(server.most_at_once(), 2);
    }
}
