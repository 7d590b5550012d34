//! zTensor tensors in streams of bytes.

use super::generated::{BLOCK_BYTES, frame, number, numbers, object, text, ztensor};
use super::{alone, open, peak_of};
use futures::executor::block_on;
use std::rc::Rc;
use weightstream::internals::loader::{Loader, TensorRequest};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;

const MIB: usize = 1 << 20;

/// One tensor "t". Each stream is its stored bytes, all zstd.
fn split(dtype: &str, logical: Option<&str>, elements: usize, streams: &[Vec<u8>]) -> Vec<u8> {
    let mut blobs = vec![0; 56];
    let mut components = Vec::new();
    let roles: Vec<_> = (0..streams.len()).map(|at| format!("stream_{at}")).collect();
    for (role, stream) in roles.iter().zip(streams) {
        components.push((role.as_str(), part(8 + blobs.len(), stream.len(), elements)));
        blobs.extend(stream);
        blobs.resize((blobs.len() + 8).next_multiple_of(64) - 8, 0);
    }
    let mut fields = vec![
        ("shape", numbers(&[elements as u64])),
        ("format", text("byte_stream_split")),
        ("dtype", text(dtype)),
        ("components", object(&components)),
    ];
    fields.extend(logical.map(|name| ("type", text(name))));
    ztensor(&blobs, &object(&[("version", text("1.2.0")), ("objects", object(&[("t", object(&fields))]))]))
}

fn part(offset: usize, length: usize, elements: usize) -> Vec<u8> {
    object(&[
        ("dtype", text("u8")),
        ("offset", number(offset as u64)),
        ("length", number(length as u64)),
        ("encoding", text("zstd")),
        ("uncompressed_length", number(elements as u64)),
    ])
}

/// The same stream as a tensor of U8 in one blob.
fn plain(elements: usize, stream: &[u8]) -> Vec<u8> {
    let mut blobs = vec![0; 56];
    let data = part(64, stream.len(), elements);
    blobs.extend(stream);
    let fields =
        [("shape", numbers(&[elements as u64])), ("format", text("dense")), ("components", object(&[("data", data)]))];
    ztensor(&blobs, &object(&[("version", text("1.2.0")), ("objects", object(&[("t", object(&fields))]))]))
}

fn loader(file: &[u8]) -> Rc<Loader<MemorySource>> {
    open(MemorySource::new(vec![("m.zt".to_owned(), file.into())]).unwrap()).unwrap()
}

/// Each of 16 decoders keeps a window.
#[test]
fn windows_of_all_streams_take_bounded_memory() {
    let _alone = alone();
    let data: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 20) as u8 & 3).collect();
    let data = [&data[..], &data[..], &data[..], &data[..]].concat();
    let mut encoder = ::zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(24).unwrap();
    encoder.include_contentsize(false).unwrap();
    std::io::Write::write_all(&mut encoder, &data).unwrap();
    let stream = encoder.finish().unwrap();
    let file = split("f64", Some("complex128"), data.len(), &vec![stream.clone(); 16]);
    let one = plain(data.len(), &stream);
    for (what, file) in [("plain", &one), ("streams", &file)] {
        let decoded = if what == "plain" { 1 } else { 16 } * data.len();
        let (outcome, peak) = peak_of(|| super::load(&loader(file)));
        outcome.unwrap();
        let (verified, peak_native) =
            peak_of(|| Reader::from_bytes(vec![("m.zt".to_owned(), file.clone())]).unwrap().verify(&()).map(drop));
        verified.unwrap();
        println!(
            "{what}: {} bytes, {} MiB decoded; load {} MiB, verify {} MiB",
            file.len(),
            decoded / MIB,
            peak / MIB,
            peak_native / MIB
        );
        assert!(peak_native < 64 * MIB + 8 * file.len(), "{what}: verify used {peak_native}");
        assert!(peak < 64 * MIB + 8 * file.len() + 2 * decoded, "{what}: load used {peak}");
    }
}

