//! Tests of the parser. No tool writes the layout of the specification, so the tests build its files field by field.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod sequential;
mod specified;

use super::layout::{check_tail, parse};
use crate::error::{ErrorKind, Result};
use crate::index::{Index, Parsed};
use crate::loader::{Loader, Options};
use crate::source::memory::MemorySource;
use crate::window::{Stop, Window};
use futures::executor::block_on;
use proptest::prelude::*;
use std::rc::Rc;

fn parsed(file: &[u8]) -> Result<Index> {
    match parse(&Window::whole(file)) {
        Ok(Parsed::File(index)) => Ok(index),
        Ok(other) => panic!("{other:?}"),
        Err(Stop::Failed(error)) => Err(error),
        Err(stop) => panic!("a whole file needs more: {stop:?}"),
    }
}

fn loader(file: &[u8]) -> Rc<Loader<MemorySource>> {
    let source = MemorySource::new(vec![("m.weights".to_owned(), file.into())]).unwrap();
    Rc::new(block_on(Loader::open(source, Options::default())).unwrap())
}

proptest! {
    /// The result does not depend on the order in which bytes arrive, even for damaged files.
    #[test]
    fn the_index_does_not_depend_on_the_growth_of_the_window(
        specified: bool, flips in proptest::collection::vec((0usize..700, 1u8..), 0..3), extra in 0u64..200,
    ) {
        let mut file = match specified {
            true => specified::File::new().bytes(),
            false => sequential::sequential_file(&[("first", &[2]), ("second", &[2, 3])], &["a", "b"]),
        };
        for (at, mask) in flips {
            let at = at % file.len();
            file[at] ^= mask;
        }
        if specified {
            let checksum = specified::crc32(&file[..56]);
            file[56..60].copy_from_slice(&checksum.to_le_bytes());
        }
        let whole = parsed(&file).map_err(|error| error.kind);
        let mut window = Window::new(None);
        let grown = loop {
            match parse(&window) {
                Ok(Parsed::File(index)) => break Ok(index),
                Err(Stop::Failed(error)) => break Err(error.kind),
                Err(Stop::Deferred(_)) => panic!("natively, no code is deferred"),
                Err(Stop::Need(range)) => {
                    prop_assert!(!window.missing(&range).is_empty());
                    let end = (range.end.saturating_add(extra) as usize).min(file.len());
                    window.insert(range.start, file.get(range.start as usize..end).unwrap_or_default());
                    window.set_file_length(file.len() as u64);
                }
                Ok(other) => panic!("{other:?}"),
            }
        };
        prop_assert_eq!(whole, grown);
    }
}
