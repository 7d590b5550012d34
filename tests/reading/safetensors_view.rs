//! A model of any format presented as one SafeTensors file.

use crate::corpus;
use futures::executor::block_on;
use std::fs;
use std::ops::Range;
use std::rc::Rc;
use weightstream::internals::format;
use weightstream::internals::loader::{Loader, Options, SafeTensorsView};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;
use weightstream::internals::write::{self, Compression, ConvertOptions};
use weightstream::{ErrorKind, Result};

type View = Rc<SafeTensorsView<MemorySource>>;

#[test]
fn every_fixture_is_the_file_that_convert_writes_without_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.safetensors");
    let (mut compared, mut refused) = (0, 0);
    for fixture in corpus::fixtures() {
        let files = fixture.files.iter().map(|(name, bytes)| (name.clone(), bytes.to_vec())).collect();
        let Ok(reader) = Reader::from_bytes(files) else { continue };
        let converted = write::convert(&reader, &out, &ConvertOptions::default().omit_metadata(true), &());
        let loader = block_on(Loader::open(fixture.source(), Options::default())).unwrap();
        match (block_on(SafeTensorsView::new(Rc::new(loader))), converted) {
            (Ok(view), Ok(_)) => {
                let (view, expected) = (Rc::new(view), fs::read(&out).unwrap());
                assert_eq!(view.byte_length(), expected.len() as u64, "{}", fixture.path);
                let in_pieces = read_in_pieces(&view, 0..u64::MAX, 1000).unwrap();
                assert!(in_pieces == expected, "{} differs", fixture.path);
                compare_parts(&view, &expected);
                compared += 1;
            }
            (Err(error), Err(converting)) => {
                assert_eq!(error.kind, ErrorKind::Unsupported, "{}: {error}", fixture.path);
                assert!(converting.what.starts_with(&error.what), "{}: {error}, but {converting}", fixture.path);
                refused += 1;
            }
            (view, converted) => panic!("{}: {view:?}, but {converted:?}", fixture.path),
        }
    }
    println!("{compared} compared, {refused} refused by both");
    assert!(compared > 60 && refused > 3, "{compared} compared, {refused} refused");
}

#[test]
fn parts_of_a_model_larger_than_the_memory_limit_are_read() {
    for compression in [Compression::None, Compression::Lz4] {
        let (_, apr) = model(compression);
        for max_memory_bytes in [0, 100_000, 1 << 20, 1 << 30] {
            let options = Options::default().with_max_memory_bytes(max_memory_bytes);
            let view = view_of(apr.clone(), options);
            let expected = read_in_pieces(&view, 0..u64::MAX, 1 << 16).unwrap();
            compare_parts(&view, &expected);
        }
    }
}

#[test]
fn successive_slices_of_a_compressed_tensor_decode_it_once() {
    let (_, apr) = model(Compression::Lz4);
    for max_memory_bytes in [0, 1 << 30] {
        let loader = open(apr.clone(), Options::default().with_max_memory_bytes(max_memory_bytes));
        let view = Rc::new(block_on(SafeTensorsView::new(Rc::clone(&loader))).unwrap());
        let before = loader.stats().bytes_received();
        for start in (0..view.byte_length()).step_by(5000) {
            read_in_pieces(&view, start..start + 5000, 1 << 20).unwrap();
        }
        let received = loader.stats().bytes_received() - before;
        assert!(received <= apr.len() as u64 * 11 / 10, "{received} of {} bytes with {max_memory_bytes}", apr.len());
    }
}

#[test]
fn small_tensors_are_read_with_their_neighbours() {
    const COUNT: u64 = 300;
    let names: Vec<_> = (0..COUNT).map(|number| format!("bias{number}")).collect();
    let (file, header_length) = small_tensors(&names);
    let loader = open(file.clone(), Options::default());
    let view = Rc::new(block_on(SafeTensorsView::new(Rc::clone(&loader))).unwrap());
    let before = (loader.stats().requests(), loader.stats().bytes_received());
    for number in 0..COUNT {
        let start = header_length + number * 37 % COUNT * SMALL_BYTES; // in an order that is not that of the file
        let expected = &file[start as usize..(start + SMALL_BYTES) as usize];
        assert_eq!(read_in_pieces(&view, start..start + SMALL_BYTES, 1000).unwrap(), expected);
    }
    let requests = loader.stats().requests() - before.0;
    let received = loader.stats().bytes_received() - before.1;
    assert!(requests <= 2, "{requests} requests");
    assert!(received <= COUNT * SMALL_BYTES, "{received} bytes: some were requested twice");
}

