//! Files of any format over HTTP.

use super::server::{Reply, Request, Server, answer, whole};
use super::{options, run};
use std::rc::Rc;
use weightstream::internals::index::Digest;
use weightstream::internals::loader::RemoteFile;
use weightstream::internals::source::http::HttpSource;
use weightstream::{ErrorKind, Result};

fn content() -> Vec<u8> {
    (0..1_000_000u32).map(|at| (at.wrapping_mul(31) >> 3) as u8).collect()
}

async fn open(server: &Server, digest: Option<Digest>) -> Result<RemoteFile<HttpSource>> {
    RemoteFile::open(HttpSource::new(&server.url("/file"), &[])?, options().retry, digest).await
}

async fn open_head(server: &Server, first: std::ops::Range<u64>) -> Result<RemoteFile<HttpSource>> {
    RemoteFile::open_head(HttpSource::new(&server.url("/file"), &[])?, options().retry, None, None, first).await
}

/// Reads the range in chunks.
async fn read(file: &RemoteFile<HttpSource>, start: u64, end: u64) -> Result<Vec<u8>> {
    let (mut reader, mut bytes) = (file.read(start..end), Vec::new());
    while let Some(chunk) = reader.chunk(|buffer, length| buffer[..length as usize].to_vec()).await? {
        bytes.extend(chunk);
    }
    Ok(bytes)
}

#[test]
fn reads_ranges_and_whole_files() {
    let server = Server::new(|request| answer(&content(), request));
    run(async {
        let file = open(&server, None).await.unwrap();
        assert_eq!(file.byte_length(), Some(1_000_000));
        assert_eq!(read(&file, 100_000, 100_010).await.unwrap(), content()[100_000..100_010]);
        assert_eq!(read(&file, 0, u64::MAX).await.unwrap(), content());
        assert_eq!(read(&file, 2_000_000, u64::MAX).await.unwrap(), b"");
        let mut buffer = vec![0; 500_000];
        let mut reader = file.read(600_000..u64::MAX);
        let mut arrived = 0;
        let count =
            reader.fill(&mut buffer, 0..500_000, &mut |range| arrived += range.end - range.start).await.unwrap();
        assert_eq!((count, arrived), (400_000, 400_000));
        assert_eq!(buffer[..400_000], content()[600_000..]);
    });
}

#[test]
fn the_request_that_opens_a_file_is_its_first_read() {
    for (first, reads) in [(0..u64::MAX, 0..u64::MAX), (5000..400_000, 5000..400_000), (7..u64::MAX, 7..1_000_000)] {
        let server = Server::new(|request| answer(&content(), request));
        let (file, bytes) = run(async {
            let file = open_head(&server, first.clone()).await.unwrap();
            let bytes = read(&file, reads.start, reads.end).await.unwrap();
            (file, bytes)
        });
        assert_eq!(file.byte_length(), Some(1_000_000));
        assert_eq!(bytes, content()[reads.start as usize..reads.end.min(1_000_000) as usize]);
        assert_eq!(server.requests().len(), 1, "{first:?}");
    }
}

#[test]
fn reads_other_bytes_than_those_that_opened_the_file() {
    let server = Server::new(|request| answer(&content(), request));
    run(async {
        let file = open_head(&server, 0..1).await.unwrap();
        assert_eq!(read(&file, 999_990, u64::MAX).await.unwrap(), content()[999_990..]);
        assert_eq!(read(&file, 0, u64::MAX).await.unwrap(), content());
    });
}

#[test]
fn opens_at_the_head_whatever_the_server_answers() {
    run(async {
        let chunked = Server::new(|_| whole(&content()).chunked());
        assert_eq!(read(&open_head(&chunked, 0..u64::MAX).await.unwrap(), 0, u64::MAX).await.unwrap(), content());
        assert_eq!(read(&open_head(&chunked, 5..9).await.unwrap(), 5, 9).await.unwrap(), content()[5..9]);
        let empty = Server::new(|_| Reply::new(416, b"").with("Content-Range", "bytes */0"));
        assert_eq!(open_head(&empty, 0..u64::MAX).await.unwrap().byte_length(), Some(0));
        let missing = Server::new(|_| Reply::new(404, b""));
        assert_eq!(open_head(&missing, 0..u64::MAX).await.unwrap_err().context.status, Some(404));
        let flaky = Server::new(|request| {
            let reply = answer(&content(), request);
            if request.number < 3 { reply.cut_after(if request.number == 0 { 0 } else { 200_000 }) } else { reply }
        });
        assert_eq!(read(&open_head(&flaky, 0..u64::MAX).await.unwrap(), 0, u64::MAX).await.unwrap(), content());
    });
}

