//! A file that is kept open is read as one version: the old one, the new one, or `CHANGED`.

use super::server::{Reply, Request, Server, answer, limited, whole};
use super::{options, run};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::source::http::HttpSource;
use weightstream::{ErrorKind, Result};

const DATE: &str = "Fri, 13 Nov 2026 00:00:00 GMT";

static OLD: LazyLock<Vec<u8>> = LazyLock::new(|| content(1));
static NEW: LazyLock<Vec<u8>> = LazyLock::new(|| content(2));

fn content(seed: u32) -> Vec<u8> {
    (0..600_000u32).map(|at| (at.wrapping_mul(31).wrapping_add(seed.wrapping_mul(77)) >> 3) as u8).collect()
}

/// What a server without strong ETags sends to identify a version.
pub(crate) type Validators = fn(Reply, is_new: bool, &Request) -> Reply;

pub(crate) const WITHOUT_STRONG_ETAGS: [(&str, Validators); 5] = [
    ("weak ETags", |reply, is_new, _| reply.with("ETag", if is_new { "W/\"v1\"" } else { "W/\"v0\"" })),
    ("equal weak ETags", |reply, _, _| reply.with("ETag", "W/\"v0\"")),
    ("random ETags", |reply, _, request| reply.with("ETag", &format!("\"{}\"", request.number))),
    ("equal dates", |reply, _, _| reply.without("ETag").with("Last-Modified", DATE)),
    ("no validators", |reply, _, _| reply.without("ETag")),
];

/// A server whose file changes when the flag is set.
fn changing(validators: Validators, new: &'static [u8]) -> (Server, Arc<AtomicBool>) {
    let is_new = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_new);
    let server = Server::new(move |request| {
        let is_new = flag.load(Ordering::Relaxed);
        validators(answer(if is_new { new } else { &OLD }, request), is_new, request)
    });
    (server, is_new)
}

async fn open(server: &Server) -> Result<RemoteFile<HttpSource>> {
    RemoteFile::open(HttpSource::new(&server.url("/file"), &[])?, options().retry, None).await
}

async fn read(file: &RemoteFile<HttpSource>, range: Range<u64>) -> Result<Vec<u8>> {
    let (mut reader, mut bytes) = (file.read(range), Vec::new());
    while let Some(chunk) = reader.chunk(|buffer, length| buffer[..length as usize].to_vec()).await? {
        bytes.extend(chunk);
    }
    Ok(bytes)
}

fn slice(bytes: &[u8], range: &Range<u64>) -> Vec<u8> {
    bytes[range.start as usize..(range.end as usize).min(bytes.len())].to_vec()
}

#[test]
fn later_reads_of_an_open_file_are_of_the_same_version() {
    for (name, validators) in WITHOUT_STRONG_ETAGS {
        for second in [100_000..600_000, 131_072..140_000, 300_000..300_010, 599_999..600_000, 10..u64::MAX] {
            let (server, is_new) = changing(validators, &NEW);
            run(async {
                let file = open(&server).await.unwrap();
                assert_eq!(read(&file, 0..100_000).await.unwrap(), slice(&OLD, &(0..100_000)), "{name}");
                is_new.store(true, Ordering::Relaxed);
                let error = read(&file, second.clone()).await.expect_err(name);
                assert_eq!(error.kind, ErrorKind::Changed, "{name}, {second:?}: {error}");
                let again = read(&file, 200_000..210_000).await.expect_err(name);
                assert_eq!(again.kind, ErrorKind::Changed, "{name}: a changed file stays changed");
            });
        }
    }
}

#[test]
fn reads_of_an_unchanged_file_agree_in_any_order() {
    for (name, validators) in WITHOUT_STRONG_ETAGS {
        let (server, _) = changing(validators, &NEW);
        run(async {
            let file = open(&server).await.unwrap();
            for range in [500_000..500_100, 100..200, 70_000..400_000, 599_000..u64::MAX, 65_536..131_072, 0..600_000] {
                let bytes = read(&file, range.clone()).await;
                assert_eq!(bytes.expect(name), slice(&OLD, &range), "{name}, {range:?}");
            }
        });
        // Random ETags are recognized only by further requests.
        assert!(server.sent() < 5 * OLD.len(), "{name}: {} bytes were sent", server.sent());
    }
}

