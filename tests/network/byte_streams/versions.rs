//! Files that change while streams of a tensor are read: numbers of two versions are never mixed.

use super::*;
use crate::server::{Reply, whole};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weightstream::internals::source::http::HttpSource;

/// A file of the same length in which every raw mantissa byte differs.
fn other_version() -> Vec<u8> {
    let reader = Reader::from_bytes(vec![("m.zt".to_owned(), FILE.clone())]).unwrap();
    let streams = reader.tensor("t").unwrap().components[0].streams().unwrap().clone();
    let mut other = FILE.clone();
    for stream in streams.iter().filter(|stream| !stream.is_zstd) {
        other[stream.range.start as usize..stream.range.end as usize].iter_mut().for_each(|byte| *byte ^= 0xff);
    }
    other
}

/// A server without validators has another file of the same length after some requests.
#[test]
fn rows_are_of_one_version_without_validators() {
    let other = other_version();
    for later in 0..4 {
        let (other, changes_at) = (other.clone(), Arc::new(AtomicUsize::new(usize::MAX)));
        let at = Arc::clone(&changes_at);
        let server = Server::new(move |request| {
            let file = if request.number >= at.load(Ordering::Relaxed) { &other } else { &FILE };
            answer(file, request).without("ETag")
        });
        run(async {
            let loader = open(&server.url("/m.zt")).await.unwrap();
            // reads the seek table
            loader.load_tensor("t", of_rows(&(4000..4001)), Rc::new(())).await.unwrap();
            changes_at.store(server.requests().len() + later, Ordering::Relaxed);
            let wanted = 3000..3001;
            match loader.load_tensor("t", of_rows(&wanted), Rc::new(())).await {
                Err(error) => println!("{later}: {error}"),
                Ok(loaded) => {
                    let one = &DATA[3000 * ROW_BYTES..3001 * ROW_BYTES];
                    let two: Vec<u8> =
                        one.iter().enumerate().map(|(at, byte)| if at % 4 < 3 { byte ^ 0xff } else { *byte }).collect();
                    let found = &loaded.components[0].buffer;
                    assert!(
                        found == one || *found == two,
                        "{later}: numbers of two versions, as {:?}",
                        loaded.verified
                    );
                }
            }
        });
    }
}

type Alter = fn(Reply, usize) -> Reply;

/// Validators that prove nothing.
const UNPROVEN: [(&str, Alter); 5] = [
    ("none", |reply, _| reply.without("ETag")),
    ("dates", |reply, _| reply.without("ETag").with("Last-Modified", "Fri, 13 Nov 2026 00:00:00 GMT")),
    ("weak", |reply, number| reply.with("ETag", &format!("W/\"{number}\""))),
    ("random", |reply, number| reply.with("ETag", &format!("\"{number}\""))),
    ("same", |reply, _| reply),
];

async fn pieces(loader: &HttpLoader, rows: Option<Range<u64>>) -> weightstream::Result<Vec<u8>> {
    let mut reader = loader.read_tensors(Some(vec!["t".to_owned()]), rows).await?;
    reader.next().await?.unwrap();
    let (mut all, mut piece) = (Vec::new(), vec![0; 300_001]);
    loop {
        let length = reader.fill(&mut piece, 0..300_001).await?;
        all.extend_from_slice(&piece[..length as usize]);
        if length < 300_001 {
            return Ok(all);
        }
    }
}

