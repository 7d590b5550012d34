//! One connection of a client: HTTP/1.1 requests without bodies, one after another.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::faults::Fate;
use crate::line::Queue;
use crate::proxy::Shared;

/// Small enough that a slow line is shared fairly, large enough for few system calls.
const PACKET_BYTES: usize = 32 << 10;

/// The head of a response.
#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    is_hit: bool,
    content_length: u64,
}

/// Serves the requests of one connection until it ends.
pub(crate) async fn serve(client: TcpStream, number: usize, line: &Queue, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    loop {
        let request = read_head(&mut client).await?;
        if request.is_empty() {
            return Ok(());
        }
        line.delay().await;
        let (at, fate) = shared.record(number);
        match fate {
            Fate::Close => return Ok(()),
            Fate::Busy(retry_after) => {
                client.write_all(retry_after.response().as_bytes()).await?;
                shared.update(at, |request| (request.status, request.is_whole) = (Some(503), true));
            }
            Fate::Pass | Fate::Slow | Fate::Cut(_) => forward(&request, &mut client, at, fate, line, shared).await?,
        }
    }
}

/// Forwards a request over a connection of its own, and its response.
async fn forward(
    request: &[u8],
    client: &mut BufReader<TcpStream>,
    at: usize,
    fate: Fate,
    line: &Queue,
    shared: &Shared,
) -> io::Result<()> {
    let mut server = BufReader::with_capacity(PACKET_BYTES, TcpStream::connect(shared.server).await?);
    server.write_all(request).await?;
    let bytes = read_head(&mut server).await?;
    let head = parse_head(&bytes).ok_or(ErrorKind::InvalidData)?;
    client.write_all(&bytes).await?;
    shared.update(at, |request| (request.status, request.is_hit) = (Some(head.status), head.is_hit));
    let end = match fate {
        Fate::Cut(part) => (head.content_length as f64 * part) as u64,
        _ => head.content_length,
    };
    let slow = (fate == Fate::Slow).then(|| line.slower());
    let (mut sent, mut packet) = (0, vec![0; PACKET_BYTES]);
    while sent < end {
        let capacity = packet.len().min(usize::try_from(end - sent).unwrap_or(usize::MAX));
        let length = server.read(packet.get_mut(..capacity).unwrap_or_default()).await?;
        if length == 0 || shared.is_out() {
            shared.update(at, |request| request.is_cut = true);
            return Err(ErrorKind::ConnectionAborted.into());
        }
        line.send(length).await;
        if let Some(slow) = &slow {
            slow.send(length).await;
        }
        client.write_all(packet.get(..length).unwrap_or_default()).await?;
        sent += length as u64;
        shared.update(at, |request| request.bytes = sent);
    }
    if sent < head.content_length {
        shared.update(at, |request| request.is_cut = true);
        return Err(ErrorKind::ConnectionAborted.into());
    }
    shared.update(at, |request| request.is_whole = true);
    Ok(())
}

/// Reads a head with its empty line. Empty at the end of the connection.
async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return if head.is_empty() { Ok(head) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
    }
    Ok(head)
}

/// `None` if the response does not state its length.
fn parse_head(head: &[u8]) -> Option<Head> {
    let head = str::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let value = |name: &str| {
        let named = lines.clone().filter_map(|line| line.split_once(": ")).find(|(n, _)| n.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value)
    };
    Some(Head {
        status,
        is_hit: value("X-Cache").is_some_and(|value| value.eq_ignore_ascii_case("hit")),
        content_length: value("Content-Length")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_length_and_whether_the_cache_had_the_response() {
        let head = b"HTTP/1.1 206 Partial Content\r\ncontent-length: 12\r\nX-Cache: HIT\r\n\r\n";
        assert_eq!(parse_head(head), Some(Head { status: 206, is_hit: true, content_length: 12 }));
        assert_eq!(parse_head(b"HTTP/1.1 206 Partial Content\r\nX-Cache: HIT\r\n\r\n"), None);
    }
}
