//! Tensors whose numbers are split into streams of bytes: of rows, only parts of the streams are read, and the streams
//! of a large tensor are read side by side.

mod digests;
mod published;
mod versions;

use super::bytes::{noise, safetensors};
use super::server::{Server, answer};
use super::{HttpLoader, open, run};
use futures::TryStreamExt;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::ErrorKind;
use weightstream::internals::dtype::Dtype;
use weightstream::internals::loader::{Loader, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::write::{self, Compression, ConvertOptions};

const ROWS: usize = 6 << 10;

const COLUMNS: usize = 1 << 10;

const ROW_BYTES: usize = 4 * COLUMNS;

/// 24 MiB of F32, whose most significant bytes have few values, each part of them others.
static DATA: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut data = noise(7, ROWS * ROW_BYTES);
    for (at, number) in data.chunks_exact_mut(4).enumerate() {
        number[3] = 60 + (number[3] & 3) + (at >> 18) as u8 % 3;
    }
    data
});

/// The tensor between two others, so that reads go on behind it.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("m.safetensors"), folder.path().join("m.zt"));
    let shape = [ROWS as u64, COLUMNS as u64];
    let tensors = [
        ("first", "U8", &[90_000][..], noise(1, 90_000)),
        ("t", "F32", &shape, DATA.clone()),
        ("z", "U8", &[9], noise(2, 9)),
    ];
    std::fs::write(&source, safetensors(None, &tensors)).unwrap();
    let options = ConvertOptions::default().compression(Compression::Auto);
    write::convert(&Reader::open(source).unwrap(), &out, &options, &()).unwrap();
    std::fs::read(out).unwrap()
});

fn serve() -> Server {
    Server::new(move |request| answer(&FILE, request))
}

fn of_rows(rows: &Range<usize>) -> TensorRequest<Vec<u8>> {
    TensorRequest::default().with_rows(Some(rows.start as u64..rows.end as u64))
}

/// The bytes that arrived while `load` ran.
async fn received<T>(loader: &HttpLoader, load: impl Future<Output = T>) -> (T, u64) {
    let before = loader.stats().bytes_received();
    let loaded = load.await;
    (loaded, loader.stats().bytes_received() - before)
}

/// Rows of the tensor in the SafeTensors file that represents the model.
async fn viewed(loader: &HttpLoader, rows: Range<u64>) -> weightstream::Result<Vec<u8>> {
    use weightstream::internals::loader::SafeTensorsView;
    let view = Rc::new(SafeTensorsView::new(Rc::clone(loader)).await?);
    let mut head = vec![0; 8];
    view.read(0..8).fill(&mut head, 0..8).await?;
    let data = 8 + u64::from_le_bytes(head.try_into().unwrap());
    let mut head = vec![0; data as usize - 8];
    view.read(8..data).fill(&mut head, 0..data - 8).await?;
    let head = String::from_utf8(head).unwrap();
    let at = head.find("\"t\":").unwrap();
    let offsets = &head[at + head[at..].find("offsets\":[").unwrap() + 10..];
    let start = data + offsets[..offsets.find(',').unwrap()].parse::<u64>().unwrap();
    let range = start + rows.start * ROW_BYTES as u64..start + rows.end * ROW_BYTES as u64;
    let length = range.end - range.start;
    let mut bytes = vec![0; length as usize];
    let mut reader = view.read(range);
    let mut filled = 0;
    while filled < length {
        let count = reader.fill(&mut bytes, filled..(filled + 100_003).min(length)).await?;
        filled += count;
    }
    Ok(bytes)
}

#[test]
fn rows_fetch_only_their_part_of_each_stream() {
    let server = serve();
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        for wanted in [0..1, 17..300, 1023..1025, ROWS - 64..ROWS, 5..5, 3000..3001] {
            let (loaded, received) = received(&loader, loader.load_tensor("t", of_rows(&wanted), Rc::new(()))).await;
            let loaded = loaded.unwrap();
            assert_eq!(loaded.shape, [wanted.len() as u64, COLUMNS as u64]);
            let expected = &DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES];
            assert!(loaded.components[0].buffer == expected, "rows {wanted:?} have other bytes");
            let raw = 3 * wanted.len() as u64 * COLUMNS as u64;
            assert!(received <= raw + (700 << 10), "{received} bytes for rows {wanted:?}: two frames, and the table");
        }
    });
}

#[test]
fn rows_are_converted_into_the_callers_buffer() {
    let server = serve();
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        let wanted = 2000..2003;
        let whole = loader.load_tensor("t", TensorRequest::default().with_dtype(Some(Dtype::BF16)), Rc::new(())).await;
        let whole = whole.unwrap().components.remove(0).buffer;
        let into = vec![1; 3 * ROW_BYTES / 2];
        let request = of_rows(&wanted).with_dtype(Some(Dtype::BF16)).with_into(Some(into));
        let loaded = loader.load_tensor("t", request, Rc::new(())).await.unwrap();
        assert_eq!(loaded.dtype, Dtype::BF16);
        assert!(loaded.components[0].buffer == whole[2000 * ROW_BYTES / 2..2003 * ROW_BYTES / 2]);
        let request = of_rows(&wanted).with_into(Some(vec![1; 3 * ROW_BYTES]));
        let loaded = loader.load_tensor("t", request, Rc::new(())).await.unwrap();
        assert!(loaded.components[0].buffer == DATA[2000 * ROW_BYTES..2003 * ROW_BYTES]);
        let error = loader.load_tensor("t", of_rows(&wanted).with_into(Some(vec![0; 3])), Rc::new(())).await;
        assert_eq!(error.unwrap_err().kind, ErrorKind::InvalidArgument);
    });
}