/// Frames of 1, 1.5, 0.5 and 1 MiB; the table states 1.5, 1, 1 and 0.5 MiB.
fn wrongly_stated() -> (Vec<u8>, Vec<u8>) {
    let mut data = vec![0u8; 4 * MIB];
    let mut state = 1u32;
    for byte in &mut data {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8 & 15;
    }
    let half = MIB / 2;
    let mut stream = Vec::new();
    let mut entries = Vec::new();
    for (range, stated) in [(0..2, 3), (2..5, 2), (5..6, 2), (6..8, 1)] {
        let frame = ::zstd::bulk::compress(&data[range.start * half..range.end * half], 3).unwrap();
        entries.extend((frame.len() as u32).to_le_bytes());
        entries.extend(((stated * half) as u32).to_le_bytes());
        stream.extend(frame);
    }
    stream.extend(0x184d_2a5e_u32.to_le_bytes());
    stream.extend((entries.len() as u32 + 9).to_le_bytes());
    stream.extend(&entries);
    stream.extend(4u32.to_le_bytes());
    stream.push(0);
    stream.extend(0x8f92_eab1_u32.to_le_bytes());
    (data, stream)
}

fn rows(file: &[u8], loads_before: bool) -> (weightstream::Result<Vec<u8>>, Vec<u8>) {
    let loader = loader(file);
    block_on(async {
        if loads_before {
            loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await.unwrap();
        }
        let wanted = 2 * MIB as u64..3 * MIB as u64;
        let request = TensorRequest::default().with_rows(Some(wanted));
        let rows = loader.load_tensor("t", request, Rc::new(())).await;
        let whole = loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await.unwrap();
        (rows.map(|mut rows| rows.components.remove(0).buffer), whole.components[0].buffer.clone())
    })
}

#[test]
fn a_wrong_seek_table_is_found_in_a_plain_tensor() {
    let _alone = alone();
    let (data, stream) = wrongly_stated();
    for loads_before in [false, true] {
        let (rows, whole) = rows(&plain(data.len(), &stream), loads_before);
        assert!(whole == data);
        assert!(rows.unwrap() == data[2 * MIB..3 * MIB], "other rows (loads_before: {loads_before})");
    }
}

#[test]
fn a_wrong_seek_table_is_found_in_streams() {
    let _alone = alone();
    let (data, stream) = wrongly_stated();
    let file = split("f16", None, data.len(), &[stream.clone(), stream]);
    for loads_before in [true, false] {
        let (rows, whole) = rows(&file, loads_before);
        assert!(whole.chunks(2).zip(&data).all(|(number, byte)| number == [*byte; 2]));
        assert!(rows.unwrap() == whole[4 * MIB..6 * MIB], "other rows (loads_before: {loads_before})");
    }
}

/// Rows in pieces fail for ever, although the table can be ignored: of a plain tensor, only the first read fails.
#[test]
fn rows_in_pieces_ignore_a_table_that_was_wrong() {
    let _alone = alone();
    let (data, stream) = wrongly_stated();
    let file = split("f16", None, data.len(), &[stream.clone(), stream.clone()]);
    for (what, file) in [("plain", plain(data.len(), &stream)), ("streams", file)] {
        let loader = loader(&file);
        let read = || {
            block_on(async {
                let rows = Some(3 * MIB as u64 + 600_000..3 * MIB as u64 + 700_000);
                let mut reader = loader.read_tensors(None, rows).await?;
                let begun = reader.next().await?.unwrap();
                let mut piece = vec![0; begun.byte_length as usize];
                reader.fill(&mut piece, 0..begun.byte_length).await
            })
        };
        let outcomes = [read().map_err(|e| e.to_string()), read().map_err(|e| e.to_string())];
        println!("{what}: {outcomes:?}");
        assert!(outcomes[1].is_ok(), "{what}: {outcomes:?}");
    }
}

/// Streams of a few kilobytes that state 64 MiB each, but are damaged: rows allocate all of their bytes at once.
#[test]
fn rows_of_damaged_streams_take_memory_in_proportion_to_the_file() {
    let _alone = alone();
    let elements = 512 * BLOCK_BYTES;
    let stream = frame(&[1; 2048], 7, 1, b"");
    let file = split("f64", Some("complex128"), elements, &vec![stream.clone(); 16]);
    for (what, file) in [("plain", plain(elements, &stream)), ("streams", file)] {
        let loader = loader(&file);
        let request = TensorRequest::default().with_rows(Some(1..elements as u64));
        let (outcome, peak) = peak_of(|| block_on(loader.load_tensor("t", request, Rc::new(()))));
        println!("{what}: {} bytes, peak {} MiB: {}", file.len(), peak / MIB, outcome.unwrap_err());
        assert!(peak < 64 * MIB + 8 * file.len(), "{what}: {} bytes of file, {peak} bytes of memory", file.len());
    }
}

