//! A model of 12 GB at a URL, which a server makes up while it sends it.

use super::server::{Reply, Server};
use super::{MIB, alone, peak_of};
use std::ops::Range;
use std::rc::Rc;
use std::sync::LazyLock;
use weightstream::loader::{Loader, Options, TensorRequest};
use weightstream::source::http::HttpSource;

const TENSOR_BYTES: usize = 64 * MIB;
const TENSORS: usize = 190;

static HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let tensor = |at: usize| {
        let (start, end) = (at * TENSOR_BYTES, (at + 1) * TENSOR_BYTES);
        format!(r#""{at}":{{"dtype":"U8","shape":[64,{MIB}],"data_offsets":[{start},{end}]}}"#)
    };
    let header = format!("{{{}}}", (0..TENSORS).map(tensor).collect::<Vec<_>>().join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
});

/// The byte of the file at `position`, behind its head.
fn byte_at(position: usize) -> u8 {
    (position / 4093) as u8 ^ (position >> 26) as u8
}

fn make(range: Range<usize>) -> Vec<u8> {
    range.map(|position| HEAD.get(position).copied().unwrap_or_else(|| byte_at(position))).collect()
}

fn server() -> Server {
    let length = HEAD.len() + TENSORS * TENSOR_BYTES;
    assert!(length > 12_000_000_000);
    Server::new(move |request| {
        let range = request.range.clone().unwrap();
        Reply::made(range.start..range.end.min(length), length, make)
    })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn a_tensor_of_a_model_of_12_gb_takes_its_own_size_and_little_more() {
    let _alone = alone();
    let server = server();
    let url = server.url("/m.safetensors");
    let (loaded, peak) = peak_of(|| {
        run(async {
            let source = HttpSource::new(&url, &[]).unwrap();
            let loader = Rc::new(Loader::open(source, Options::default()).await.unwrap());
            loader.load_tensor("150", TensorRequest::default(), Rc::new(())).await.unwrap()
        })
    });
    let bytes = &loaded.components[0].buffer;
    assert_eq!(bytes.len(), TENSOR_BYTES);
    let start = HEAD.len() + 150 * TENSOR_BYTES;
    assert!((0..TENSOR_BYTES).step_by(997).all(|at| bytes[at] == byte_at(start + at)));
    assert!(peak < TENSOR_BYTES + 4 * MIB, "{peak} bytes");
    assert!(server.sent() < TENSOR_BYTES + MIB, "{} bytes were sent", server.sent());
}
