//! What a hostile file may cost: the ceiling that every generated file is held to, whichever way it is read.

use super::{load, open, peak_of};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weightstream::error::{Error, ErrorKind, Result};
use weightstream::native::Reader;
use weightstream::source::memory::MemorySource;

const MIB: usize = 1 << 20;

/// The promise: 64 MiB, and 8 bytes for each byte of the file.
fn max_bytes(length: usize) -> usize {
    64 * MIB + 8 * length
}

/// The promise is 2 seconds; builds for tests take several times as long, on machines that do other things meanwhile.
const MAX_TIME: Duration = Duration::from_secs(120);

/// Reads a model whose first file this is, in every way there is, and gives what the loader and the native reader said.
#[track_caller]
pub(crate) fn read(what: &str, file: Vec<u8>) -> (Result<()>, Result<()>) {
    let length = file.len();
    let shared: Rc<[u8]> = file.as_slice().into();
    let source = MemorySource::new(vec![(what.to_owned(), shared)]).unwrap();
    let streamed = measured(what, "the loader", length, || {
        let loader = open(source)?;
        load(&loader)
    });
    let mapped = measured(what, "the reader", length, || {
        Reader::from_bytes(vec![(what.to_owned(), file)])?.verify(&()).map(drop)
    });
    assert_eq!(streamed.is_ok(), mapped.is_ok(), "{what}: {streamed:?} {mapped:?}");
    for error in [&streamed, &mapped].into_iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_ne!(error.kind, ErrorKind::Internal, "{what}: {error}");
        assert!(error.to_string().len() < 4000, "{what}: a message of {} bytes", error.to_string().len());
    }
    (streamed, mapped)
}

/// Reads a model as large as real ones are, which must be accepted in both ways, whatever it takes.
#[track_caller]
pub(crate) fn accepted(what: &str, file: Vec<u8>) {
    let source = MemorySource::new(vec![(what.to_owned(), file.as_slice().into())]).unwrap();
    let (streamed, peak) = peak_of(|| load(&open(source)?));
    println!("{what} ({} bytes): the loader took {} MiB", file.len(), peak / MIB);
    assert_eq!(streamed, Ok(()), "{what}");
    assert_eq!(Reader::from_bytes(vec![(what.to_owned(), file)]).map(drop), Ok(()), "{what}");
}

/// As [`read`], for a file that must be refused with this kind of error.
#[track_caller]
pub(crate) fn refused(what: &str, kind: ErrorKind, file: Vec<u8>) -> Error {
    let (streamed, mapped) = read(what, file);
    for outcome in [&streamed, &mapped] {
        assert_eq!(outcome.as_ref().err().map(|error| error.kind), Some(kind), "{what}: {outcome:?}");
    }
    let error = streamed.unwrap_err();
    assert!(error.place.url.as_deref() == Some(what), "{what}: {error} does not name the file");
    error
}

#[track_caller]
fn measured(what: &str, who: &str, length: usize, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    let (outcome, peak) = peak_of(work);
    let time = start.elapsed();
    let said = outcome.as_ref().err().map_or("ok", Error::code);
    println!("{what} ({length} bytes): {who} said {said}, took {} MiB and {} ms", peak / MIB, time.as_millis());
    assert!(peak <= max_bytes(length), "{what}: {who} took {peak} bytes for {length}");
    assert!(time < MAX_TIME, "{what}: {who} took {time:?}");
    outcome
}
