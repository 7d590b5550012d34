//! Concurrent calls that read the whole model each verify the checksums of the files.

use super::bytes::{Apr, Entry, noise};
use futures::executor::block_on;
use futures::future::{join, join3};
use futures::stream::{StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::rc::Rc;
use weightstream::internals::index::Algorithm;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::{Digests, Loader, Options};
use weightstream::internals::source::memory::MemorySource;
use weightstream::{Error, ErrorKind, Result};

const TENSORS: usize = 6;

fn apr() -> Vec<u8> {
    let entry = |number: usize| {
        let bytes = noise(number as u64, 400_000 + number);
        Entry::raw(&format!("tensor {number}"), 7, &[bytes.len() as u64], bytes)
    };
    Apr::new((0..TENSORS).map(entry).collect()).build()
}

/// A file with a wrong bit in the bytes of a tensor, which only the checksum of the file detects.
fn corrupted() -> Vec<u8> {
    let mut file = apr();
    let middle = file.len() / 2;
    file[middle] ^= 1;
    file
}

async fn open(file: Vec<u8>, digests: Digests) -> Rc<Loader<MemorySource>> {
    let source = MemorySource::new(vec![("m.apr".to_owned(), file.into())]).unwrap();
    Rc::new(Loader::open(source, Options::default().with_digests(digests)).await.unwrap())
}

/// Loads all tensors. Returns the number of tensors, or the error that ended the load.
async fn load_all(loader: &Rc<Loader<MemorySource>>) -> Result<usize> {
    let tensors: Vec<_> = loader.tensors(None, Rc::new(())).await?.try_collect().await?;
    Ok(tensors.len())
}

async fn verify(loader: &Rc<Loader<MemorySource>>) -> Result<Option<Algorithm>> {
    loader.verify(Rc::new(())).await
}

fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind
}

#[test]
fn every_call_detects_a_corrupted_file() {
    block_on(async {
        let loader = open(corrupted(), Digests::default()).await;
        let (first, second, verified) = join3(load_all(&loader), load_all(&loader), verify(&loader)).await;
        assert_eq!([kind(first), kind(second), kind(verified)], [ErrorKind::Checksum; 3]);
        assert_eq!(loader.verified_by(), None);
    });
}

#[test]
fn every_call_succeeds_for_a_valid_file() {
    block_on(async {
        let loader = open(apr(), Digests::default()).await;
        let outcomes = join3(load_all(&loader), verify(&loader), verify(&loader)).await;
        assert_eq!(outcomes, (Ok(TENSORS), Ok(Some(Algorithm::Crc32)), Ok(Some(Algorithm::Crc32))));
    });
}

#[test]
fn every_call_checks_a_pinned_file_digest() {
    block_on(async {
        let pinned = HashMap::from([("m.apr".to_owned(), Digest::Sha256([0; 32]))]);
        let loader = open(apr(), Digests::default().with_files(pinned)).await;
        let (loaded, verified) = join(load_all(&loader), verify(&loader)).await;
        assert_eq!([kind(loaded), kind(verified)], [ErrorKind::Checksum; 2]);
    });
}

#[test]
fn paused_and_dropped_calls_do_not_affect_other_calls() {
    block_on(async {
        for (file, expected) in [(apr(), None), (corrupted(), Some(ErrorKind::Checksum))] {
            let loader = open(file, Digests::default()).await;
            let mut paused = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
            let mut dropped = Box::pin(loader.tensors(None, Rc::new(())).await.unwrap());
            paused.next().await.unwrap().unwrap();
            dropped.next().await.unwrap().unwrap();
            assert_eq!(verify(&loader).await.err().map(|error| error.kind), expected);
            drop(dropped);
            let rest: Result<Vec<_>, Error> = paused.try_collect().await;
            assert_eq!(
                rest.map(|rest| rest.len()).map_err(|error| Some(error.kind)),
                match expected {
                    None => Ok(TENSORS - 1),
                    kind => Err(kind),
                }
            );
        }
    });
}