#[test]
fn limited_responses_of_an_open_file_are_continued() {
    for (name, validators) in WITHOUT_STRONG_ETAGS {
        for limit in [140_000, 400_000] {
            let server = Server::new(move |request| {
                let reply = answer(&OLD, &limited(request, limit));
                validators(reply, false, request)
            });
            run(async {
                let (source, retry) = (HttpSource::new(&server.url("/file"), &[]), options().retry.max_attempts(0));
                let file = RemoteFile::open(source.unwrap(), retry, None).await.unwrap();
                for range in [500_000..500_100, 0..600_000, 130_000..599_000] {
                    let bytes = read(&file, range.clone()).await;
                    assert_eq!(bytes.expect(name), slice(&OLD, &range), "{name}, {limit}, {range:?}");
                }
            });
        }
    }
}

/// Some servers refuse a range that ends beyond the file.
#[test]
fn a_later_request_does_not_reach_beyond_the_file() {
    for (name, validators) in WITHOUT_STRONG_ETAGS {
        let server = Server::new(move |request| match &request.range {
            Some(range) if range.end > OLD.len() && request.number > 0 => Reply::new(416, b""),
            _ => validators(answer(&OLD, request), false, request),
        });
        run(async {
            let file = open(&server).await.unwrap();
            for range in [0..600_000, 300_000..600_000, 599_000..600_000, 590_000..599_999] {
                assert_eq!(read(&file, range.clone()).await.expect(name), slice(&OLD, &range), "{name}, {range:?}");
            }
        });
    }
}

/// The whole file, which such a server sends for a refused range, may have to be continued.
#[test]
fn a_continued_request_does_not_reach_beyond_the_file() {
    const FILE: Range<usize> = 0..61_824;
    let server = Server::new(|request| match &request.range {
        Some(range) if range.end > FILE.end => Reply::new(416, b""),
        Some(_) => answer(&OLD[FILE], request),
        None => whole(&OLD[FILE]).without_end(),
    });
    run(async {
        let retry = options().retry.stall_ms(200);
        let source = HttpSource::new(&server.url("/file"), &[]).unwrap();
        let file = RemoteFile::open(source, retry, None).await.unwrap();
        assert_eq!(read(&file, 33_623..34_608).await.unwrap(), slice(&OLD, &(33_623..34_608)));
        assert_eq!(read(&file, 0..u64::MAX).await.unwrap(), slice(&OLD, &(0..61_824)));
    });
}

/// The versions differ only in bytes that were read long before.
#[test]
fn bytes_that_were_read_are_compared_when_they_arrive_again() {
    static LATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut new = OLD.clone();
        new[150_000] ^= 1;
        new
    });
    for (name, validators) in WITHOUT_STRONG_ETAGS {
        let (server, is_new) = changing(validators, &LATE);
        run(async {
            let file = open(&server).await.unwrap();
            read(&file, 0..400_000).await.unwrap();
            is_new.store(true, Ordering::Relaxed);
            let error = read(&file, 140_000..160_000).await.expect_err(name);
            assert_eq!(error.kind, ErrorKind::Changed, "{name}: {error}");
        });
    }
}

#[test]
fn a_file_that_grows_or_shrinks_is_changed() {
    static LONGER: LazyLock<Vec<u8>> = LazyLock::new(|| [&OLD[..], &NEW[..]].concat());
    for new in [&LONGER[..], &OLD[..400_000], &OLD[..90_000]] {
        for (name, validators) in WITHOUT_STRONG_ETAGS {
            let (server, is_new) = changing(validators, new);
            run(async {
                let file = open(&server).await.unwrap();
                read(&file, 0..100_000).await.unwrap();
                is_new.store(true, Ordering::Relaxed);
                let error = read(&file, 100_000..600_000).await.expect_err(name);
                assert!(matches!(error.kind, ErrorKind::Changed | ErrorKind::Truncated), "{name}: {error}");
            });
        }
    }
}

#[test]
fn strong_etags_need_no_overlap() {
    let server = Server::new(|request| answer(&OLD, request));
    run(async {
        let file = open(&server).await.unwrap();
        assert_eq!(read(&file, 300_000..310_000).await.unwrap(), slice(&OLD, &(300_000..310_000)));
        assert_eq!(read(&file, 100_000..110_000).await.unwrap(), slice(&OLD, &(100_000..110_000)));
    });
    assert_eq!(server.ranges(), [0..65_536, 300_000..310_000, 100_000..110_000]);
}