#[test]
fn a_damaged_small_tensor_does_not_affect_its_neighbours() {
    let names: Vec<_> = (0..20).map(|number| format!("bias{number}")).collect();
    let (file, _) = small_tensors(&names);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    let reader = Reader::from_bytes(vec![("m.safetensors".to_owned(), file)]).unwrap();
    write::convert(&reader, &path, &ConvertOptions::default().allow_loss(true), &()).unwrap();
    let mut zt = fs::read(&path).unwrap();
    let sound = view_of(zt.clone(), Options::default());
    let whole = read_in_pieces(&sound, 0..u64::MAX, 1 << 16).unwrap();
    let converted = Reader::open(&path).unwrap();
    zt[converted.tensors()[7].first_byte() as usize + 5] ^= 1;

    let view = view_of(zt, Options::default());
    let header_length = whole.len() as u64 - 20 * SMALL_BYTES;
    for number in 0..20 {
        let start = header_length + number * SMALL_BYTES;
        let read = read_in_pieces(&view, start..start + SMALL_BYTES, 1000);
        match number {
            7 => assert_eq!(read.unwrap_err().kind, ErrorKind::Checksum),
            _ => assert!(read.unwrap() == whole[start as usize..(start + SMALL_BYTES) as usize], "tensor {number}"),
        }
    }
}

// Work that grows with the square of the number of tensors would take minutes here.
#[test]
fn a_hundred_thousand_tensors_take_few_requests_and_linear_work() {
    const COUNT: u64 = 100_000;
    let (file, header_length) = scalars(COUNT);
    for is_streamed in [false, true] {
        let loader = open(file.clone(), Options::default());
        block_on(loader.load_index()).unwrap();
        let before = loader.stats().requests();
        let read = if is_streamed { stream_all(&loader) } else { read_whole_view(&loader)[header_length..].to_vec() };
        assert!(read == file[header_length..], "{is_streamed}");
        assert!(loader.stats().requests() - before <= 2, "{} requests", loader.stats().requests() - before);
    }
    let view = view_of(file.clone(), Options::default());
    for number in (0..COUNT as usize).step_by(200) {
        let start = header_length + number * 37 % COUNT as usize * 4;
        assert_eq!(read_in_pieces(&view, start as u64..start as u64 + 4, 4).unwrap(), file[start..start + 4]);
    }
}

fn read_whole_view(loader: &Rc<Loader<MemorySource>>) -> Vec<u8> {
    let view = Rc::new(block_on(SafeTensorsView::new(Rc::clone(loader))).unwrap());
    read_in_pieces(&view, 0..u64::MAX, 1 << 20).unwrap()
}

fn stream_all(loader: &Rc<Loader<MemorySource>>) -> Vec<u8> {
    block_on(async {
        let mut all = Vec::new();
        let mut reader = loader.read_tensors(None, None).await.unwrap();
        while let Some(begun) = reader.next().await.unwrap() {
            let mut bytes = vec![0; begun.byte_length as usize];
            assert_eq!(reader.fill(&mut bytes, 0..begun.byte_length).await.unwrap(), begun.byte_length);
            all.extend(bytes);
        }
        all
    })
}

