//! Rows of compressed tensors are read without the blocks before them, once the positions of the blocks are known.

use super::bytes::{Apr, Entry, noise, safetensors};
use super::server::{Server, answer};
use super::{HttpLoader, open, run};
use serde_json::json;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::ErrorKind;
use weightstream::Result;
use weightstream::internals::loader::TensorRequest;
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, ConvertOptions};

/// The bytes of a row: 64 rows are a block of LZ4, and 1024 rows a frame of Zstandard.
const ROW_BYTES: usize = 1024;

const ROWS: usize = 24 << 10;

/// The maximum length of a stored block of LZ4: a block of 64 KiB that LZ4 does not compress.
const BLOCK_BYTES: u64 = 66 << 10;

/// Noise with zeros in between, which compresses to about half, each block to another length.
static DATA: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut data = noise(7, ROWS * ROW_BYTES);
    data.iter_mut().enumerate().filter(|(at, _)| at % 7000 < 3000).for_each(|(_, byte)| *byte = 0);
    data
});

/// The same data in a file that weightstream writes.
fn converted(name: &str, options: &ConvertOptions) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("m.safetensors"), folder.path().join(name));
    // The tensor before is read together with the header.
    let tensors = [("first", "U8", &[100_000][..], noise(1, 100_000)), ("t", "U8", &SHAPE, DATA.clone())];
    std::fs::write(&source, safetensors(None, &tensors)).unwrap();
    write::convert(&Reader::open(source).unwrap(), &out, options, &()).unwrap();
    std::fs::read(out).unwrap()
}

const SHAPE: [u64; 2] = [ROWS as u64, ROW_BYTES as u64];

fn lz4_with_positions() -> Vec<u8> {
    let format = write::format_named("apr").unwrap();
    let options = ConvertOptions::default().compression(write::Compression::Lz4);
    converted("m.apr", &options.format(Some(format)))
}

/// A file that was built without weightstream, and does not state where its blocks are.
fn lz4_without_positions() -> Vec<u8> {
    Apr::new(vec![Entry::raw("first", 7, &[100_000], noise(1, 100_000)), Entry::lz4("t", 7, &SHAPE, &DATA)]).build()
}

fn serve(file: Vec<u8>) -> Server {
    Server::new(move |request| answer(&file, request))
}

async fn rows(loader: &HttpLoader, rows: Range<usize>) -> Result<(Vec<u8>, u64)> {
    let before = loader.stats().bytes_received();
    let request = TensorRequest::default().with_rows(Some(rows.start as u64..rows.end as u64));
    let loaded = loader.load_tensor("t", request, Rc::new(())).await?;
    assert_eq!(loaded.shape, [rows.len() as u64, SHAPE[1]]);
    assert_eq!(loaded.tensor.shape, SHAPE, "the entry of the index is the tensor's own");
    let [component] = <[_; 1]>::try_from(loaded.components).unwrap();
    Ok((component.buffer, loader.stats().bytes_received() - before))
}

/// Loads the rows, compares them, and returns how many bytes arrived for them.
async fn received_for(loader: &HttpLoader, wanted: Range<usize>) -> u64 {
    let (bytes, received) = rows(loader, wanted.clone()).await.unwrap();
    assert!(bytes == DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES], "rows {wanted:?} have other bytes");
    received
}

#[test]
fn the_first_rows_of_an_lz4_tensor_fetch_only_their_blocks() {
    let server = serve(lz4_with_positions());
    run(async {
        let loader = open(&server.url("/m.apr")).await.unwrap();
        for wanted in [ROWS - 64..ROWS, 6000..6064, 6400..6464, 0..1, 12_345..12_346] {
            let received = received_for(&loader, wanted.clone()).await;
            assert!(received <= 2 * BLOCK_BYTES, "{received} bytes for rows {wanted:?}");
        }
    });
}

#[test]
fn the_first_rows_of_a_zstd_tensor_fetch_only_the_table_and_their_frames() {
    let server = serve(converted("m.zt", &ConvertOptions::default().compression(write::Compression::Zstd)));
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        for wanted in [ROWS - 64..ROWS, 6000..6064, 1023..1025, 0..1] {
            let received = received_for(&loader, wanted.clone()).await;
            let frames = if wanted.start == 1023 { 2 } else { 1 };
            assert!(received <= frames << 20, "{received} bytes for rows {wanted:?}");
        }
    });
}

