//! Calls that read the whole model at the same time: each checks the checksums of the files for itself.

use super::bytes::{Apr, Entry, noise};
use futures::executor::block_on;
use futures::future::{join, join3};
use futures::stream::{StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::rc::Rc;
use weightstream::error::{Error, ErrorKind, Result};
use weightstream::index::Digest;
use weightstream::loader::{Digests, Loader, Options};
use weightstream::source::memory::MemorySource;

const TENSORS: usize = 6;

fn apr() -> Vec<u8> {
    let entry = |number: usize| {
        let bytes = noise(number as u64, 400_000 + number);
        Entry::raw(&format!("tensor {number}"), 7, &[bytes.len() as u64], bytes)
    };
    Apr::new((0..TENSORS).map(entry).collect()).build()
}

/// One bit of a tensor's bytes is wrong, which only the checksum of the file tells.
fn damaged() -> Vec<u8> {
    let mut file = apr();
    let middle = file.len() / 2;
    file[middle] ^= 1;
    file
}

async fn open(file: Vec<u8>, digests: Digests) -> Rc<Loader<MemorySource>> {
    let source = MemorySource::new(vec![("m.apr".to_owned(), file.into())]).unwrap();
    Rc::new(Loader::open(source, Options::default().with_digests(digests)).await.unwrap())
}

/// Loads everything, and gives the number of tensors, or the error that ended the load.
async fn all(loader: &Rc<Loader<MemorySource>>) -> Result<usize> {
    let tensors: Vec<_> = loader.tensors(None, Rc::new(())).await?.try_collect().await?;
    Ok(tensors.len())
}

async fn verify(loader: &Rc<Loader<MemorySource>>) -> Result<Option<&'static str>> {
    loader.verify(Rc::new(())).await
}

fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind
}

#[test]
fn every_call_over_a_damaged_file_finds_the_damage() {
    block_on(async {
        let loader = open(damaged(), Digests::default()).await;
        let (first, second, verified) = join3(all(&loader), all(&loader), verify(&loader)).await;
        assert_eq!([kind(first), kind(second), kind(verified)], [ErrorKind::Checksum; 3]);
        assert_eq!(loader.verified_by(), None);
    });
}

#[test]
fn every_call_over_a_sound_file_succeeds() {
    block_on(async {
        let loader = open(apr(), Digests::default()).await;
        let outcomes = join3(all(&loader), verify(&loader), verify(&loader)).await;
        assert_eq!(outcomes, (Ok(TENSORS), Ok(Some("crc32")), Ok(Some("crc32"))));
    });
}

#[test]
fn a_pinned_digest_of_a_file_is_checked_by_every_call() {
    block_on(async {
        let pinned = HashMap::from([("m.apr".to_owned(), Digest::Sha256([0; 32]))]);
        let loader = open(apr(), Digests::default().with_files(pinned)).await;
        let (loaded, verified) = join(all(&loader), verify(&loader)).await;
        assert_eq!([kind(loaded), kind(verified)], [ErrorKind::Checksum; 2]);
    });
}

#[test]
fn a_call_that_is_paused_or_dropped_changes_nothing_for_the_others() {
    block_on(async {
        for (file, expected) in [(apr(), None), (damaged(), Some(ErrorKind::Checksum))] {
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