#[test]
fn whole_tensors_arrive_by_every_call_with_each_byte_once() {
    let server = serve();
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        let stored = FILE.len() as u64;
        let load = loader.load_tensor("t", TensorRequest::default(), Rc::new(()));
        let (loaded, bytes) = received(&loader, load).await;
        let loaded = loaded.unwrap();
        assert!(loaded.components[0].buffer == *DATA && loaded.verified.is_some());
        assert!(bytes < stored + (1 << 20), "{bytes} of {stored} bytes");

        let names = Some(["z", "t", "first"].map(str::to_owned).to_vec());
        let tensors = loader.tensors(names, Rc::new(())).await.unwrap().try_collect::<Vec<_>>();
        let (tensors, bytes) = received(&loader, tensors).await;
        let tensors = tensors.unwrap();
        assert_eq!(tensors.len(), 3);
        let found = |name: &str| tensors.iter().find(|loaded| loaded.tensor.name == name).unwrap();
        assert!(found("t").components[0].buffer == *DATA && found("z").components[0].buffer == noise(2, 9));
        assert!(bytes < stored + (1 << 20), "{bytes} of {stored} bytes");

        let mut reader = loader.read_tensors(None, None).await.unwrap();
        while let Some(begun) = reader.next().await.unwrap() {
            let mut streamed = Vec::new();
            let mut piece = vec![0; 1 << 20];
            loop {
                let length = reader.fill(&mut piece, 0..1 << 20).await.unwrap();
                streamed.extend_from_slice(&piece[..length as usize]);
                if length < 1 << 20 {
                    break;
                }
            }
            assert!(streamed == found(&begun.tensor.name).components[0].buffer, "{}", begun.tensor.name);
            assert!(reader.verified().is_some());
        }
        loader.verify(Rc::new(())).await.unwrap();
    });
}

#[test]
fn the_streams_of_a_large_tensor_are_read_in_slices_in_turn() {
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), FILE.clone())]).unwrap();
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    let server = serve();
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        let before = server.requests().len();
        loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await.unwrap();
        // More than one response at a time could hold all connections of a browser.
        let requested: Vec<_> =
            server.requests().into_iter().skip(before).filter_map(|request| request.range).collect();
        // 20 MB in turns of 16 MiB. Each stream has the padding before it.
        let mut order: Vec<_> = streams.iter().map(|stream| stream.range.clone()).collect();
        order.sort_by_key(|range| range.start);
        let starts = std::iter::once(order[0].start).chain(order.iter().map(|range| range.end));
        let padded: Vec<_> = starts.zip(&order).map(|(start, range)| start..range.end).collect();
        let slice = |range: &Range<u64>, turn: u64| {
            let at = |turn: u64| range.end.min(range.start + turn * (range.end - range.start).div_ceil(2));
            at(turn) as usize..at(turn + 1) as usize
        };
        let slices: Vec<_> = (0..2).flat_map(|turn| padded.iter().map(move |range| slice(range, turn))).collect();
        assert_eq!(requested, slices);
    });
}

#[test]
fn a_load_of_the_whole_model_reads_slices_and_checks_the_padding_between_streams() {
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), FILE.clone())]).unwrap();
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    let compressed = streams.iter().find(|stream| stream.is_zstd).unwrap();
    let mut file = FILE.clone();
    let padding = compressed.range.end as usize;
    assert!(!streams.iter().any(|stream| stream.range.contains(&compressed.range.end)) && file[padding] == 0);
    file[padding] = 1;
    let server = Server::new(move |request| answer(&file, request));
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        let tensors = loader.tensors(None, Rc::new(())).await.unwrap().try_collect::<Vec<_>>();
        let (tensors, bytes) = received(&loader, tensors).await;
        assert!(tensors.unwrap().iter().any(|loaded| loaded.components[0].buffer == *DATA));
        assert!(bytes < FILE.len() as u64 + (1 << 20), "{bytes} bytes");
        assert!(server.requests().len() > 8, "{} requests", server.requests().len());
        let warnings = loader.warnings().await.unwrap();
        assert!(
            warnings.iter().any(|(_, warning)| warning.contains("1 bytes of padding are not zero")),
            "{warnings:?}"
        );
    });
}

#[test]
fn a_damaged_stream_is_found_side_by_side() {
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), FILE.clone())]).unwrap();
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    for stream in streams.iter() {
        let mut damaged = FILE.clone();
        damaged[(stream.range.start + stream.range.end) as usize / 2] ^= 1;
        let server = Server::new(move |request| answer(&damaged, request));
        run(async {
            let loader = open(&server.url("/m.zt")).await.unwrap();
            let error = loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await.unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Checksum | ErrorKind::Format), "{error}");
            assert_eq!(error.context.tensor.as_deref(), Some("t"));
        });
    }
}
