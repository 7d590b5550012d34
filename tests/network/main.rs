//! What the loader promises over networks that break, stall and lie: each trap that other loaders fell into is a test.
#![cfg(all(feature = "http", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::single_range_in_vec_init, reason = "a list of the one range that was asked for")]

mod adaptive;
mod answers;
mod breaking;
#[path = "../corpus/mod.rs"]
mod corpus;
mod heads;
mod leaving;
mod pinned;
mod prefetching;
mod retrying;
mod secrets;
mod springing;
mod whole;

/// Here each trap is a test.
macro_rules! traps {
    ($($name:ident: $trap:expr),* $(,)?) => { $(
        #[test]
        fn $name() {
            crate::springing::spring($trap);
        }
    )* };
}

#[path = "../traps/mod.rs"]
mod traps;

use std::rc::Rc;
use traps::model::{FILE, TENSORS, place_of};
use traps::{bytes, server};
use weightstream::Result;
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::retry::Policy;
use weightstream::source::http::HttpSource;

type HttpLoader = Rc<Loader<HttpSource>>;

/// Small waits, so that tests are fast; but a busy machine is no stalled connection.
fn options() -> Options {
    let retry = Policy::default().with_base_delay_ms(1).with_max_delay_ms(20).with_stall_ms(5_000);
    Options::default().with_retry(retry)
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