#[test]
fn later_rows_fetch_only_blocks_that_were_decoded_before() {
    let server = serve(lz4_without_positions());
    run(async {
        let loader = open(&server.url("/m.apr")).await.unwrap();
        let first = received_for(&loader, 12_000..12_064).await;
        assert!(first > 100 * BLOCK_BYTES / 2, "{first} bytes: the blocks before are needed");
        for wanted in [12_000..12_064, 11_000..11_064, 0..64, 5..70] {
            let received = received_for(&loader, wanted.clone()).await;
            assert!(received <= 2 * BLOCK_BYTES, "{received} bytes for rows {wanted:?}");
        }
        let behind = received_for(&loader, 12_200..12_264).await;
        assert!(behind <= 6 * BLOCK_BYTES, "{behind} bytes: only the blocks from the last known one are needed");
        let all = received_for(&loader, 0..ROWS).await;
        assert!(all > 300 * BLOCK_BYTES / 2);
        let received = received_for(&loader, ROWS - 1..ROWS).await;
        assert!(received <= 2 * BLOCK_BYTES, "{received} bytes after all blocks were decoded");
    });
}

#[test]
fn wrong_positions_of_blocks_are_ignored() {
    let mut file = lz4_with_positions();
    let key = br#""t":""#;
    let start = file.windows(key.len()).position(|bytes| bytes == key).unwrap() + key.len();
    // Exchanges the lengths of two blocks of different lengths, so that their sum stays the same.
    let length = |file: &[u8], block: usize| file[start + 6 * block..][..6].to_vec();
    let one = 10;
    let other = (one + 1..).find(|block| length(&file, *block) != length(&file, one)).unwrap();
    let (first, second) = (length(&file, one), length(&file, other));
    file[start + 6 * one..][..6].copy_from_slice(&second);
    file[start + 6 * other..][..6].copy_from_slice(&first);
    let server = serve(file);
    run(async {
        let wrong = other * 64..(other + 1) * 64;
        let loader = open(&server.url("/m.apr")).await.unwrap();
        received_for(&loader, wrong.clone()).await;
        received_for(&loader, wrong.clone()).await;

        let loader = open(&server.url("/m.apr")).await.unwrap();
        let into = |length: usize| {
            let rows = wrong.start as u64..wrong.end as u64;
            TensorRequest::default().with_rows(Some(rows)).with_into(Some(vec![0; length]))
        };
        let error = loader.load_tensor("t", into(64 * ROW_BYTES), Rc::new(())).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Format);
        assert!(error.to_string().contains("Load the rows again"), "{error}");
        let loaded = loader.load_tensor("t", into(64 * ROW_BYTES), Rc::new(())).await.unwrap();
        assert!(loaded.components[0].buffer == DATA[wrong.start * ROW_BYTES..wrong.end * ROW_BYTES]);
    });
}

#[test]
fn positions_of_too_few_blocks_are_a_warning() {
    let mut file = Apr::new(vec![Entry::lz4("t", 7, &SHAPE, &DATA)]);
    file.metadata["weightstream.lz4_blocks"] = json!({ "t": "001234" });
    let server = serve(file.build());
    run(async {
        let loader = open(&server.url("/m.apr")).await.unwrap();
        received_for(&loader, 100..101).await;
        let warnings = loader.warnings().await.unwrap();
        assert!(warnings[0].1.contains("the block lengths of tensor \"t\""), "{warnings:?}");
        assert!(!loader.load_metadata().await.unwrap().metadata.contains_key("weightstream.lz4_blocks"));
    });
}

#[test]
fn streamed_rows_fetch_only_their_blocks() {
    let server = serve(lz4_with_positions());
    run(async {
        let loader = open(&server.url("/m.apr")).await.unwrap();
        let before = loader.stats().bytes_received();
        let mut reader = loader.read_tensors(Some(vec!["t".to_owned()]), Some(20_000..20_002)).await.unwrap();
        let begun = reader.next().await.unwrap().unwrap();
        let mut bytes = vec![0; begun.byte_length as usize];
        let length = reader.fill(&mut bytes, 0..begun.byte_length).await.unwrap();
        assert_eq!(length, 2 * ROW_BYTES as u64);
        assert!(bytes == DATA[20_000 * ROW_BYTES..20_002 * ROW_BYTES]);
        let received = loader.stats().bytes_received() - before;
        assert!(received <= BLOCK_BYTES, "{received} bytes");
    });
}
