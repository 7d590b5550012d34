//! The index does not depend on the chunks in which the bytes of a file arrive.

use crate::corpus;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use weightstream::Error;
use weightstream::internals::format;
use weightstream::internals::index::Parsed;
use weightstream::internals::window::{Stop, Window};

/// The maximum number of times that the parser of any fixture may stop. The limit ends the test if a parser stops
/// without requesting new bytes.
const MAX_STOPS: usize = 1000;

#[test]
fn index_is_independent_of_the_window_growth() {
    let fixtures = corpus::fixtures();
    // The ranges that are inserted in addition to the requested bytes: from none to most of the file.
    let growth = proptest::collection::vec((any::<Index>(), 0usize..3000), 0..6);
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let strategy = (any::<Index>(), any::<bool>(), growth);
    let outcome = TestRunner::new(config).run(&strategy, |(fixture, length_known, growth)| {
        let fixture = fixture.get(&fixtures);
        let file = fixture.bytes();
        let whole = format::parse(&Window::whole(file));
        let grown = parse_growing(file, length_known, growth);
        match (whole, grown) {
            (Ok(whole), Ok(grown)) => prop_assert_eq!(whole, grown, "{}", fixture.path),
            (Err(Stop::Failed(whole)), Err(grown)) => prop_assert_eq!(whole.kind, grown.kind, "{}", fixture.path),
            (whole, grown) => prop_assert!(false, "{}: {whole:?} {grown:?}", fixture.path),
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// Parses with a window that gets the requested bytes, and one additional range each time.
fn parse_growing(file: &[u8], length_known: bool, growth: Vec<(Index, usize)>) -> Result<Parsed, Error> {
    let length = file.len() as u64;
    let mut window = Window::new(length_known.then_some(length));
    let mut growth = growth.into_iter();
    for _ in 0..MAX_STOPS {
        let needed = match format::parse(&window) {
            Ok(parsed) => return Ok(parsed),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Deferred(_)) => panic!("natively, no code is deferred"),
            Err(Stop::Need(needed)) => needed,
        };
        assert!(!window.missing(&needed).is_empty(), "the parser requested {needed:?}, which the window already has");
        window.insert(needed.start, &file[needed.start as usize..needed.end.min(length) as usize]);
        window.set_file_length(length); // the first response contains it
        if let Some((start, count)) = growth.next() {
            let start = start.index(file.len());
            window.insert(start as u64, &file[start..file.len().min(start + count)]);
        }
    }
    panic!("the parser stopped {MAX_STOPS} times");
}
