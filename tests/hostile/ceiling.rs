//! The limits of memory and time for every generated file, with the loader and with the native reader.

use super::{load, open, peak_of};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weightstream::internals::native::Reader;
use weightstream::internals::source::memory::MemorySource;
use weightstream::{Error, ErrorKind, Result};

const MIB: usize = 1 << 20;

/// The memory limit: 64 MiB plus 8 bytes for each byte of the file.
fn max_bytes(length: usize) -> usize {
    64 * MIB + 8 * length
}

/// The target is 2 seconds. Test builds take several times as long, and other processes may use the machine.
const MAX_TIME: Duration = Duration::from_secs(120);

/// Reads a model that has `file` as its first file. Returns the results of the loader and of the native reader.
#[track_caller]
pub(crate) fn read(what: &str, file: Vec<u8>) -> (Result<()>, Result<()>) {
    let length = file.len();
    let shared: Rc<[u8]> = file.as_slice().into();
    let source = MemorySource::new(vec![(what.to_owned(), shared)]).unwrap();
    let streamed = measure(what, "the loader", length, || {
        let loader = open(source)?;
        load(&loader)
    });
    let mapped = measure(what, "the native reader", length, || {
        Reader::from_bytes(vec![(what.to_owned(), file)])?.verify(&()).map(drop)
    });
    assert_eq!(streamed.is_ok(), mapped.is_ok(), "{what}: {streamed:?} {mapped:?}");
    for error in [&streamed, &mapped].into_iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_ne!(error.kind, ErrorKind::Internal, "{what}: {error}");
        assert!(error.to_string().len() < 4000, "{what}: a message of {} bytes", error.to_string().len());
    }
    (streamed, mapped)
}

/// Asserts that the loader and the native reader accept a model of realistic size. The memory is not limited.
#[track_caller]
pub(crate) fn assert_accepted(what: &str, file: Vec<u8>) {
    let source = MemorySource::new(vec![(what.to_owned(), file.as_slice().into())]).unwrap();
    let (streamed, peak) = peak_of(|| load(&open(source)?));
    println!("{what} ({} bytes): the loader used {} MiB", file.len(), peak / MIB);
    assert_eq!(streamed, Ok(()), "{what}");
    assert_eq!(Reader::from_bytes(vec![(what.to_owned(), file)]).map(drop), Ok(()), "{what}");
}

/// Like [`read`], but asserts that both reject the file with an error of this kind. Returns the error of the loader.
#[track_caller]
pub(crate) fn assert_rejected(what: &str, kind: ErrorKind, file: Vec<u8>) -> Error {
    let (streamed, mapped) = read(what, file);
    for outcome in [&streamed, &mapped] {
        assert_eq!(outcome.as_ref().err().map(|error| error.kind), Some(kind), "{what}: {outcome:?}");
    }
    let error = streamed.unwrap_err();
    assert!(error.context.url.as_deref() == Some(what), "{what}: {error} does not name the file");
    error
}

#[track_caller]
fn measure(what: &str, reader: &str, length: usize, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    let (outcome, peak) = peak_of(work);
    let time = start.elapsed();
    let code = outcome.as_ref().err().map_or("ok", Error::code);
    println!("{what} ({length} bytes): {reader} returned {code}, used {} MiB and {} ms", peak / MIB, time.as_millis());
    assert!(peak <= max_bytes(length), "{what}: {reader} used {peak} bytes for a file of {length} bytes");
    assert!(time < MAX_TIME, "{what}: {reader} took {time:?}");
    outcome
}
