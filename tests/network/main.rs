//! What the loader promises over networks that break, stall and lie: each trap that other loaders fell into is a test.
#![cfg(all(feature = "http", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::single_range_in_vec_init, reason = "a list of the one range that was asked for")]

mod adaptive;
mod answers;
mod breaking;
#[allow(dead_code, reason = "shared with the tests of what is read and written")]
#[path = "../native/bytes.rs"]
mod bytes;
mod changing;
mod command;
#[path = "../corpus/mod.rs"]
mod corpus;
mod fixtures;
mod prefetching;
mod retrying;
mod secrets;
#[allow(dead_code, reason = "shared with the tests of memory")]
mod server;
mod whole;

use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::Result;
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::retry::Policy;
use weightstream::source::http::HttpSource;

type HttpLoader = Rc<Loader<HttpSource>>;

/// The tensors of [`FILE`]. The first takes what is read together with the head, so that nothing of the others is
/// known once the file is open.
static TENSORS: LazyLock<[(&str, Vec<u8>); 4]> = LazyLock::new(|| {
    let noise = |name, length| (name, bytes::noise(length as u64, length));
    [noise("first", 100_000), noise("second", 300_000), noise("third", 2_000_000), noise("fourth", 150_000)]
});

/// A SafeTensors file: it has no checksum, so that nothing but the loader's care keeps wrong bytes out.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let shapes: Vec<_> = TENSORS.iter().map(|(_, data)| [data.len() as u64]).collect();
    let tensors: Vec<_> =
        TENSORS.iter().zip(&shapes).map(|((name, data), shape)| (*name, "U8", &shape[..], data.clone())).collect();
    bytes::safetensors(None, &tensors)
});

/// Where a tensor lies in [`FILE`].
fn place_of(name: &str) -> std::ops::Range<usize> {
    let at = TENSORS.iter().position(|(known, _)| *known == name).unwrap();
    let behind: usize = TENSORS[at + 1..].iter().map(|(_, data)| data.len()).sum();
    let end = FILE.len() - behind;
    end - TENSORS[at].1.len()..end
}

/// Small waits, so that tests are fast.
fn options() -> Options {
    let retry = Policy { base_delay_ms: 1, max_delay_ms: 20, stall_ms: 150, ..Policy::default() };
    Options { retry, ..Options::default() }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn open(url: &str) -> Result<HttpLoader> {
    Loader::open(HttpSource::new(url, &[])?, options()).await.map(Rc::new)
}

async fn load(loader: &HttpLoader, name: &str) -> Result<Vec<u8>> {
    let loaded = loader.load_tensor(name, TensorRequest::default(), Rc::new(())).await?;
    Ok(loaded.components.into_iter().next().unwrap().buffer)
}

/// Loads the tensor and compares every byte.
#[track_caller]
fn assert_loads(loaded: Result<Vec<u8>>, name: &str) {
    let (_, expected) = TENSORS.iter().find(|(known, _)| *known == name).unwrap();
    assert!(loaded.unwrap() == *expected, "{name} has other bytes");
}
