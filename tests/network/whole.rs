//! Servers that answer each Range with the whole file.

use super::server::{Server, whole};
use super::{FILE, HttpLoader, TENSORS, assert_loads, load, open, options, run};
use futures::TryStreamExt;
use std::rc::Rc;
use weightstream::loader::{Loader, Options};
use weightstream::source::http::HttpSource;

async fn check_tensors(loader: &HttpLoader, names: &[&str]) {
    let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let tensors = loader.tensors(Some(names.clone()), Rc::new(())).await.unwrap();
    let loaded: Vec<_> = tensors.try_collect().await.unwrap();
    assert_eq!(loaded.len(), names.len());
    for loaded in loaded {
        assert_loads(Ok(loaded.components[0].buffer.clone()), &loaded.tensor.name);
    }
}

#[test]
fn streams_the_whole_body_once_where_ranges_are_ignored() {
    let server = Server::new(|_| whole(&FILE));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        check_tensors(&loader, &["first", "second", "third", "fourth"]).await;
    });
    assert_eq!((server.requests().len(), server.sent()), (1, FILE.len()));
}

#[test]
fn tensors_far_from_each_other_are_read_from_one_body() {
    let server = Server::new(|_| whole(&FILE));
    run(async {
        let options = Options { coalesce_gap_bytes: 0, ..options() };
        let source = HttpSource::new(&server.url("/m"), &[]).unwrap();
        let loader = Rc::new(Loader::open(source, options).await.unwrap());
        check_tensors(&loader, &["fourth", "second"]).await;
    });
    assert_eq!((server.requests().len(), server.sent()), (1, FILE.len()));
}

#[test]
fn what_lies_further_on_is_read_from_the_same_body() {
    let server = Server::new(|_| whole(&FILE));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        for name in ["second", "third", "fourth"] {
            assert_loads(load(&loader, name).await, name);
        }
    });
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn cuts_the_right_slice_out_of_a_whole_body() {
    let server = Server::new(|_| whole(&FILE));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        for (name, _) in TENSORS.iter().rev() {
            assert_loads(load(&loader, name).await, name);
        }
    });
}

#[test]
fn a_whole_body_of_unknown_length_is_read_as_well() {
    let server = Server::new(|_| whole(&FILE).chunked());
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        check_tensors(&loader, &["second", "fourth"]).await;
        assert_loads(load(&loader, "third").await, "third");
    });
}

#[test]
fn a_whole_body_that_breaks_is_asked_for_again() {
    let server = Server::new(|request| match request.number {
        0 => whole(&FILE).cut_after(1_000_000),
        _ => whole(&FILE),
    });
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        check_tensors(&loader, &["first", "second", "third", "fourth"]).await;
    });
    assert_eq!((server.requests().len(), server.sent()), (2, 1_000_000 + FILE.len()));
}

/// To get to a tensor at the end of such a body takes as long as all before it.
#[test]
fn what_is_skipped_is_no_stall() {
    let server = Server::new(|_| whole(&FILE).slowly(5));
    run(async {
        let loader = open(&server.url("/m")).await.unwrap();
        assert_loads(load(&loader, "fourth").await, "fourth");
    });
    assert_eq!(server.requests().len(), 1);
}