#[test]
fn reads_a_file_of_unknown_length() {
    let server = Server::new(|_| whole(&content()).chunked());
    run(async {
        let file = open(&server, None).await.unwrap();
        assert_eq!(file.byte_length(), None);
        assert_eq!(read(&file, 0, u64::MAX).await.unwrap(), content());
    });
}

#[test]
fn resumes_a_broken_download() {
    let server = Server::new(|request| {
        let reply = answer(&content(), request);
        if request.number < 4 { reply.cut_after(200_000) } else { reply }
    });
    let bytes = run(async { read(&open(&server, None).await?, 0, u64::MAX).await });
    assert_eq!(bytes.unwrap(), content());
}

/// Servers that refuse a range whose end is beyond the file, as the first request for a small file has it.
#[test]
fn opens_a_small_file_on_servers_that_refuse_ranges_beyond_its_end() {
    let is_beyond = |request: &Request| request.range.as_ref().is_some_and(|range| range.end > 1272);
    let refusals: [fn() -> Reply; 4] = [
        || Reply::new(416, b"").with("Content-Range", "bytes */1272"),
        || Reply::new(416, b""),
        || Reply::new(404, b"not found"),
        || Reply::new(400, b"bad range"),
    ];
    for refusal in refusals {
        let server = Server::new(move |request| match is_beyond(request) {
            true => refusal(),
            false => answer(&content()[..1272], request),
        });
        run(async {
            let file = open(&server, None).await.unwrap();
            assert_eq!(read(&file, 0, u64::MAX).await.unwrap(), content()[..1272]);
            assert_eq!(read(&file, 1000, 1010).await.unwrap(), content()[1000..1010]);
        });
    }
    let server = Server::new(|request| answer(&content()[..1272], request).with("Content-Range", "bytes 0-65535/1272"));
    assert_eq!(run(async { read(&open(&server, None).await?, 0, u64::MAX).await }).unwrap(), content()[..1272]);
}

/// A server that hides or does not know the length of the file.
#[test]
fn an_unknown_end_is_requested_without_a_number() {
    let server = Server::new(|request| {
        let reply = answer(&content(), request);
        match request.range.clone() {
            Some(range) if range.start < content().len() => {
                let last = range.end.min(content().len()) - 1;
                reply.with("Content-Range", &format!("bytes {}-{last}/*", range.start))
            }
            _ => Reply::new(416, b""),
        }
    });
    assert_eq!(run(async { read(&open(&server, None).await?, 0, u64::MAX).await }).unwrap(), content());
    let ranges: Vec<_> = server.requests().iter().map(|request| request.header("range").unwrap().to_owned()).collect();
    assert_eq!(ranges[..2], ["bytes=0-65535", "bytes=65536-"]);
}

#[test]
fn opens_an_empty_file() {
    for is_range in [true, false] {
        let range = || Reply::new(416, b"").with("Content-Range", "bytes */0");
        let server = Server::new(move |_| if is_range { range() } else { Reply::new(200, b"") });
        let bytes = run(async { read(&open(&server, None).await?, 0, u64::MAX).await });
        assert_eq!(bytes.unwrap(), b"");
    }
}

#[test]
fn a_416_that_does_not_state_an_empty_file_is_an_error() {
    for content_range in [None, Some("bytes */1000")] {
        let server = Server::new(move |_| match content_range {
            Some(range) => Reply::new(416, b"").with("Content-Range", range),
            None => Reply::new(416, b""),
        });
        let error = run(async { open(&server, None).await }).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Truncated, "{error}");
    }
}

#[test]
fn refuses_a_file_with_another_digest_before_its_last_bytes() {
    for is_chunked in [false, true] {
        let server = Server::new(move |request| match is_chunked {
            true => whole(&content()).chunked(),
            false => answer(&content(), request),
        });
        run(async {
            let file = Rc::new(open(&server, Some(Digest::Crc32(7))).await.unwrap());
            assert_eq!(read(&file, 10, 20).await.unwrap(), content()[10..20]);
            let (mut reader, mut delivered) = (file.read(0..u64::MAX), 0);
            let error = loop {
                match reader.chunk(|_, length| length).await {
                    Ok(Some(length)) => delivered += length,
                    Ok(None) => panic!("the file was accepted"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind, ErrorKind::Checksum, "{error}");
            assert!(delivered < 1_000_000, "{delivered}");
        });
    }
}
