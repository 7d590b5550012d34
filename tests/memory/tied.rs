//! Tensors that share their bytes are copied one by one: a file may name the same bytes any number of times.

use super::bytes::{Apr, Entry, noise};
use super::{MIB, alone, peak_of};
use futures::executor::block_on;
use futures::stream::TryStreamExt;
use std::pin::pin;
use std::rc::Rc;
use weightstream::internals::loader::{Loader, Options};
use weightstream::internals::source::memory::MemorySource;

const TENSORS: usize = 300;

#[test]
fn tied_tensors_take_the_memory_of_two() {
    let _alone = alone();
    let first = Entry::raw("t0", 7, &[MIB as u64], noise(1, MIB));
    let tied = |at: usize| Entry {
        name: format!("t{at}"),
        stored: Vec::new(),
        stated_offset: Some(0),
        stated_size: Some(MIB as u64),
        ..first.clone()
    };
    let entries = std::iter::once(first.clone()).chain((1..TENSORS).map(tied)).collect();
    let file: Rc<[u8]> = Apr::new(entries).build().into();
    let (names, peak) = peak_of(|| {
        block_on(async {
            let source = MemorySource::new(vec![("m.apr".to_owned(), file)]).unwrap();
            let loader = Rc::new(Loader::open(source, Options::default()).await.unwrap());
            let mut tensors = pin!(loader.tensors(None, Rc::new(())).await.unwrap());
            let mut names = Vec::new();
            while let Some(loaded) = tensors.try_next().await.unwrap() {
                assert!(loaded.components[0].buffer == first.stored, "{}", loaded.tensor.name);
                names.push(loaded.tensor.name.clone());
            }
            names
        })
    });
    assert_eq!(names, (0..TENSORS).map(|at| format!("t{at}")).collect::<Vec<_>>());
    assert!(peak < 4 * MIB, "{peak} bytes");
}