/// A file that changes between any two requests, and of which nothing proves the version, is never mixed.
#[test]
fn no_call_mixes_versions() {
    let other = Arc::new(other_version());
    let other_data: Vec<u8> =
        DATA.iter().enumerate().map(|(at, byte)| if at % 4 < 3 { byte ^ 0xff } else { *byte }).collect();
    let mut mixed = Vec::new();
    for (name, alter) in UNPROVEN {
        for call in 0..6 {
            for later in 0..5 {
                let (other, changes_at) = (other.clone(), Arc::new(AtomicUsize::new(usize::MAX)));
                let at = Arc::clone(&changes_at);
                let server = Server::new(move |request| {
                    let is_new = request.number >= at.load(Ordering::Relaxed);
                    let reply = alter(answer(if is_new { &other } else { &FILE }, request), request.number);
                    if name == "same" && is_new { reply.without("ETag") } else { reply }
                });
                run(async {
                    let options = super::super::options().with_verify(false);
                    let loader = Loader::open(HttpSource::new(&server.url("/m.zt"), &[]).unwrap(), options).await;
                    let loader = Rc::new(loader.unwrap());
                    if call < 3 {
                        loader.load_tensor("t", of_rows(&(4000..4001)), Rc::new(())).await.unwrap();
                    }
                    changes_at.store(server.requests().len() + later, Ordering::Relaxed);
                    let load = async |request: TensorRequest<Vec<u8>>| {
                        let loaded = loader.load_tensor("t", request, Rc::new(())).await?;
                        Ok(loaded.components.into_iter().next().unwrap().buffer)
                    };
                    let wanted = if call < 3 { 3000..3001 } else { 0..ROWS };
                    let found = match call {
                        0 => load(of_rows(&wanted)).await,
                        1 => pieces(&loader, Some(3000..3001)).await,
                        2 => viewed(&loader, 3000..3001).await,
                        3 => load(TensorRequest::default()).await,
                        4 => pieces(&loader, None).await,
                        _ => viewed(&loader, 0..ROWS as u64).await,
                    };
                    let one = &DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES];
                    if let Ok(found) = found
                        && found != one
                        && found != other_data[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES]
                    {
                        mixed.push(format!("{name}, call {call}, {later} requests later"));
                    }
                });
            }
        }
    }
    assert!(mixed.is_empty(), "{mixed:#?}");
}

/// A server that ignores ranges from some request on. The table of frames of the first stream is known by then, at the
/// offset of the component.
#[test]
fn rows_are_right_once_a_server_ignores_ranges() {
    static IGNORES: AtomicBool = AtomicBool::new(false);
    let server =
        Server::new(|request| if IGNORES.load(Ordering::Relaxed) { whole(&FILE) } else { answer(&FILE, request) });
    run(async {
        let loader = open(&server.url("/m.zt")).await.unwrap();
        loader.load_tensor("t", of_rows(&(10..20)), Rc::new(())).await.unwrap();
        IGNORES.store(true, Ordering::Relaxed);
        let mut wrong = Vec::new();
        for at in 0..6 {
            let wanted = 2000 + at * 500..2100 + at * 500;
            match loader.load_tensor("t", of_rows(&wanted), Rc::new(())).await {
                Ok(found) if found.components[0].buffer == DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES] => {}
                Ok(_) => wrong.push(format!("rows {wanted:?}: other bytes")),
                Err(error) => wrong.push(format!("rows {wanted:?}: {error}")),
            }
            match pieces(&loader, Some(wanted.start as u64..wanted.end as u64)).await {
                Ok(found) if found == DATA[wanted.start * ROW_BYTES..wanted.end * ROW_BYTES] => {}
                Ok(_) => wrong.push(format!("pieces {wanted:?}: other bytes")),
                Err(error) => wrong.push(format!("pieces {wanted:?}: {error}")),
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

#[test]
fn a_disappearing_etag_does_not_fail_side_by_side() {
    let mut failed = Vec::new();
    for later in 0..6 {
        let first = Arc::new(AtomicUsize::new(usize::MAX));
        let at = Arc::clone(&first);
        let server = Server::new(move |request| {
            let reply = answer(&FILE, request);
            if request.number >= at.load(Ordering::Relaxed) { reply.without("ETag") } else { reply }
        });
        run(async {
            let loader = open(&server.url("/m.zt")).await.unwrap();
            first.store(server.requests().len() + later, Ordering::Relaxed);
            let loaded = loader.load_tensor("t", TensorRequest::default(), Rc::new(())).await;
            match loaded {
                Ok(loaded) => assert!(loaded.components[0].buffer == *DATA),
                Err(error) => failed.push(format!("{later}: {error}")),
            }
        });
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
