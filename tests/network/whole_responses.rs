//! Servers that respond to each Range request with the whole file.

use super::server::{Server, whole};
use super::{FILE, TENSORS, options, run};
use futures::TryStreamExt;
use std::rc::Rc;
use weightstream::internals::loader::Loader;
use weightstream::internals::source::http::HttpSource;

#[test]
fn distant_tensors_are_read_from_one_body() {
    let server = Server::new(|_| whole(&FILE));
    run(async {
        let options = options().with_coalesce_gap_bytes(0);
        let source = HttpSource::new(&server.url("/m"), &[]).unwrap();
        let loader = Rc::new(Loader::open(source, options).await.unwrap());
        let names = vec!["fourth".to_owned(), "second".to_owned()];
        let loaded: Vec<_> = loader.tensors(Some(names), Rc::new(())).await.unwrap().try_collect().await.unwrap();
        let loaded: Vec<_> = loaded.iter().map(|loaded| (&*loaded.tensor.name, &loaded.components[0].buffer)).collect();
        assert!(loaded == [(TENSORS[1].0, &TENSORS[1].1), (TENSORS[3].0, &TENSORS[3].1)]);
    });
    assert_eq!((server.requests().len(), server.sent()), (1, FILE.len()));
}
