//! Tensors whose numbers are split into streams of bytes: of rows, only parts of the streams are read, and the streams
//! of a large tensor are read side by side.

use super::bytes::{noise, safetensors};
use super::server::{Server, answer};
use super::{HttpLoader, open, run};
use futures::TryStreamExt;
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

/// A server without validators has another file of the same length after some requests.
#[test]
fn rows_are_of_one_version_without_validators() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    // Every raw mantissa byte differs.
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), FILE.clone())]).unwrap();
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    let mut other = FILE.clone();
    for stream in streams.iter().filter(|stream| !stream.is_zstd) {
        other[stream.range.start as usize..stream.range.end as usize].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
    for later in 0..4 {
        let (other, changes_at) = (other.clone(), std::sync::Arc::new(AtomicUsize::new(usize::MAX)));
        let at = std::sync::Arc::clone(&changes_at);
        let server = Server::new(move |request| {
            let file = if request.number >= at.load(Ordering::Relaxed) { &other } else { &FILE };
            answer(file, request).without("ETag")
        });
        run(async {
            let loader = open(&server.url("/m.zt")).await.unwrap();
            // reads the seek table
            loader.load_tensor("t", of_rows(&(4000..4001)), Rc::new(())).await.unwrap();
            changes_at.store(server.requests().len() + later, Ordering::Relaxed);
            let wanted = 3000..3001;
            match loader.load_tensor("t", of_rows(&wanted), Rc::new(())).await {
                Err(error) => println!("{later}: {error}"),
                Ok(loaded) => {
                    let one = &DATA[3000 * ROW_BYTES..3001 * ROW_BYTES];
                    let two: Vec<u8> =
                        one.iter().enumerate().map(|(at, byte)| if at % 4 < 3 { byte ^ 0xff } else { *byte }).collect();
                    let found = &loaded.components[0].buffer;
                    assert!(
                        found == one || *found == two,
                        "{later}: numbers of two versions, as {:?}",
                        loaded.verified
                    );
                }
            }
        });
    }
}

type Alter = fn(super::server::Reply, usize) -> super::server::Reply;

/// Validators that prove nothing.
const UNPROVEN: [(&str, Alter); 5] = [
    ("none", |reply, _| reply.without("ETag")),
    ("dates", |reply, _| reply.without("ETag").with("Last-Modified", "Fri, 13 Nov 2026 00:00:00 GMT")),
    ("weak", |reply, number| reply.with("ETag", &format!("W/\"{number}\""))),
    ("random", |reply, number| reply.with("ETag", &format!("\"{number}\""))),
    ("same", |reply, _| reply),
];

async fn pieces(loader: &HttpLoader, rows: Option<Range<u64>>) -> weightstream::Result<Vec<u8>> {
    let mut reader = loader.read_tensors(Some(vec!["t".to_owned()]), rows).await?;
    reader.next().await?.unwrap();
    let (mut all, mut piece) = (Vec::new(), vec![0; 300_001]);
    loop {
        let length = reader.fill(&mut piece, 0..300_001).await?;
        all.extend_from_slice(&piece[..length as usize]);
        if length < 300_001 {
            return Ok(all);
        }
    }
}

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

/// A file that changes between any two requests, and of which nothing proves the version, is never mixed.
#[test]
fn no_call_mixes_versions() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use weightstream::internals::source::http::HttpSource;
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), FILE.clone())]).unwrap();
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    let mut other = FILE.clone();
    for stream in streams.iter().filter(|stream| !stream.is_zstd) {
        other[stream.range.start as usize..stream.range.end as usize].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
    let other = std::sync::Arc::new(other);
    let other_data: Vec<u8> =
        DATA.iter().enumerate().map(|(at, byte)| if at % 4 < 3 { byte ^ 0xff } else { *byte }).collect();
    let mut mixed = Vec::new();
    for (name, alter) in UNPROVEN {
        for call in 0..6 {
            for later in 0..5 {
                let (other, changes_at) = (other.clone(), std::sync::Arc::new(AtomicUsize::new(usize::MAX)));
                let at = std::sync::Arc::clone(&changes_at);
                let server = Server::new(move |request| {
                    let is_new = request.number >= at.load(Ordering::Relaxed);
                    let reply = alter(answer(if is_new { &other } else { &FILE }, request), request.number);
                    if name == "same" && is_new { reply.without("ETag") } else { reply }
                });
                run(async {
                    let options = super::options().with_verify(false);
                    let loader = Loader::open(HttpSource::new(&server.url("/m.zt"), &[]).unwrap(), options).await;
                    let loader = Rc::new(loader.unwrap());
                    if call < 3 {
                        loader.load_tensor("t", of_rows(&(4000..4001)), Rc::new(())).await.unwrap();
                    }
                    changes_at.store(server.requests().len() + later, Ordering::Relaxed);
                    let load = async |request: TensorRequest<Vec<u8>>| {
                        let loaded = loader.load_tensor("t", request, Rc::new(())).await?;
                        Ok(loaded.components.into_iter().next().unwrap().buffer)
                    };
                    let wanted = if call < 3 { 3000..3001 } else { 0..ROWS };
                    let found = match call {
                        0 => load(of_rows(&wanted)).await,
                        1 => pieces(&loader, Some(3000..3001)).await,
                        2 => viewed(&loader, 3000..3001).await,
                        3 => load(TensorRequest::default()).await,
                        4 => pieces(&loader, None).await,
                        _ => viewed(&loader, 0..ROWS as u64).await,
                    };
                    let one = &DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES];
                    if let Ok(found) = found
                        && found != one
                        && found != other_data[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES]
                    {
                        mixed.push(format!("{name}, call {call}, {later} requests later"));
                    }
                });
            }
        }
    }
    assert!(mixed.is_empty(), "{mixed:#?}");
}