/// A SafeTensors file of F32 scalars as weightstream lays it out, and the length of its header.
fn scalars(count: u64) -> (Vec<u8>, usize) {
    let entry = |at: u64| format!(r#""t{at}":{{"dtype":"F32","shape":[],"data_offsets":[{},{}]}}"#, at * 4, at * 4 + 4);
    let mut header = format!("{{{}}}", (0..count).map(entry).collect::<Vec<_>>().join(",")).into_bytes();
    header.resize((header.len() + 8).next_multiple_of(8) - 8, b' ');
    let values = (0..count).flat_map(|at| (at as f32).to_le_bytes());
    let length = (header.len() as u64).to_le_bytes();
    (length.into_iter().chain(header.iter().copied()).chain(values).collect(), 8 + header.len())
}

/// The size of each small tensor.
const SMALL_BYTES: u64 = 1536;

/// A SafeTensors file, and the length of its header.
fn small_tensors(names: &[String]) -> (Vec<u8>, u64) {
    let entry = |(at, name): (usize, &String)| {
        let offsets = [at as u64, at as u64 + 1].map(|at| at * SMALL_BYTES);
        format!(r#""{name}":{{"dtype":"F32","shape":[{}],"data_offsets":{offsets:?}}}"#, SMALL_BYTES / 4)
    };
    let mut header = format!("{{{}}}", names.iter().enumerate().map(entry).collect::<Vec<_>>().join(","));
    // The layout of the view: without spaces, padded to a multiple of 8.
    header.retain(|character| character != ' ');
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    let header_length = 8 + header.len() as u64;
    let values = (0..names.len() as u64 * SMALL_BYTES).map(|at| (at * 31 % 251) as u8);
    (
        ((header.len() as u64).to_le_bytes().into_iter().chain(header.into_bytes())).chain(values).collect(),
        header_length,
    )
}

#[test]
fn damaged_tensors_are_not_returned_completely() {
    let (reader, _) = model(Compression::None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zt");
    write::convert(&reader, &path, &ConvertOptions::default().allow_loss(true), &()).unwrap();
    let mut zt = fs::read(&path).unwrap();
    let tensor = Reader::open(&path).unwrap().tensors()[1].clone();
    assert!(tensor.components[0].digest.is_some(), "the default of the format");
    zt[tensor.first_byte() as usize + 50_000] ^= 1;

    let view = view_of(zt.clone(), Options::default());
    let sound = view_of(fs::read(&path).unwrap(), Options::default());
    let whole = read_in_pieces(&sound, 0..u64::MAX, 1 << 16).unwrap();
    let header_length = u64::from_le_bytes(whole[..8].try_into().unwrap()) + 8;
    let start = header_length + ROWS * COLUMNS * 4;
    let of_tensor = start..start + ROWS * COLUMNS * 4;
    let mut read = Vec::new();
    let mut reader = view.read(of_tensor.clone());
    let error = loop {
        let mut piece = vec![0; 4096];
        match block_on(reader.fill(&mut piece, 0..4096)) {
            Ok(count) => read.extend_from_slice(&piece[..count as usize]),
            Err(error) => break error,
        }
        assert!(reader.remaining() > 0, "all bytes were returned");
    };
    assert_eq!((error.kind, error.context.tensor.as_deref()), (ErrorKind::Checksum, Some(tensor.name.as_str())));
    assert!(read.len() as u64 + 4096 >= of_tensor.end - of_tensor.start, "it ends only at the last piece");

    // A part of a tensor that fits into the memory limit is verified, too.
    let part = of_tensor.start + 10..of_tensor.start + 20;
    assert_eq!(read_in_pieces(&view, part.clone(), 10).unwrap_err().kind, ErrorKind::Checksum);
    let without_memory = view_of(zt, Options::default().with_max_memory_bytes(0));
    assert_eq!(
        read_in_pieces(&without_memory, part.clone(), 10).unwrap(),
        whole[part.start as usize..part.end as usize]
    );
    let before = header_length..of_tensor.start;
    assert_eq!(
        read_in_pieces(&view, before.clone(), 1 << 16).unwrap(),
        whole[before.start as usize..before.end as usize]
    );
}

const ROWS: u64 = 400;
const COLUMNS: u64 = 300;

/// A model of three tensors, and the APR file that `compression` makes of it.
fn model(compression: Compression) -> (Reader, Vec<u8>) {
    let entry = |number: u64| {
        let byte_length = ROWS * COLUMNS * 4;
        let offsets = [number * byte_length, (number + 1) * byte_length];
        format!(r#""t{number}":{{"dtype":"F32","shape":[{ROWS},{COLUMNS}],"data_offsets":{offsets:?}}}"#)
    };
    let header = format!("{{{},{},{}}}", entry(0), entry(1), entry(2));
    let values = (0..3 * ROWS * COLUMNS).flat_map(|at| (at as f32 / 7.0).floor().to_le_bytes());
    let file: Vec<u8> =
        (header.len() as u64).to_le_bytes().into_iter().chain(header.into_bytes()).chain(values).collect();
    let reader = Reader::from_bytes(vec![("m.safetensors".to_owned(), file)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.apr");
    let options = ConvertOptions::default().format(format::formats().iter().find(|format| format.name == "apr"));
    write::convert(&reader, &path, &options.compression(compression), &()).unwrap();
    (reader, fs::read(&path).unwrap())
}

fn open(file: Vec<u8>, options: Options) -> Rc<Loader<MemorySource>> {
    let source = MemorySource::new(vec![("m".to_owned(), file.into())]).unwrap();
    Rc::new(block_on(Loader::open(source, options)).unwrap())
}

fn view_of(file: Vec<u8>, options: Options) -> View {
    Rc::new(block_on(SafeTensorsView::new(open(file, options))).unwrap())
}

fn read_in_pieces(view: &View, range: Range<u64>, piece_length: u64) -> Result<Vec<u8>> {
    let mut reader = view.read(range);
    let mut all = Vec::new();
    while reader.remaining() > 0 {
        let mut piece = vec![0; piece_length as usize];
        let count = block_on(reader.fill(&mut piece, 0..piece_length))?;
        assert!(count > 0, "a read returned nothing before the end");
        all.extend_from_slice(&piece[..count as usize]);
    }
    Ok(all)
}

/// Reads parts of the file in an order that is not that of the file.
fn compare_parts(view: &View, expected: &[u8]) {
    let length = expected.len();
    for number in 0..40 {
        let start = number * 7919 % length;
        let end = (start + number * number * 37 % 50_000 + 1).min(length);
        let part = read_in_pieces(view, start as u64..end as u64, 3000).unwrap();
        assert!(part == expected[start..end], "bytes {start} to {end}");
    }
}

#[test]
fn a_damaged_file_is_not_read_to_its_end() {
    for compression in [Compression::None, Compression::Lz4] {
        let (_, mut apr) = model(compression);
        // The CRC in the footer: no tensor is damaged, and only the comparison of the whole file shows it.
        let at = apr.len() - 16;
        apr[at] ^= 1;
        let view = view_of(apr.clone(), Options::default());
        assert_eq!(read_in_pieces(&view, 0..u64::MAX, 1 << 16).unwrap_err().kind, ErrorKind::Checksum);
        read_in_pieces(&view, 1..u64::MAX, 1 << 16).unwrap(); // a part cannot be compared
        let view = view_of(apr, Options::default().with_verify(false));
        read_in_pieces(&view, 0..u64::MAX, 1 << 16).unwrap();
    }
}
