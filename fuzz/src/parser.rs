//! Parsers: nothing panics, nothing is asked for twice, nothing lies outside of the file.

use std::collections::HashSet;
use weightstream::format::{Format, formats};
use weightstream::index::{Index, Parsed};
use weightstream::internals::format;
use weightstream::internals::window::{Stop, Window};
use weightstream::native::Reader;

/// No file of a fuzzer's size needs more answers.
const MAX_ANSWERS: usize = 10_000;

/// Reads `file` as a file of this format, or of the format that its first bytes belong to: through a window that grows
/// as it asks, then whole.
pub fn parse(format: Option<&Format>, file: &[u8]) {
    let parsed = answered(file, |window| match format {
        Some(format) => format.parse(window),
        None => format::parse(window),
    });
    match &parsed {
        Ok(Parsed::File(index) | Parsed::Part(index, _)) => check(index, file.len() as u64),
        Ok(Parsed::Packed(component)) => assert!(component.range.end <= file.len() as u64),
        Ok(Parsed::Manifest(manifest)) => assert!(manifest.parts.iter().all(|part| stays_in_folder(&part.path))),
        Err(_) => {}
    }
    let checksums = answered(file, |window| match format {
        Some(format) => format.stretch_checksums(window),
        None => format::checksums(window),
    });
    if let Ok(checksums) = checksums {
        assert!(checksums.iter().all(|checksum| checksum.over.start <= checksum.over.end));
    }
    let _ = answered(file, |window| match format {
        Some(format) => format.check_tail(window),
        None => format::check_tail(window),
    });
    // Over memory as over a map: every bound, every block, every checksum.
    if let Ok(reader) = Reader::from_bytes(vec![("m".to_owned(), file.to_vec())]) {
        let _ = reader.verify(&());
    }
}

/// Whether a path leads to a file below its folder. A name may begin with a dot.
fn stays_in_folder(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|segment| segment != "..")
}

/// Gives the parser what it asks for until it is content, and checks that it asks for what it has not.
fn answered<T>(file: &[u8], read: impl Fn(&Window) -> Result<T, Stop>) -> Result<T, weightstream::Error> {
    let mut window = Window::new(Some(file.len() as u64));
    for _ in 0..MAX_ANSWERS {
        match read(&window) {
            Ok(read) => return Ok(read),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Need(range)) => {
                assert!(window.get(range.clone()).is_err(), "it asks for {range:?}, which it has");
                let end = range.end.min(file.len() as u64);
                assert!(range.start < end, "it asks for {range:?} of {} bytes", file.len());
                window.insert(range.start, &file[range.start as usize..end as usize]);
            }
        }
    }
    panic!("it asked {MAX_ANSWERS} times");
}

fn check(index: &Index, length: u64) {
    let mut names = HashSet::new();
    for tensor in &index.tensors {
        assert!(names.insert(&tensor.name), "{} occurs twice", tensor.name);
        for component in &tensor.components {
            let range = &component.range;
            assert!(range.start <= range.end && range.end <= length, "{} lies at {range:?}", tensor.name);
        }
    }
    assert_eq!(formats().iter().filter(|format| format.name == index.format).count(), 1);
}