/// A server that ignores ranges from some request on. The table of frames of the first stream is known by then, at the
/// offset of the component.
#[test]
fn rows_are_right_once_a_server_ignores_ranges() {
    use super::server::whole;
    use std::sync::atomic::{AtomicBool, Ordering};
    static IGNORES: AtomicBool = AtomicBool::new(false);
    let server =
        Server::new(|request| if IGNORES.load(Ordering::Relaxed) { whole(&FILE) } else { answer(&FILE, request) });
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        loader.load_tensor("t", of_rows(&(10..20)), Rc::new(())).await.unwrap();
        IGNORES.store(true, Ordering::Relaxed);
        let mut wrong = Vec::new();
        for at in 0..6 {
            let wanted = 2000 + at * 500..2100 + at * 500;
            match loader.load_tensor("t", of_rows(&wanted), Rc::new(())).await {
                Ok(found) if found.components[0].buffer == DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES] => {}
                Ok(_) => wrong.push(format!("rows {wanted:?}: other bytes")),
                Err(error) => wrong.push(format!("rows {wanted:?}: {error}")),
            }
            match pieces(&loader, Some(wanted.start as u64..wanted.end as u64)).await {
                Ok(found) if found == DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES] => {}
                Ok(_) => wrong.push(format!("pieces {wanted:?}: other bytes")),
                Err(error) => wrong.push(format!("pieces {wanted:?}: {error}")),
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

mod digests {
    use super::*;
    use std::collections::HashMap;
    use weightstream::internals::codec::digest::digest_of;
    use weightstream::internals::index::Digest;
    use weightstream::internals::loader::Digests;
    use weightstream::internals::source::http::HttpSource;
    use weightstream::internals::write::DigestAlgorithm;

    const ALGORITHMS: [Digest; 4] =
        [Digest::Sha256([0; 32]), Digest::Blake3([0; 32]), Digest::Crc32(0), Digest::Crc32c(0)];

    async fn outcomes(loader: &HttpLoader) -> Vec<(&'static str, weightstream::Result<String>)> {
        let one = loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await;
        let one = one.map(|loaded| format!("{:?}", loaded.verified));
        let named = async {
            let names = Some(vec!["t".to_owned()]);
            let all: Vec<_> = loader.tensors(names, Rc::new(())).await?.try_collect().await?;
            Ok(format!("{:?}", all[0].verified))
        };
        let all = async {
            let all: Vec<_> = loader.tensors(None, Rc::new(())).await?.try_collect().await?;
            let t = all.iter().find(|loaded| loaded.tensor.name == "t").unwrap();
            Ok(format!("{:?} {:?}", t.verified, loader.verified_by()))
        };
        let verified = loader.verify(Rc::new(())).await.map(|by| format!("{by:?}"));
        let pieces = async {
            let mut reader = loader.read_tensors(Some(vec!["t".to_owned()]), None).await?;
            reader.next().await?.unwrap();
            let mut piece = vec![0; 1 << 20];
            while reader.fill(&mut piece, 0..1 << 20).await? == 1 << 20 {}
            Ok(format!("{:?}", reader.verified()))
        };
        let view = viewed(loader, 0..ROWS as u64).await.map(|_| String::new());
        vec![
            ("load", one),
            ("named", named.await),
            ("all", all.await),
            ("verify", verified),
            ("pieces", pieces.await),
            ("view", view),
        ]
    }

    #[test]
    fn pinned_digests_are_compared_by_every_call() {
        let server = serve();
        run(async {
            for verify in [false, true] {
                for like in ALGORITHMS {
                    for is_right in [true, false] {
                        let of_tensor = if is_right { digest_of(&DATA, like) } else { like };
                        let of_file = if is_right { digest_of(&FILE, like) } else { like };
                        let tensors = Digests::default().with_tensors(HashMap::from([("t".to_owned(), of_tensor)]));
                        let files = Digests::default().with_files(HashMap::from([("m.zt".to_owned(), of_file)]));
                        for (what, digests) in [("tensor", tensors), ("file", files)] {
                            let options = crate::options().with_digests(digests).with_verify(verify);
                            let source = HttpSource::new(&server.url("/m.zt"), &[]).unwrap();
                            let loader = Loader::open(source, options).await.map(Rc::new).unwrap();
                            for (call, outcome) in outcomes(&loader).await {
                                let has_to_fail = !is_right && (what == "tensor" || matches!(call, "all" | "verify"));
                                println!(
                                    "verify {verify} {what} {like:?} right {is_right} {call}: {:?}",
                                    outcome.as_ref().map_err(|e| e.to_string().chars().take(90).collect::<String>())
                                );
                                assert_eq!(outcome.is_err(), has_to_fail, "{what} {call} {is_right}");
                            }
                        }
                    }
                }
            }
        });
    }

    /// The entry of `publish` states a digest of the stored bytes; the file has none.
    #[test]
    fn digests_of_an_entry_are_compared_by_every_call() {
        let folder = tempfile::tempdir().unwrap();
        let (source, out) = (folder.path().join("m.safetensors"), folder.path().join("m.zt"));
        let shape = [ROWS as u64, COLUMNS as u64];
        std::fs::write(&source, safetensors(None, &[("t", "F32", &shape[..], DATA.clone())])).unwrap();
        let options = ConvertOptions::default().compression(Compression::Auto).digest(Some(DigestAlgorithm::None));
        write::convert(&Reader::open(source).unwrap(), &out, &options, &()).unwrap();
        let file = std::fs::read(out).unwrap();
        let reader = Reader::from_bytes(vec![("m.zt".to_owned(), file.clone())]).unwrap();
        let data = reader.tensor("t").unwrap().components[0].clone();
        assert!(data.digest.is_none());
        let stored = &file[data.range.start as usize..data.range.end as usize];
        for is_right in [true, false] {
            let of_tensor = if is_right { digest_of(stored, Digest::Sha256([0; 32])) } else { Digest::Sha256([0; 32]) };
            let of_file = digest_of(&file, Digest::Sha256([0; 32]));
            let entry = serde_json::json!({
                "weight_map": { "t": "m.zt" },
                "weightstream": {
                    "version": 1,
                    "files": { "m.zt": { "size": file.len(), "sha256": of_file.to_string() } },
                    "tensors": { "t": format!("sha256:{of_tensor}") },
                },
            });
            let entry = entry.to_string();
            let served = file.clone();
            let server = Server::new(move |request| {
                if request.path.ends_with(".json") {
                    answer(entry.as_bytes(), request)
                } else {
                    answer(&served, request)
                }
            });
            run(async {
                let loader = open(&server.url("/m.zt.index.json")).await.unwrap();
                for (call, outcome) in outcomes(&loader).await {
                    println!(
                        "right {is_right} {call}: {:?}",
                        outcome.as_ref().map_err(|e| e.to_string().chars().take(120).collect::<String>())
                    );
                    assert_eq!(outcome.is_ok(), is_right, "{call}");
                }
            });
        }
    }
}

#[test]
fn a_disappearing_etag_does_not_fail_side_by_side() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let mut failed = Vec::new();
    for later in 0..6 {
        let first = std::sync::Arc::new(AtomicUsize::new(usize::MAX));
        let at = std::sync::Arc::clone(&first);
        let server = Server::new(move |request| {
            let reply = answer(&FILE, request);
            if request.number >= at.load(Ordering::Relaxed) { reply.without("ETag") } else { reply }
        });
        run(async {
            let loader = open(&server.url("/m.zt")).await.unwrap();
            first.store(server.requests().len() + later, Ordering::Relaxed);
            let loaded = loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await;
            match loaded {
                Ok(loaded) => assert!(loaded.components[0].buffer == *DATA),
                Err(error) => failed.push(format!("{later}: {error}")),
            }
        });
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
