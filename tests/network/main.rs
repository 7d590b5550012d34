//! Tests of the native loader over HTTP, with connections that break or stall and servers that send wrong responses.
#![cfg(all(feature = "http", not(target_arch = "wasm32")))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::single_range_in_vec_init, reason = "a list with one range")]

mod adaptive;
mod byte_streams;
mod cancellation;
mod connections;
#[path = "../corpus/mod.rs"]
mod corpus;
mod credentials;
mod early_parts;
mod headers;
mod hub;
mod mirrors;
mod model;
mod pinned_digests;
mod prefetching;
mod remote_files;
mod responses;
mod retries;
mod rows;
mod signatures;
mod streamed;
mod trap_runner;
mod versions;
mod whole_responses;

/// Defines a test for each trap.
macro_rules! traps {
    ($($name:ident: $trap:expr),* $(,)?) => { $(
        #[test]
        fn $name() {
            crate::trap_runner::run_trap($trap);
        }
    )* };
}

#[path = "../traps/mod.rs"]
mod traps;

use std::rc::Rc;
use traps::model::{FILE, TENSORS, range_of};
use traps::{bytes, server};
use weightstream::Result;
use weightstream::RetryPolicy;
use weightstream::internals::loader::{Loader, Options, TensorRequest};
use weightstream::internals::source::http::HttpSource;

type HttpLoader = Rc<Loader<HttpSource>>;

/// Short delays, so that tests are fast. On a busy machine, a delay must not count as a stall.
fn options() -> Options {
    let retry = RetryPolicy::default().base_delay_ms(1).max_delay_ms(20).stall_ms(5_000);
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
