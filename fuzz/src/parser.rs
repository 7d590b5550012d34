//! Fuzzes parsers: they must not panic, request bytes twice, or return ranges outside of the file.

use std::collections::HashSet;
use weightstream::internals::format;
use weightstream::internals::format::{Format, formats};
use weightstream::internals::index::{Index, Parsed};
use weightstream::internals::native::Reader;
use weightstream::internals::window::{Stop, Window};

/// The maximum number of requests of a parser. No file of a fuzzer's size needs more.
const MAX_REQUESTS: usize = 10_000;

/// Parses `file` as this format, or detects the format: first through a window that grows on request, then as a whole.
pub fn parse(format: Option<&Format>, file: &[u8]) {
    let parsed = run_parser(file, |window| match format {
        Some(format) => format.parse(window),
        None => format::parse(window),
    });
    match &parsed {
        Ok(Parsed::File(index) | Parsed::Part(index, _)) => check(index, file.len() as u64),
        Ok(Parsed::WithData(index, data)) => {
            check(index, file.len() as u64);
            assert!(data.iter().flat_map(|data| &data.parts).all(|part| stays_in_folder(&part.path)));
        }
        Ok(Parsed::Packed(component)) => assert!(component.range.end <= file.len() as u64),
        Ok(Parsed::Manifest(manifest)) => assert!(manifest.parts.iter().all(|part| stays_in_folder(&part.path))),
        Err(_) => {}
    }
    let checksums = run_parser(file, |window| match format {
        Some(format) => format.stretch_checksums(window),
        None => format::checksums(window),
    });
    if let Ok(checksums) = checksums {
        assert!(checksums.iter().all(|checksum| checksum.over.start <= checksum.over.end));
    }
    let _ = run_parser(file, |window| match format {
        Some(format) => format.check_tail(window),
        None => format::check_tail(window),
    });
    // Checks all bounds, blocks and checksums.
    if let Ok(reader) = Reader::from_bytes(vec![("m".to_owned(), file.to_vec())]) {
        let _ = reader.verify(&());
    }
}

/// Whether a path stays below its folder. Names may start with a dot.
fn stays_in_folder(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|segment| segment != "..")
}

/// Runs a parser and provides the bytes that it requests. Checks that it requests only missing bytes of the file.
fn run_parser<T>(file: &[u8], read: impl Fn(&Window) -> Result<T, Stop>) -> Result<T, weightstream::Error> {
    let mut window = Window::new(Some(file.len() as u64));
    for _ in 0..MAX_REQUESTS {
        match read(&window) {
            Ok(read) => return Ok(read),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Deferred(_)) => panic!("natively, no code is deferred"),
            Err(Stop::Need(range)) => {
                assert!(window.get(range.clone()).is_err(), "the parser requests {range:?}, which it has");
                let end = range.end.min(file.len() as u64);
                assert!(range.start < end, "the parser requests {range:?} of {} bytes", file.len());
                window.insert(range.start, &file[range.start as usize..end as usize]);
            }
        }
    }
    panic!("the parser made {MAX_REQUESTS} requests");
}

fn check(index: &Index, length: u64) {
    let mut names = HashSet::new();
    for tensor in index.tensors.iter() {
        assert!(names.insert(tensor.name.clone()), "{} occurs twice", tensor.name);
        for component in &tensor.components {
            let range = &component.range;
            assert!(range.start <= range.end && range.end <= length, "{} has the range {range:?}", tensor.name);
        }
    }
    assert_eq!(formats().iter().filter(|format| format.name == index.format).count(), 1);
}