/// Random forged offsets, lengths and shapes, and damaged tables: no panic, no INTERNAL, rows as in the whole.
#[test]
fn forged_numbers_cause_no_panic() {
    let _alone = alone();
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let elements = 3 * MIB;
    let mut stream = Vec::new();
    let mut entries = Vec::new();
    for at in 0..3u8 {
        let frame = frame(&[at; 100], at, 7, &vec![at + 9; MIB - 7 * BLOCK_BYTES - 100]);
        entries.extend((frame.len() as u32).to_le_bytes());
        entries.extend((MIB as u32).to_le_bytes());
        stream.extend(frame);
    }
    stream.extend(0x184d_2a5e_u32.to_le_bytes());
    stream.extend((entries.len() as u32 + 9).to_le_bytes());
    stream.extend(&entries);
    stream.extend([3, 0, 0, 0, 0]);
    stream.extend(0x8f92_eab1_u32.to_le_bytes());
    let whole = split("f16", None, elements, &[stream.clone(), stream.clone()]);
    let (mut opened, mut loaded, mut differ, mut internal) = (0, 0, Vec::new(), Vec::new());
    let numbers: Vec<usize> = (0..whole.len() - 9).filter(|&at| whole[at] == 0x1b && at > 2 * stream.len()).collect();
    assert!(numbers.len() > 6);
    let edges =
        [0, 1, 2, 8, 63, 64, 4096, 1 << 20, 1 << 32, 1 << 63, (1 << 63) - 1, u64::MAX, u64::MAX - 1, u64::MAX - 64];
    for round in 0..250 {
        let mut file = whole.clone();
        match round % 3 {
            0 => {
                for _ in 0..=random(2) {
                    let at = numbers[random(numbers.len() as u64) as usize] + 1;
                    let old = u64::from_be_bytes(file[at..at + 8].try_into().unwrap());
                    let new = match random(3) {
                        0 => edges[random(edges.len() as u64) as usize],
                        1 => old.wrapping_add(random(200)).wrapping_sub(100),
                        _ => old.wrapping_mul(random(5)),
                    };
                    file[at..at + 8].copy_from_slice(&new.to_be_bytes());
                }
            }
            1 => {
                let table = 64 + stream.len() * (1 + random(2) as usize) - 41;
                let at = table.min(file.len() - 42) + random(41) as usize;
                file[at] ^= 1 << random(8);
            }
            _ => {
                let at = 56 + random(2 * stream.len() as u64) as usize;
                file[at] ^= 1 << random(8);
            }
        }
        let outcome = std::panic::catch_unwind(|| {
            let loader = open(MemorySource::new(vec![("m.zt".to_owned(), file.as_slice().into())]).unwrap())?;
            block_on(async {
                let rows = loader
                    .load_index()
                    .await?
                    .to_vec()
                    .first()
                    .map_or(0, |tensor| tensor.shape.first().copied().unwrap_or(0));
                let wanted = rows / 2..(rows / 2 + 70_000).min(rows);
                let request = TensorRequest::default().with_rows(Some(wanted.clone()));
                let part =
                    if round % 2 == 0 { Some(loader.load_tensor("t", request, Rc::new(())).await) } else { None };
                let whole = loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await;
                Ok::<_, weightstream::Error>((wanted, part, whole))
            })
        });
        match outcome {
            Err(_) => panic!("round {round} panicked"),
            Ok(Err(error)) if error.kind == weightstream::ErrorKind::Internal => {
                internal.push(format!("{round}: {error}"))
            }
            Ok(Err(_)) => {}
            Ok(Ok((wanted, part, whole))) => {
                opened += 1;
                for error in part.iter().filter_map(|part| part.as_ref().err()).chain(whole.as_ref().err()) {
                    if error.kind == weightstream::ErrorKind::Internal {
                        internal.push(format!("{round}: {error}"));
                    }
                }
                if let (Some(Ok(part)), Ok(whole)) = (part, &whole) {
                    loaded += 1;
                    let range = 2 * wanted.start as usize..2 * wanted.end as usize;
                    if part.components[0].buffer != whole.components[0].buffer[range] {
                        differ.push(round);
                    }
                }
            }
        }
    }
    println!("{opened} opened, {loaded} loaded, {differ:?} differ, {internal:#?}");
    assert!(internal.is_empty() && differ.is_empty());
}
